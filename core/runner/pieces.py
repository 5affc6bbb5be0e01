"""Steps with prompts whose pieces between attention layers are captured.

Attention depends on the step's lengths, so it runs eagerly; the rest depends on the number of
tokens alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from runtime.core.attention.layer import Attention
from runtime.core.forward_context import ForwardContext
from runtime.core.platform.interface import Graph, PiecewiseRole
from runtime.core.runner.model_runner import ModelRunner, StepInputs


class StepPieces:
    """Captured steps by their number of tokens."""

    def __init__(self, runner: ModelRunner, role: PiecewiseRole, sizes: Sequence[int]) -> None:
        self.sizes = sorted(sizes)
        self.num_replays = 0
        self._runner = runner
        self._role = role
        self._graphs: dict[int, Graph] = {}
        self._context = ForwardContext({})
        """Of the step that runs."""
        config = runner.config.model
        self._hidden = torch.zeros(
            (self.sizes[-1], int(config.hf.hidden_size)), dtype=config.dtype, device=runner.device
        )

    def padded(self, tokens: int) -> int:
        """The size that a step of so many tokens is padded to; itself where there is none."""
        return next((size for size in self.sizes if size >= tokens), tokens)

    def capture(self, size: int, beside: Graph | None) -> Graph:
        """Capture a step of ``size`` tokens; largest first, so that memory is shared best."""
        inputs = self._runner.assemble([], np.zeros(0, dtype=np.int32), 1, spare=size - 1)
        self._context = inputs.context
        # Once before the capture: whatever is set up lazily is set up now.
        self._runner.model.forward(inputs.input_ids, inputs.positions, inputs.context)

        def work(outside: Callable[..., None]) -> None:
            context = replace(inputs.context, outside=partial(self._leave, outside))
            hidden = self._runner.model.forward(inputs.input_ids, inputs.positions, context)
            self._hidden[:size].copy_(hidden)

        other = next(iter(self._graphs.values()), beside)
        graph = self._graphs[size] = self._role.capture_pieces(work, other)
        return graph

    def run(self, inputs: StepInputs) -> torch.Tensor | None:
        """Hidden states of a step by replay; None where no size is the step's."""
        size = inputs.input_ids.shape[0]
        graph = self._graphs.get(size)
        if graph is None:
            return None
        self._context = inputs.context
        graph.replay()
        self.num_replays += 1
        return self._hidden[:size]

    def _leave(
        self, outside: Callable[..., None], layer: Attention, *tensors: torch.Tensor
    ) -> None:
        outside(partial(self._attend, layer), *tensors)

    def _attend(
        self,
        layer: Attention,
        out: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *rotation: torch.Tensor,
    ) -> None:
        out.copy_(layer.attend(query, key, value, self._context, *rotation))
