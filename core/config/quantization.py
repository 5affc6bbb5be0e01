"""Which weights are kept as blocks of few bits, resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

VOCABULARY_FORMAT = "q8_0"
"""Format of embedding and head where weights are quantised while they load: both see every token,
and fewer bits there cost more than elsewhere."""


@dataclass(frozen=True)
class QuantizationConfig:
    """The format of each matrix of the model."""

    stored: Mapping[str, str]
    """Formats of the checkpoint's own blocks, by the tensor's name in transformers."""
    default: str | None = None
    """Format that the other matrices are brought into while they load; None leaves them dense."""

    def format_of(self, name: str) -> str | None:
        """Format of a tensor of the checkpoint; None: the model's dtype."""
        return self.stored.get(name, self.default)

    def for_vocabulary(self) -> QuantizationConfig:
        """The same for embedding and head."""
        return self if self.default is None else replace(self, default=VOCABULARY_FORMAT)
