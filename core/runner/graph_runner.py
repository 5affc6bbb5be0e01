"""A model runner that replays captured graphs for decode batches, on any platform that has them."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from runtime.core.attention.interface import GraphSupport
from runtime.core.kv_cache.spec import KVCacheLayout
from runtime.core.platform.interface import Graph, GraphRole, PiecewiseRole
from runtime.core.runner.model_runner import ModelRunner, StepInputs
from runtime.core.runner.pieces import StepPieces

logger = logging.getLogger(__name__)


class GraphModelRunner(ModelRunner):
    """Pads a batch of single tokens to the next captured size and replays that graph.

    Every other batch runs eagerly, as does everything under ``enforce_eager`` or where an
    attention backend cannot be captured.
    """

    @torch.inference_mode()
    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate the KV cache, then capture, unless the platform captures steps as they come."""
        super().initialize_cache(layout, max_model_len)
        self.graphs: dict[int, Graph] = {}
        self.num_replays = 0
        self.pieces: StepPieces | None = None
        self._sizes: list[int] = []
        reason = self._reason_against()
        if reason is not None:
            logger.info("graphs: none are captured: %s", reason)
            return
        policy = self.config.platform.policy
        self._sizes = sorted(policy.capture_sizes(self.config.scheduler.max_num_seqs))
        most, hidden_size = self._sizes[-1], int(self.config.model.hf.hidden_size)
        self._hidden = torch.zeros(
            (most, hidden_size), dtype=self.config.model.dtype, device=self.device
        )
        logits = self.model.compute_logits(self._hidden[:1])
        self._logits = logits.new_empty((most, logits.shape[1]))
        self._most_likely = torch.zeros(most, dtype=torch.int64, device=self.device)
        if self._role.computes_while_capturing:
            logger.info("graphs: a batch size is captured by its first batch")
            return
        progress = tqdm(
            # Largest first: smaller graphs then find room in the memory that it has taken.
            self._sizes[::-1],
            desc="Capturing graphs",
            unit="size",
            disable=not self.config.load.use_tqdm,
        )
        for size in progress:
            inputs = self.assemble([], np.zeros(0, dtype=np.int32), size)
            # Once before the capture: whatever is set up lazily is set up now.
            self._work(size, inputs)
            self._capture(size, inputs)
        logger.info("graphs: captured for batches of %s", ", ".join(map(str, self._sizes)))
        self._capture_pieces()

    def padding_of(self, counts: npt.NDArray[np.int32]) -> int:
        """What a batch of single tokens lacks of the next size that has a graph."""
        reqs = len(counts)
        if not self._sizes or counts.max() > 1 or reqs > self._sizes[-1]:
            return 0
        return next(size for size in self._sizes if size >= reqs) - reqs

    def spare_of(self, counts: npt.NDArray[np.int32]) -> int:
        """What a step with prompts lacks of the next number of tokens that is captured."""
        if self.pieces is None or counts.max() <= 1:
            return 0
        total = int(counts.sum())
        return self.pieces.padded(total) - total

    def run_model(self, inputs: StepInputs) -> torch.Tensor:
        """Replay the batch's graph, capture it, or run eagerly where there is none."""
        size = len(inputs.counts) + inputs.padding
        if self.pieces is not None and not inputs.single:
            hidden = self.pieces.run(inputs)
            if hidden is not None:
                return hidden
        if not inputs.single or not self._sizes or size > self._sizes[-1]:
            return super().run_model(inputs)
        if size in self.graphs:
            self.graphs[size].replay()
            self.num_replays += 1
        else:
            self._capture(size, inputs)
        return self._hidden[:size]

    @property
    def _role(self) -> GraphRole:
        graphs = self.config.platform.graphs
        assert graphs is not None
        return graphs

    def _reason_against(self) -> str | None:
        if self.config.model.enforce_eager:
            return "enforce_eager is set"
        if self.config.model.pooling is not None:
            return "the model pools, so that no step is a decode"
        if self.config.platform.graphs is None:
            return "the platform captures none"
        least = GraphSupport.UNIFORM_SINGLE_TOKEN_DECODE
        unfit = {
            layer.backend.name
            for layer in self.attention_layers.values()
            if layer.backend.graph_support < least
        }
        if unfit:
            return f"attention backend {', '.join(sorted(unfit))} cannot be captured"
        if not self.config.platform.policy.capture_sizes(self.config.scheduler.max_num_seqs):
            return "the platform's policy names no batch sizes"
        return None

    def _capture_pieces(self) -> None:
        limit = self.config.scheduler.max_num_batched_tokens
        sizes = [s for s in self.config.platform.policy.piece_sizes(limit) if s <= limit]
        if not sizes or not isinstance(self._role, PiecewiseRole):
            return
        self.pieces = StepPieces(self, self._role, sizes)
        beside = next(iter(self.graphs.values()), None)
        for size in tqdm(
            self.pieces.sizes[::-1],
            desc="Capturing pieces",
            unit="size",
            disable=not self.config.load.use_tqdm,
        ):
            self.pieces.capture(size, beside)
        logger.info("graphs: captured in pieces for steps of up to %d tokens", sizes[-1])

    def _capture(self, size: int, inputs: StepInputs) -> None:
        other = next(iter(self.graphs.values()), None)
        self.graphs[size] = self._role.capture(lambda: self._work(size, inputs), other)

    def _work(self, size: int, inputs: StepInputs) -> None:
        """What is captured: the model, its logits, and the most likely tokens."""
        hidden = super().run_model(inputs)
        self._hidden[:size].copy_(hidden)
        logits = self.model.compute_logits(hidden)
        self._logits[:size].copy_(logits)
        self._most_likely[:size].copy_(self.sampler.most_likely(logits))

    def logits_of(self, inputs: StepInputs, hidden: torch.Tensor, rows: list[int]) -> torch.Tensor:
        """The graph's, where the step was one."""
        if self._has(inputs, rows):
            return self._logits[: len(rows)]
        return super().logits_of(inputs, hidden, rows)

    def most_likely_of(
        self, inputs: StepInputs, hidden: torch.Tensor, rows: list[int]
    ) -> torch.Tensor:
        """The graph's, where the step was one."""
        if self._has(inputs, rows):
            return self._most_likely[: len(rows)]
        return super().most_likely_of(inputs, hidden, rows)

    def _has(self, inputs: StepInputs, rows: list[int]) -> bool:
        """Whether a graph has computed those rows of a step, and they are the first ones."""
        size = len(inputs.counts) + inputs.padding
        return inputs.single and size in self.graphs and rows[-1] == len(rows) - 1
