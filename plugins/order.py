"""The order in which general plugins register: by name, but for what they ask of one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from runtime.plugins.errors import PluginError

BEFORE = "runtime_plugin_before"
AFTER = "runtime_plugin_after"


@dataclass(frozen=True)
class Wishes:
    """Names of the plugins that one plugin wants to register before and after."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def in_order(wishes: Mapping[str, Wishes]) -> list[str]:
    """Names such that each wish is kept, by name where there is none; unknown names are ignored.

    Raises:
        PluginError: the wishes contradict each other; names the cycle.
    """
    predecessors: dict[str, set[str]] = {name: set() for name in sorted(wishes)}
    for name, wish in wishes.items():
        predecessors[name] |= set(wish.after) & wishes.keys()
        for later in set(wish.before) & wishes.keys():
            predecessors[later].add(name)
    sorter = TopologicalSorter(predecessors)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " before ".join(repr(name) for name in error.args[1])
        raise PluginError(
            f"general plugins ask to register in a circle: {cycle} ({BEFORE}, {AFTER}); leave one "
            "out by VLLM_PLUGINS, or uninstall it"
        ) from None
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return order


def names_of(value: object, attribute: str) -> tuple[str, ...]:
    """The value of a wish: one name or several.

    Raises:
        PluginError: it is neither.
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable):
        names = tuple(value)
        if all(isinstance(name, str) for name in names):
            return names
    raise PluginError(f"{attribute}={value!r} must be a plugin's name or a tuple of names")
