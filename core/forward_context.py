"""What a model's forward pass gets besides its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ForwardContext:
    """One step, as layers see it. Passed down explicitly: there is no ambient context."""

    attention: Mapping[str, Any]
    """The attention backend's metadata, by the layer's full name."""
    extras: dict[str, Any] = field(default_factory=dict)
    """What a platform's runner adds for its own layers and ops, by the platform's name."""
    outside: Callable[..., None] | None = None
    """Where set, attention layers hand their work to it (:mod:`runtime.core.runner.pieces`)."""
