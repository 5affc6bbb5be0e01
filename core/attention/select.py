"""Choosing an attention backend for a layer."""

from __future__ import annotations

import pkgutil

from runtime.core.attention.interface import AttentionBackend, AttentionSpec
from runtime.core.attention.native import NativeBackend
from runtime.core.errors import PlatformError
from runtime.core.platform.interface import Platform


def candidate_backends(platform: Platform) -> list[type[AttentionBackend]]:
    """The platform's backends in its order, then the native one.

    Raises:
        PlatformError: the platform names something that is no backend.
    """
    found: list[type[AttentionBackend]] = []
    for name in platform.policy.attention_backends():
        try:
            backend = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise PlatformError(
                f"platform {platform.name!r} names attention backend {name!r}, "
                f"which cannot be imported: {error}"
            ) from error
        if not (isinstance(backend, type) and issubclass(backend, AttentionBackend)):
            raise PlatformError(
                f"platform {platform.name!r} names attention backend {name!r}, "
                "which is not a subclass of AttentionBackend"
            )
        found.append(backend)
    return [*found, NativeBackend]


def select_backend(platform: Platform, spec: AttentionSpec) -> type[AttentionBackend]:
    """The first backend that has no reason against the layer.

    Raises:
        PlatformError: none is left; the message has each one's reasons.
    """
    largest = platform.capabilities.max_head_size
    if largest is not None and spec.head_size > largest:
        raise PlatformError(
            f"head_size={spec.head_size}: platform {platform.name!r} serves up to {largest}"
        )
    refusals = []
    for backend in candidate_backends(platform):
        reasons = backend.reasons_against(spec)
        if not reasons:
            return backend
        refusals.append(f"{backend.name}: {'; '.join(reasons)}")
    raise PlatformError(f"no attention backend can compute {spec}: {' | '.join(refusals)}")
