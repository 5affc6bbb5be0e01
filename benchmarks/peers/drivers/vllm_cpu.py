"""vLLM's build for CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from vllm import LLM, SamplingParams

from benchmarks.peers.drivers.common import Job, Stream, serve


class VLLM:
    """A loaded model, in this process."""

    def __init__(self, job: Job) -> None:
        self._llm = LLM(**job.options, max_model_len=4096, max_num_seqs=32, disable_log_stats=False)

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One request; the times are the engine's own."""
        (result,) = self._generate([prompt], output)
        times = result.metrics
        return Stream(
            times.first_token_latency,
            times.last_token_ts - times.first_token_ts,
            list(result.outputs[0].token_ids),
        )

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """All at once."""
        return [len(one.outputs[0].token_ids) for one in self._generate(prompts, output)]

    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """All at once: its prefix cache finds what they share."""
        return self.batch(prompts, output)

    def _generate(self, prompts: Sequence[Sequence[int]], output: int) -> list:
        params = SamplingParams(
            temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False
        )
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        return self._llm.generate(requests, params, use_tqdm=False)


if __name__ == "__main__":
    serve(VLLM)
