"""Counting tokens."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.core.engine.outputs import RequestOutput
from runtime.core.entrypoints.server.protocol.base import PromptTokensDetails, UsageInfo


class UsageCounter:
    """Tokens that the requests of one HTTP request have taken so far."""

    def __init__(self) -> None:
        self._prompts: dict[int, tuple[int, int]] = {}
        self._completion = 0

    def add(self, index: int, output: RequestOutput) -> None:
        """Take in what is new of the prompt with this index."""
        self._prompts[index] = (len(output.prompt_token_ids), output.num_cached_tokens)
        self._completion += sum(len(one.token_ids) for one in output.outputs)

    def usage(self) -> UsageInfo:
        """What there is so far."""
        prompt = sum(tokens for tokens, _ in self._prompts.values())
        cached = sum(tokens for _, tokens in self._prompts.values())
        return UsageInfo(
            prompt_tokens=prompt,
            completion_tokens=self._completion,
            total_tokens=prompt + self._completion,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached),
        )


def usage_of(outputs: Iterable[RequestOutput]) -> UsageInfo:
    """Of whole outputs."""
    counter = UsageCounter()
    for index, output in enumerate(outputs):
        counter.add(index, output)
    return counter.usage()
