"""The engine of this repository, through its public API."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.peers.drivers.common import Job, Stream, serve
from runtime import LLM, SamplingParams


class Runtime:
    """A loaded model."""

    def __init__(self, job: Job) -> None:
        self._llm = LLM(**job.options, max_num_seqs=32, use_tqdm_on_load=False)

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One request, token by token."""
        times: list[float] = []
        tokens: list[int] = []
        start = time.perf_counter()
        for step in self._llm.stream({"prompt_token_ids": list(prompt)}, _params(output)):
            times.append(time.perf_counter())
            tokens = step.outputs[0].token_ids
        return Stream(times[0] - start, times[-1] - times[0], list(tokens))

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """All at once."""
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._llm.generate(requests, _params(output), use_tqdm=False)
        return [len(one.outputs[0].token_ids) for one in outputs]

    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """All at once: the prefix cache finds what they share."""
        return self.batch(prompts, output)


def _params(output: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)


if __name__ == "__main__":
    serve(Runtime)
