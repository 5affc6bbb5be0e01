"""What a backend of structured output offers. Plugins may bring their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from runtime.core.structured_output.params import Constraint


class GrammarError(Exception):
    """A constraint that a backend refuses; the message says why, in words for the user."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model as a backend sees them."""

    token_bytes: tuple[bytes, ...]
    """Each token's bytes in a text; empty for tokens that have none, which are never allowed."""
    size: int
    """Columns of the model's logits. Those beyond ``token_bytes`` are never allowed."""
    eos_token_ids: tuple[int, ...]
    """Tokens that end an output; allowed only where the constraint may end."""

    @property
    def mask_words(self) -> int:
        """int32 words of a token mask: one bit a column of the logits."""
        return -(-self.size // 32)


class Matcher(Protocol):
    """One request's place in its constraint."""

    def accept(self, token_id: int) -> bool:
        """Go on by a token; False where the constraint does not allow it."""

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        """Write which tokens may come next: bit i % 32 of word i // 32 is token i.

        mask [mask_words] int32, contiguous. End-of-sequence tokens are allowed exactly where the
        constraint may end.
        """

    @property
    def ended(self) -> bool:
        """Whether an end-of-sequence token has been accepted. Nothing may follow it."""


class CompiledGrammar(Protocol):
    """A constraint that is ready for use by any number of requests."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that it holds."""

    def matcher(self) -> Matcher:
        """A new matcher at the beginning."""


class StructuredOutputBackend(ABC):
    """Compiles constraints for one vocabulary.

    It is made in two processes: the engine's, and one that tries each new constraint first under
    limits of time and memory (:mod:`runtime.core.structured_output.trial`). What is written to
    file descriptor 2 during a trial counts as the reason for a refusal where it has the word
    "Warning": a library that only warns of what it leaves out must not be believed.
    """

    name: ClassVar[str]

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def missing(cls) -> str | None:
        """What must be installed before the backend can be used; None where nothing is missing."""
        return None

    @abstractmethod
    def compile(self, constraint: Constraint) -> CompiledGrammar:
        """Prepare a constraint. Must be safe to call from several threads at once.

        Raises:
            GrammarError: it does not compile, contradicts itself, or asks for something that the
                backend would not enforce.
        """
