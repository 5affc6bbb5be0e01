"""Hugging Face transformers: ``generate``."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.generation.streamers import BaseStreamer

from benchmarks.peers.drivers.common import Job, Stream, serve


class Clock(BaseStreamer):
    """Notes when each token comes; the first call brings the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """A prompt or a token."""
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing to do."""


class Transformers:
    """A loaded model."""

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._model = AutoModelForCausalLM.from_pretrained(
            job.options["model"], dtype=getattr(torch, job.options["dtype"])
        ).eval()
        # Outputs have no end, and no minimum length has to be enforced at each step.
        self._model.generation_config.eos_token_id = None

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One request, token by token."""
        clock, start = Clock(), time.perf_counter()
        tokens = self._generate(torch.tensor([prompt]), output, streamer=clock)[0]
        times = clock.times[1:]
        return Stream(times[0] - start, times[-1] - times[0], tokens.tolist())

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """One batch."""
        return [len(row) for row in self._generate(torch.tensor(prompts), output)]

    @torch.inference_mode()
    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """The prefix once, its cache repeated for every request: the best case by hand."""
        cache = DynamicCache(config=self._model.config)
        prefix = torch.tensor([prompts[0][:shared]])
        self._model(prefix, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.batch_repeat_interleave(len(prompts))
        rows = self._generate(torch.tensor(prompts), output, past_key_values=cache)
        return [len(row) for row in rows]

    @torch.inference_mode()
    def _generate(self, ids: torch.Tensor, output: int, **options: object) -> torch.Tensor:
        """New tokens, one row a prompt."""
        whole = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=output,
            pad_token_id=0,
            **options,
        )
        return whole[:, ids.shape[1] :]


if __name__ == "__main__":
    serve(Transformers)
