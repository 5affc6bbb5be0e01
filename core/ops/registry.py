"""Ops: a named computation whose meaning is its native reference, and who provides it where.

An op is defined once (:func:`define_op`) with schema, reference, fake, tolerance and samples.
Platforms register implementations under a provider name (:func:`register_provider`).
:func:`resolve_ops` walks a platform's priority list once, keeps the reason for every rejection,
and from then on calling an op is a dictionary look-up on the device type of its first tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    from runtime.core.platform.interface import Platform

NATIVE = "native"
"""Provider name of every op's reference."""
NAMESPACE = "runtime"
"""torch.library namespace of the ops under ``torch.compile``."""


@dataclass(frozen=True)
class Tolerance:
    """How far an implementation may be from a float64 evaluation of the reference."""

    rtol: float
    atol: float


Sample = tuple[Any, ...]
"""Arguments of one call."""
SampleMaker = Callable[[torch.dtype, torch.Generator], Iterator[Sample]]
"""Yields fresh random host arguments in a dtype, odd sizes among them."""


@dataclass(frozen=True)
class OpDef:
    """What an op is."""

    name: str
    schema: str
    """Arguments and results in torch.library's language, without the name."""
    reference: Callable[..., Any]
    """Plain PyTorch that runs on any device; it is the op's meaning."""
    fake: Callable[..., Any]
    """Results of the right shape and dtype without computing them."""
    tolerance: Mapping[torch.dtype, Tolerance]
    samples: SampleMaker
    mutates: tuple[str, ...] = ()
    """Names of arguments that are written to."""


@dataclass(frozen=True)
class Provider:
    """One implementation of an op for the tensors of one device type."""

    name: str
    device_type: str
    function: Callable[..., Any]
    available: Callable[[], str | None]
    """Asked once at start-up: None, or why it cannot be used in this process."""
    supports: Callable[..., bool] | None
    """Asked at each call with the op's arguments; None: it takes whatever the reference takes."""


@dataclass(frozen=True)
class Resolution:
    """Which providers serve an op on a platform, and why the others do not."""

    op: str
    device_type: str
    chosen: tuple[Provider, ...]
    """First choice first; those after it serve the arguments that it does not take."""
    rejected: tuple[tuple[str, str], ...] = ()
    """Provider name and reason."""

    @property
    def provider(self) -> str:
        """Name of the first choice."""
        return self.chosen[0].name


class Op:
    """A callable op."""

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.name = definition.name
        self.providers: dict[tuple[str, str], Provider] = {}
        """By provider name and device type."""
        self.installed: dict[str, Resolution] = {}
        """By device type."""
        self._functions: dict[str, Callable[..., Any]] = {}
        # Defined now: it cannot be while a graph that needs it is being traced.
        self.torch_op = self._define_torch_op()
        """The op as a ``torch.library`` operator."""

    def __call__(self, first: torch.Tensor, *args: Any) -> Any:
        """Compute with whoever serves the first tensor's device type."""
        if torch.compiler.is_compiling():
            return self.torch_op(first, *args)
        function = self._functions.get(first.device.type)
        return (function or self.definition.reference)(first, *args)

    def install(self, resolution: Resolution) -> None:
        """Serve a device type from now on as resolved.

        Raises:
            ConfigError: another platform in this process has it served by others.
        """
        present = self.installed.get(resolution.device_type)
        if present is not None and present.chosen != resolution.chosen:
            raise ConfigError(
                f"op {self.name}: {resolution.device_type} tensors are already served by "
                f"{present.provider!r} in this process, not by {resolution.provider!r}; "
                "run platforms that share a device type in processes of their own"
            )
        self.installed[resolution.device_type] = resolution
        self._functions[resolution.device_type] = _chain(resolution.chosen)

    def _define_torch_op(self) -> Callable[..., Any]:
        definition = self.definition

        def dispatch(first: torch.Tensor, *args: Any) -> Any:
            function = self._functions.get(first.device.type)
            return (function or definition.reference)(first, *args)

        operator: Callable[..., Any] = torch.library.custom_op(
            f"{NAMESPACE}::{self.name}",
            dispatch,
            mutates_args=definition.mutates,
            schema=definition.schema,
        )
        operator.register_fake(definition.fake)  # type: ignore[attr-defined]
        return operator


