"""Steps that the device is still at, and their tokens, which the next step needs at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.messages import RunnerOutput, TokenLogprobs
from runtime.core.platform.interface import HostCopy
from runtime.core.runner.buffers import MirroredBuffer, put
from runtime.core.runner.input_batch import InputBatch, RequestState


class ReadyCopy:
    """A host copy that is there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def wait(self) -> torch.Tensor:
        """It."""
        return self._tensor


class LastTokens:
    """Each row's newest token, on the device, and a step's input ids made with them."""

    def __init__(
        self,
        num_rows: int,
        input_ids: MirroredBuffer,
        make: Callable[[tuple[int, ...], torch.dtype], MirroredBuffer],
    ) -> None:
        """``input_ids`` has a step's ids as far as the host knows them; ``make`` makes buffers."""
        self._ids = input_ids
        tokens = input_ids.device_tensor.shape[0]
        # -1 where the host knows the token, else the row whose newest token it is.
        self._sources = make((tokens,), torch.int64)
        self._rows = make((num_rows,), torch.int64)
        device = input_ids.device_tensor.device
        self._tokens = torch.zeros(num_rows, dtype=torch.int32, device=device)
        self._filled = torch.zeros(tokens, dtype=torch.int32, device=device)

    def fill_in(
        self, rows: npt.NDArray[np.int64], pending: npt.NDArray[np.bool_], padding: int
    ) -> torch.Tensor:
        """Input ids [T + padding] int32, always at one address.

        rows [T] is the batch's row of each token, pending [T] whether the host knows it not yet.
        """
        total = len(rows) + padding
        filled = self._filled[:total]
        known = self._ids.device_tensor[:total]
        if not pending.any():
            filled.copy_(known)
            return filled
        put(self._sources, np.where(pending, rows, -1), padding, fill=-1)
        source = self._sources.push(total)
        newest = self._tokens.index_select(0, source.clamp_min(0))
        filled.copy_(torch.where(source < 0, known, newest))
        return filled

    def put(self, rows: Sequence[int], tokens: torch.Tensor) -> None:
        """Set the newest tokens of rows; tokens [n] of any integer dtype."""
        self._rows.host[: len(rows)] = rows
        self._tokens.index_copy_(0, self._rows.push(len(rows)), tokens.to(torch.int32))


class StepUnderWay:
    """One step: whose tokens it gives, and their copy to the host."""

    def __init__(
        self,
        steps: StepsUnderWay,
        states: Sequence[RequestState],
        tokens: HostCopy,
        prompt_logprobs: Mapping[str, list[TokenLogprobs]],
        failed: Mapping[str, str],
    ) -> None:
        self._steps = steps
        self.states = states
        self.tokens = tokens
        self._prompt_logprobs = dict(prompt_logprobs)
        self._failed = dict(failed)
        self.sampled: dict[str, int] | None = None

    def result(self) -> RunnerOutput:
        """Its tokens; waits for it and for those before it."""
        if self.sampled is None:
            self._steps.settle(self)
        assert self.sampled is not None
        return RunnerOutput(self.sampled, {}, self._prompt_logprobs, self._failed)


class StepsUnderWay:
    """Steps in the order of their submission, and the batch whose tokens they settle."""

    def __init__(self, batch: InputBatch) -> None:
        self._batch = batch
        self._steps: deque[StepUnderWay] = deque()

    def begin(
        self,
        states: Sequence[RequestState],
        tokens: HostCopy,
        prompt_logprobs: Mapping[str, list[TokenLogprobs]],
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> StepUnderWay:
        """Add a step whose tokens are pending in the batch."""
        step = StepUnderWay(self, states, tokens, prompt_logprobs, failed)
        self._steps.append(step)
        return step

    def settle(self, last: StepUnderWay | None = None) -> None:
        """Wait for steps up to ``last``, by default for all, and put their tokens in the batch."""
        while self._steps:
            step = self._steps.popleft()
            tokens: list[int] = step.tokens.wait().tolist()
            step.sampled = {}
            for state, token_id in zip(step.states, tokens, strict=True):
                self._batch.settle(state, token_id)
                step.sampled[state.request_id] = token_id
            if step is last:
                return
