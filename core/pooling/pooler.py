"""From a step's hidden states to the vectors of the prompts that end in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.messages import RunnerOutput
from runtime.core.platform.interface import MemoryRole
from runtime.core.pooling.params import Pooling, PoolingType, Vectors

if TYPE_CHECKING:
    from runtime.core.runner.model_runner import StepInputs

_LEAST_NORM = 1e-12
"""Shorter vectors are divided by this instead of by their length."""


class PoolingProgress:
    """What is kept of one prompt's hidden states until the last one is there.

    The prompt may be computed in several steps.
    """

    def __init__(self, pooling: Pooling) -> None:
        self.pooling = pooling
        self._kept: list[torch.Tensor] = []
        self._tokens = 0

    def take(self, hidden: torch.Tensor) -> None:
        """Take in the next tokens' hidden states [n, hidden_size], n at least 1."""
        self._tokens += hidden.shape[0]
        match self.pooling.type:
            case PoolingType.MEAN:
                # In float32 and text by text: a result depends on no other text of the batch.
                total = hidden.float().sum(0)
                self._kept = [self._kept[0] + total if self._kept else total]
            case PoolingType.CLS:
                self._kept = self._kept or [hidden[0].to(torch.float32, copy=True)]
            case PoolingType.LAST:
                self._kept = [hidden[-1].to(torch.float32, copy=True)]
            case PoolingType.ALL:
                self._kept.append(hidden.to(torch.float32, copy=True))

    def rows(self) -> torch.Tensor:
        """The prompt's vector [1, hidden_size] float32, or its tokens' [T, hidden_size]."""
        if self.pooling.type is PoolingType.ALL:
            return torch.cat(self._kept)
        (vector,) = self._kept
        if self.pooling.type is PoolingType.MEAN:
            vector = vector / self._tokens
        return vector[None]


def pool(inputs: StepInputs, hidden: torch.Tensor, memory: MemoryRole) -> RunnerOutput:
    """Pool a step's hidden states [T, hidden_size]; what it gives is of prompts that end here."""
    ended: list[tuple[str, PoolingProgress]] = []
    for index, state in enumerate(inputs.states):
        assert state.pooling is not None
        start, stop = inputs.query_start[index : index + 2].tolist()
        state.pooling.take(hidden[start:stop])
        if state.num_computed + stop - start == state.num_tokens:
            ended.append((state.request_id, state.pooling))
    if not ended:
        return RunnerOutput({}, {}, {})
    parts = [progress.rows() for _, progress in ended]
    host = memory.copy_to_host(torch.cat(parts)).numpy()
    ends = np.cumsum([part.shape[0] for part in parts])[:-1]
    pooled: dict[str, Vectors] = {}
    failed: dict[str, str] = {}
    for (request_id, progress), rows in zip(ended, np.split(host, ends), strict=True):
        if np.isfinite(rows).all():
            pooled[request_id] = finish(rows, progress.pooling)
        else:
            failed[request_id] = "the model's hidden states are not all finite numbers"
    return RunnerOutput({}, {}, {}, failed, pooled)


def finish(rows: npt.NDArray[np.float32], pooling: Pooling) -> Vectors:
    """Cut and normalise vectors [n, hidden_size], in this order."""
    rows = rows[:, : pooling.dimensions]
    if pooling.normalize:
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        rows = rows / np.maximum(lengths, _LEAST_NORM)
    shape = list(rows.shape) if pooling.type is PoolingType.ALL else [rows.shape[1]]
    return Vectors(shape, rows.astype("<f4").tobytes())
