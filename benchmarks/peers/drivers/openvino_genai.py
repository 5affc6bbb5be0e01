"""OpenVINO GenAI, which reads GGUF files itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import openvino
import openvino_genai as genai

from benchmarks.peers.drivers.common import Job, Stream, serve

_CACHE_GIB = 2


class Clock(genai.StreamerBase):
    """Notes when tokens come."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def write(self, token: int | Sequence[int]) -> genai.StreamingStatus:
        """One token, or several."""
        self.times.append(time.perf_counter())
        return genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Nothing to do."""


class OpenVINO:
    """A pipeline; with a scheduler only for shared prefixes: without one it is faster."""

    def __init__(self, job: Job) -> None:
        options: dict[str, object] = {"INFERENCE_NUM_THREADS": job.threads}
        if "d" in job.workloads:
            scheduler = genai.SchedulerConfig()
            scheduler.cache_size = _CACHE_GIB
            scheduler.enable_prefix_caching = True
            options["scheduler_config"] = scheduler
        self._pipeline = genai.LLMPipeline(job.options["model"], "CPU", **options)

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One request, token by token."""
        clock, start = Clock(), time.perf_counter()
        result = self._pipeline.generate(_inputs([prompt]), _greedy(output), clock)
        times = clock.times
        return Stream(times[0] - start, times[-1] - times[0], list(result.tokens[0]))

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """One batch."""
        result = self._pipeline.generate(_inputs(prompts), _greedy(output))
        return [len(tokens) for tokens in result.tokens]

    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """One request first, since those that are sent together do not find each other's blocks."""
        return self.batch(prompts[:1], output) + self.batch(prompts[1:], output)


def _inputs(prompts: Sequence[Sequence[int]]) -> genai.TokenizedInputs:
    ids = np.array(prompts, dtype=np.int64)
    return genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))


def _greedy(output: int) -> genai.GenerationConfig:
    config = genai.GenerationConfig()
    config.do_sample = False
    config.ignore_eos = True
    config.max_new_tokens = output
    return config


if __name__ == "__main__":
    serve(OpenVINO)
