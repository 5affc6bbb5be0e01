"""Filling a model from a checkpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.dummy import DummyValues, DummyWeight
from runtime.core.loader.read_ahead import read_ahead
from runtime.core.loader.weights import LazyWeight
from runtime.core.quantization.block_formats import BlockRows

logger = logging.getLogger(__name__)

_LISTED = 5
"""Names that an error lists before it counts the rest."""


def load_weights(model: torch.nn.Module, checkpoint: Checkpoint, config: RuntimeConfig) -> None:
    """Fill the model's parameters, then let its modules prepare them.

    A module that owns tensors of the checkpoint has ``checkpoint_tensors()``: for each of the
    checkpoint's names the view of a parameter that it fills, a tensor or ``BlockRows``. The model
    may have ``checkpoint_name(name) -> str | None``, which renames a tensor of the checkpoint or,
    with None, leaves it out. A module with ``process_weights_after_loading()`` is called once its
    tensors are there, before others are read: what it frees then is free for them.

    With ``load_format="dummy"`` the checkpoint is not read: each view gets small uniform values
    that depend on the seed and its name only.

    Raises:
        ModelLoadError: tensors are missing, unexpected, or of another shape. Names and shapes are
            compared before anything is copied.
    """
    targets = _targets(model)
    copier = _Copier(config, model)
    if config.load.load_format == "dummy":
        weights = _dummies(targets, config.model.seed)
    else:
        weights = _matched(model, checkpoint, targets)
    total = sum(target.view.nbytes for places in targets.values() for target in places)
    preparation = _Preparation(model, targets)
    with tqdm(
        total=total,
        desc="Loading weights",
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        disable=not config.load.use_tqdm,
    ) as bar:
        for name, weight in read_ahead(weights):
            for target in targets.pop(name):
                weight.copy_into(target.view, copier)
                bar.update(target.view.nbytes)
                preparation.filled(target.module)


@dataclass(frozen=True)
class _Target:
    """A place that a tensor of the checkpoint fills."""

    module: torch.nn.Module
    """Whose parameter it is."""
    view: torch.Tensor | BlockRows


class _Preparation:
    """Calls each module's ``process_weights_after_loading``, once all its tensors are there."""

    def __init__(self, model: torch.nn.Module, targets: Mapping[str, Sequence[_Target]]) -> None:
        self._missing = Counter(t.module for places in targets.values() for t in places)
        for module in model.modules():
            if module not in self._missing:
                self._prepare(module)

    def filled(self, module: torch.nn.Module) -> None:
        """One more tensor of a module is there."""
        self._missing[module] -= 1
        if not self._missing[module]:
            self._prepare(module)

    @staticmethod
    def _prepare(module: torch.nn.Module) -> None:
        process = getattr(module, "process_weights_after_loading", None)
        if process is not None:
            process()


class _Copier:
    """The platform's copy to the device, finished when it returns.

    The platform's own may return early and ask for a source that stays unchanged until then; the
    sources here are chunks that are freed at once.
    """

    def __init__(self, config: RuntimeConfig, model: torch.nn.Module) -> None:
        self._platform = config.platform
        device = next((p.device for p in model.parameters()), None)
        own = config.parallel.device_ids
        self._index = next((i for i in own if self._platform.devices.device(i) == device), own[0])

    def __call__(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self._platform.memory.copy_to_device(source, target)
        self._platform.devices.synchronize(self._index)


def _targets(model: torch.nn.Module) -> dict[str, list[_Target]]:
    """The places that each name fills: several where modules share a tensor."""
    targets: dict[str, list[_Target]] = {}
    for module in model.modules():
        tensors = getattr(module, "checkpoint_tensors", None)
        if tensors is None:
            continue
        for name, view in tensors().items():
            targets.setdefault(name, []).append(_Target(module, view.detach()))
    return targets


def _matched(
    model: torch.nn.Module, checkpoint: Checkpoint, targets: Mapping[str, Sequence[_Target]]
) -> list[tuple[str, LazyWeight]]:
    """The checkpoint's tensors in its order, each with the model's name for it."""
    rename: Any = getattr(model, "checkpoint_name", lambda name: name)
    found: dict[str, LazyWeight] = {}
    unexpected: list[str] = []
    for weight in checkpoint.weights():
        name = rename(weight.name)
        if name is None:
            continue
        if name not in targets:
            unexpected.append(weight.name)
        elif name in found:
            raise ModelLoadError(
                f"{checkpoint.path}: {found[name].name!r} and {weight.name!r} are both the "
                f"model's {name!r}"
            )
        else:
            found[name] = weight
    problems = []
    missing = [name for name in targets if name not in found]
    if missing:
        problems.append(f"lacks {_listed(missing)}")
    if unexpected:
        problems.append(f"has {_listed(unexpected)} that the model does not have")
    wrong = [
        f"{name} is {list(weight.shape)}, the model's is {list(target.view.shape)}"
        for name, weight in found.items()
        for target in targets[name]
        if tuple(target.view.shape) != tuple(weight.shape)
    ]
    if wrong:
        more = f" (and {len(wrong) - _LISTED} more)" if len(wrong) > _LISTED else ""
        problems.append(f"has tensors of other shapes: {'; '.join(wrong[:_LISTED])}{more}")
    if problems:
        raise ModelLoadError(
            f"{checkpoint.path} does not fit {type(model).__name__}: it {', and '.join(problems)}"
        )
    return list(found.items())


def _listed(names: Iterable[str]) -> str:
    """The count of names, and the first of them."""
    every = list(names)
    shown = ", ".join(every[:_LISTED]) + (", …" if len(every) > _LISTED else "")
    return f"{len(every)} tensor{'s' if len(every) > 1 else ''} ({shown})"


def _dummies(targets: Mapping[str, Sequence[_Target]], seed: int) -> list[tuple[str, LazyWeight]]:
    logger.warning("load_format=dummy: the weights are random, so is the text")
    values = DummyValues(seed)
    return [
        (name, DummyWeight(name, tuple(places[0].view.shape), values))
        for name, places in targets.items()
    ]
