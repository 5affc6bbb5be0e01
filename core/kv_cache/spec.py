"""What each layer keeps of the tokens it has seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class KVCacheSpec(ABC):
    """A layer's cache: equal specs share one block table, so specs are compared by value."""

    block_size: int
    """Tokens a block holds."""
    page_bytes: int
    """Bytes of one block in one layer."""

    @abstractmethod
    def max_blocks(self, max_model_len: int, max_step_tokens: int) -> int:
        """Most blocks that one request of ``max_model_len`` tokens holds at once.

        ``max_step_tokens`` is the most tokens that one step computes of it.
        """

    def first_needed(self, num_computed: int) -> int:
        """Index of the first block that tokens from ``num_computed`` on still read."""
        return 0


@dataclass(frozen=True)
class FullAttentionSpec(KVCacheSpec):
    """Keys and values of every token."""

    def max_blocks(self, max_model_len: int, max_step_tokens: int) -> int:
        """Every token's block."""
        return -(-max_model_len // self.block_size)


@dataclass(frozen=True)
class SlidingWindowSpec(KVCacheSpec):
    """Keys and values of the last ``window`` tokens; blocks behind them are freed."""

    window: int

    def max_blocks(self, max_model_len: int, max_step_tokens: int) -> int:
        """The window before a step's first token and the step's own, at the worst alignment."""
        tokens = min(max_model_len, self.window - 1 + max_step_tokens)
        return min(-(-tokens // self.block_size) + 1, -(-max_model_len // self.block_size))

    def first_needed(self, num_computed: int) -> int:
        """The block of the oldest token that the next one sees."""
        return max(0, num_computed - self.window + 1) // self.block_size


@dataclass(frozen=True)
class StateSpec(KVCacheSpec):
    """One state of fixed size for a whole sequence (state-space layers): a single block.

    ``block_size`` is the context length, so that one block covers every token. A state is that
    of the last token alone, so a prefix of it cannot be reused.
    """

    def max_blocks(self, max_model_len: int, max_step_tokens: int) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class KVCacheGroup:
    """Layers that share a block table, and the pool of blocks that it points into."""

    spec: KVCacheSpec
    layer_names: tuple[str, ...]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in all layers of the group."""
        return self.spec.page_bytes * len(self.layer_names)


@dataclass(frozen=True)
class KVCacheLayout:
    """The whole cache: groups, and the blocks each one's pool has."""

    groups: tuple[KVCacheGroup, ...]
    num_blocks: tuple[int, ...]
    """Blocks of each group's pool, the reserved block 0 included."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all pools."""
        pairs = zip(self.groups, self.num_blocks, strict=True)
        return sum(group.block_bytes * count for group, count in pairs)


def group_layers(specs: Mapping[str, KVCacheSpec]) -> tuple[KVCacheGroup, ...]:
    """Groups of layers with equal specs, in the order of their first layer."""
    members: dict[KVCacheSpec, list[str]] = {}
    for name, spec in specs.items():
        members.setdefault(spec, []).append(name)
    return tuple(KVCacheGroup(spec, tuple(names)) for spec, names in members.items())


def request_bytes(
    groups: tuple[KVCacheGroup, ...], max_model_len: int, max_step_tokens: int
) -> int:
    """Bytes that one request of ``max_model_len`` tokens fills at most."""
    return sum(g.block_bytes * g.spec.max_blocks(max_model_len, max_step_tokens) for g in groups)


def plan_layout(
    groups: tuple[KVCacheGroup, ...],
    budget: int,
    max_model_len: int,
    max_step_tokens: int,
    override: int | None = None,
) -> KVCacheLayout:
    """Divide ``budget`` bytes among the groups so that each holds as many requests.

    ``override`` is the number of usable blocks in every pool, whatever the budget. Block 0 of
    each pool is reserved (padding, and places of blocks that a window has left behind).
    """
    if override is not None:
        return KVCacheLayout(groups, tuple(override + 1 for _ in groups))
    needs = [g.spec.max_blocks(max_model_len, max_step_tokens) for g in groups]
    one = sum(g.block_bytes * n for g, n in zip(groups, needs, strict=True))
    reserved = sum(g.block_bytes for g in groups)
    usable = max(0, budget - reserved)
    return KVCacheLayout(groups, tuple(usable * n // one + 1 if one else 1 for n in needs))


def longest_that_fits(layout: KVCacheLayout, max_model_len: int, max_step_tokens: int) -> int:
    """Largest length up to ``max_model_len`` of which one request fits into the layout."""

    def fits(length: int) -> bool:
        return all(
            group.spec.max_blocks(length, max_step_tokens) <= count - 1
            for group, count in zip(layout.groups, layout.num_blocks, strict=True)
        )

    low, high = 0, max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
