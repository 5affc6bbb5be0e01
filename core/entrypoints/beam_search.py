"""Beam search on top of the engine: each step is one token of each beam.

Beams share their tokens' KV blocks through prefix caching. The rules are those of transformers'
``generate(num_beams=…, early_stopping=False)``, so that the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime.core.errors import RequestError
from runtime.core.messages import TokenLogprobs


@dataclass(frozen=True)
class BeamSearchParams:
    """How beams are searched.

    Raises:
        RequestError: a value is out of range; ``param`` names it.
    """

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    length_penalty: float = 1.0
    """A beam's score is its log-probability divided by its length to this power."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("beam_width", "max_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RequestError(f"{name}={value!r}: must be a positive integer", name)


@dataclass(frozen=True)
class BeamSearchSequence:
    """One beam. ``token_ids`` is its output alone, with the end-of-sequence token if it has one."""

    token_ids: list[int]
    cumulative_logprob: float
    score: float
    text: str = ""
    finish_reason: str = "length"


@dataclass(frozen=True)
class BeamSearchOutput:
    """A prompt's best beams, best first."""

    prompt_token_ids: list[int]
    sequences: list[BeamSearchSequence]


@dataclass(frozen=True)
class _Beam:
    token_ids: tuple[int, ...]
    logprob: float


@dataclass
class BeamSearch:
    """The search for one prompt.

    Each round: ask :meth:`pending` for the beams to continue, compute the ``2 * beam_width`` most
    likely next tokens of each, and hand them to :meth:`advance`. Twice the width is enough: even
    if every beam's best continuation is an end of sequence, as many others are left.
    """

    params: BeamSearchParams
    eos_token_ids: frozenset[int]
    beams: list[_Beam] = field(default_factory=lambda: [_Beam((), 0.0)])
    finished: list[BeamSearchSequence] = field(default_factory=list)
    length: int = 0

    def pending(self) -> list[tuple[int, ...]]:
        """Output tokens of each beam that goes on; empty when the search is over."""
        return [beam.token_ids for beam in self.beams]

    def advance(self, expansions: Sequence[TokenLogprobs]) -> None:
        """Take the most likely next tokens of each pending beam, in order."""
        width = self.params.beam_width
        candidates = [
            _Beam((*beam.token_ids, token_id), beam.logprob + logprob)
            for beam, entry in zip(self.beams, expansions, strict=True)
            for token_id, logprob in zip(entry.token_ids[1:], entry.logprobs[1:], strict=True)
        ]
        candidates.sort(key=lambda beam: -beam.logprob)
        self.length += 1
        going_on: list[_Beam] = []
        for rank, beam in enumerate(candidates[: 2 * width]):
            if not self._ends(beam):
                going_on.append(beam)
            elif rank < width:
                self._finish(beam, "stop")
        self.beams = going_on[:width]
        if self.length >= self.params.max_tokens:
            for beam in self.beams:
                self._finish(beam, "length")
            self.beams = []
        elif self._cannot_improve():
            self.beams = []

    def best(self) -> list[BeamSearchSequence]:
        """The finished beams, best first."""
        return self.finished[: self.params.beam_width]

    def _ends(self, beam: _Beam) -> bool:
        return not self.params.ignore_eos and beam.token_ids[-1] in self.eos_token_ids

    def _score(self, logprob: float, length: int) -> float:
        return logprob / float(length**self.params.length_penalty)

    def _finish(self, beam: _Beam, reason: str) -> None:
        score = self._score(beam.logprob, len(beam.token_ids))
        entry = BeamSearchSequence(list(beam.token_ids), beam.logprob, score, finish_reason=reason)
        self.finished.append(entry)
        self.finished.sort(key=lambda sequence: -sequence.score)
        del self.finished[self.params.beam_width :]

    def _cannot_improve(self) -> bool:
        """Whether the best running beam scores no better than the worst finished one."""
        if len(self.finished) < self.params.beam_width or not self.beams:
            return not self.beams
        return self._score(self.beams[0].logprob, self.length) <= self.finished[-1].score


def search_together(
    searches: Sequence[BeamSearch],
    expand: Callable[[list[tuple[int, tuple[int, ...]]]], list[TokenLogprobs]],
) -> None:
    """Run several searches side by side, all their beams in one batch a step.

    ``expand`` takes (index of the search, its beam's output tokens) and returns each one's most
    likely next tokens.
    """
    while True:
        todo = [
            (index, tokens) for index, search in enumerate(searches) for tokens in search.pending()
        ]
        if not todo:
            return
        expansions = iter(expand(todo))
        for search in searches:
            count = len(search.pending())
            if count:
                search.advance([next(expansions) for _ in range(count)])