def _chain(providers: tuple[Provider, ...]) -> Callable[..., Any]:
    """One callable that tries providers in order; the last takes everything."""
    first, rest = providers[0], providers[1:]
    supports = first.supports
    if supports is None or not rest:
        return first.function
    function, otherwise = first.function, _chain(rest)

    def choose(*args: Any) -> Any:
        return function(*args) if supports(*args) else otherwise(*args)

    return choose


@dataclass
class _Registry:
    ops: dict[str, Op] = field(default_factory=dict)


_REGISTRY = _Registry()


def define_op(definition: OpDef) -> Op:
    """Make an op known; out-of-tree ops too. Its name must be new: ValueError otherwise."""
    if definition.name in _REGISTRY.ops:
        raise ValueError(f"op {definition.name!r} is already defined")
    op = Op(definition)
    _REGISTRY.ops[definition.name] = op
    return op


def all_ops() -> tuple[Op, ...]:
    """Every op that is defined, by name."""
    import runtime.core.ops  # noqa: F401  (defines the built-in ones)

    return tuple(_REGISTRY.ops[name] for name in sorted(_REGISTRY.ops))


def get_op(name: str) -> Op:
    """An op by its name; ConfigError listing the known ones where there is none."""
    for op in all_ops():
        if op.name == name:
            return op
    raise ConfigError(f"no op {name!r}; known: {', '.join(op.name for op in all_ops())}")


def register_provider(
    op_name: str,
    *,
    provider: str,
    device_type: str,
    available: Callable[[], str | None] = lambda: None,
    supports: Callable[..., bool] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate an implementation of an op. Registering the same name again replaces it.

    Args:
        op_name: the op.
        provider: the name under which a platform's priority list has it; not ``native``.
        device_type: torch device type of the tensors that it takes.
        available: None, or why it cannot be used in this process; asked once.
        supports: whether it takes these arguments; asked at each call.
    """
    if provider == NATIVE:
        raise ValueError(f"op {op_name!r}: the provider name {NATIVE!r} is the reference's own")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Provider(provider, device_type, function, available, supports)
        get_op(op_name).providers[provider, device_type] = entry
        return function

    return register


@dataclass(frozen=True)
class OpTable:
    """All ops as a platform has them."""

    platform: str
    resolutions: tuple[Resolution, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row an op: its name, device type, providers in order, and rejections."""
        return [
            {
                "op": resolution.op,
                "device_type": resolution.device_type,
                "provider": resolution.provider,
                "fallbacks": [provider.name for provider in resolution.chosen[1:]],
                "rejected": [
                    {"provider": name, "reason": reason} for name, reason in resolution.rejected
                ],
            }
            for resolution in self.resolutions
        ]


def resolve_ops(platform: Platform, *, install: bool = True) -> OpTable:
    """Choose who serves each op on a platform, and serve from now on.

    Call ``platform.load_ops()`` first. ``install`` False only tells.
    """
    resolutions = tuple(_resolve(op, platform) for op in all_ops())
    if install:
        for op, resolution in zip(all_ops(), resolutions, strict=True):
            op.install(resolution)
    return OpTable(platform.name, resolutions)


def _resolve(op: Op, platform: Platform) -> Resolution:
    chosen: list[Provider] = []
    rejected: list[tuple[str, str]] = []
    for name in platform.policy.op_priority(op.name):
        entry = op.providers.get((name, platform.device_type))
        if name == NATIVE:
            break
        if entry is None:
            rejected.append((name, f"not registered for {platform.device_type} tensors"))
            continue
        reason = entry.available()
        if reason is not None:
            rejected.append((name, reason))
            continue
        chosen.append(entry)
        if entry.supports is None:
            return Resolution(op.name, platform.device_type, tuple(chosen), tuple(rejected))
    chosen.append(_native(op, platform.device_type))
    return Resolution(op.name, platform.device_type, tuple(chosen), tuple(rejected))


def _native(op: Op, device_type: str) -> Provider:
    return Provider(NATIVE, device_type, op.definition.reference, _always_available, None)


def _always_available() -> None:
    """The reference runs anywhere."""
