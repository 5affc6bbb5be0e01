"""What every engine is asked to do. Greedy, without an end: outputs have exactly these lengths.

Imported by the drivers too, in environments that have nothing but the standard library in common.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_LOWEST_ID, _HIGHEST_ID = 100, 40_000
"""Ordinary tokens in any vocabulary of the size of the small models'."""


@dataclass(frozen=True)
class Workload:
    """One workload, by the letter that the tables give it."""

    letter: str
    title: str
    requests: int
    shared: int
    """Prompt tokens that all requests have in common."""
    own: int
    """Prompt tokens of each request after them."""
    output: int
    """Tokens of each output."""

    def prompts(self, seed: int) -> list[list[int]]:
        """The requests' prompts; other ones for every seed."""
        rng = random.Random(f"{self.letter}{seed}")
        prefix = [rng.randint(_LOWEST_ID, _HIGHEST_ID) for _ in range(self.shared)]
        return [
            prefix + [rng.randint(_LOWEST_ID, _HIGHEST_ID) for _ in range(self.own)]
            for _ in range(self.requests)
        ]


@dataclass(frozen=True)
class Figure:
    """One number that a workload gives."""

    workload: str
    key: str
    title: str
    higher_is_better: bool
    scale: float = 1.0
    """From what is recorded to what is shown."""


WORKLOADS = {
    workload.letter: workload
    for workload in (
        Workload("a", "one stream, 128 in, 128 out", 1, 0, 128, 128),
        Workload("b", "32 requests at once, 128 in, 128 out", 32, 0, 128, 128),
        Workload("c", "one prompt of 2,048", 1, 0, 2048, 2),
        Workload(
            "d", "16 requests sharing 1,024 tokens, 32 of their own, 32 out", 16, 1024, 32, 32
        ),
        Workload("e", "process start to first token, 128 in", 1, 0, 128, 1),
    )
}

FIGURES = (
    Figure("a", "decode_tok_s", "decode, tok/s", True),
    Figure("a", "ttft_s", "time to first token, ms", False, 1000),
    Figure("b", "output_tok_s", "output, tok/s", True),
    Figure("c", "prefill_tok_s", "prefill, tok/s", True),
    Figure("d", "wall_s", "wall, s", False),
    Figure("e", "first_token_s", "start to first token, s", False),
    Figure("e", "peak_rss_bytes", "peak memory, MB", False, 1e-6),
)
