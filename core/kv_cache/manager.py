"""Who owns which block: one table a request and a KV cache group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.core.kv_cache.block_pool import BlockPool
from runtime.core.kv_cache.spec import KVCacheLayout, StateSpec

if TYPE_CHECKING:
    from runtime.core.engine.request import Request


@dataclass
class PrefixCacheStats:
    """Counts in tokens since the engine started."""

    queries: int = 0
    hits: int = 0


@dataclass(frozen=True)
class PrefixHit:
    """Blocks in the cache that begin as a request does, by group."""

    num_tokens: int = 0
    blocks: tuple[tuple[int, ...], ...] = ()


@dataclass
class _Group:
    pool: BlockPool
    tables: dict[str, list[int]] = field(default_factory=dict)
    """Block ids by request, in the order of its tokens; 0 where a window has left one behind."""
    first_kept: dict[str, int] = field(default_factory=dict)
    """Blocks before this index have been freed."""
    num_cached: dict[str, int] = field(default_factory=dict)
    """Blocks of the request that were offered to the pool's cache."""


class KVCacheManager:
    """Allocates blocks to requests, finds cached prefixes and frees what is no longer read."""

    def __init__(self, layout: KVCacheLayout, *, enable_prefix_caching: bool) -> None:
        self.layout = layout
        self.stats = PrefixCacheStats()
        self._groups = [_Group(BlockPool(count)) for count in layout.num_blocks]
        self._specs = [group.spec for group in layout.groups]
        # A state cannot be cut to a prefix, so with one in the model nothing is shared.
        stateful = any(isinstance(spec, StateSpec) for spec in self._specs)
        self.caching = enable_prefix_caching and not stateful
        self.no_hit = PrefixHit(0, tuple(() for _ in self._groups))

    @property
    def usage(self) -> float:
        """Share of blocks in use in the fullest pool, 0 to 1."""
        return max((group.pool.usage for group in self._groups), default=0.0)

    def fits_ever(self, num_tokens: int, max_step_tokens: int) -> bool:
        """Whether a request of that length could run if it were alone."""
        return all(
            spec.max_blocks(num_tokens, max_step_tokens) <= group.pool.num_usable
            for spec, group in zip(self._specs, self._groups, strict=True)
        )

    def find_prefix(self, request: Request) -> PrefixHit:
        """The longest cached prefix that leaves at least one token to compute."""
        if not self.caching or not request.reads_prefix_cache or not self._specs:
            return self.no_hit
        block_size = self._specs[0].block_size
        limit = (request.num_tokens - 1) // block_size
        hits = [self._cached_run(index, request, limit) for index in range(len(self._groups))]
        while len({len(hit) for hit in hits}) > 1:
            limit = min(len(hit) for hit in hits)
            hits = [self._cached_run(index, request, limit) for index in range(len(self._groups))]
        length = len(hits[0])
        return PrefixHit(length * block_size, tuple(tuple(hit) for hit in hits))

    def allocate(self, request: Request, num_new: int, hit: PrefixHit | None = None) -> bool:
        """Give a request the blocks for ``num_new`` more tokens; False, and no change, if none.

        ``hit`` is given when the request starts: its blocks become the request's own.
        """
        hit = hit or self.no_hit
        computed = request.num_computed + hit.num_tokens
        wanted: list[int] = []
        for group, spec, found in zip(self._groups, self._specs, hit.blocks, strict=True):
            self._free_behind_window(group, spec.first_needed(computed), request.request_id)
            have = len(group.tables.get(request.request_id, ())) + len(found)
            count = max(0, -(-(computed + num_new) // spec.block_size) - have)
            if count > group.pool.num_free - group.pool.num_free_among(b for b in found if b):
                return False
            wanted.append(count)
        for group, found, count in zip(self._groups, hit.blocks, wanted, strict=True):
            table = group.tables.setdefault(request.request_id, [])
            group.pool.take_cached(b for b in found if b)
            table.extend(found)
            table.extend(group.pool.allocate(count))
        if self.caching:
            self._offer_full_blocks(request, computed + num_new)
        return True

    def free(self, request: Request) -> None:
        """Release all blocks of a request.

        Blocks that were offered for a step that did not compute them stop being findable.
        """
        request_id = request.request_id
        for group, spec in zip(self._groups, self._specs, strict=True):
            table = group.tables.pop(request_id, [])
            offered = group.num_cached.pop(request_id, 0)
            group.pool.uncache(table[request.num_computed // spec.block_size : offered])
            group.pool.release(table[group.first_kept.pop(request_id, 0) :])

    def block_ids(self, request_id: str) -> list[list[int]]:
        """Block ids of a request, one list a group."""
        return [list(group.tables.get(request_id, ())) for group in self._groups]

    def new_block_ids(self, request_id: str, known: list[int]) -> list[list[int]]:
        """Block ids past the first ``known[g]`` of each group."""
        return [
            group.tables.get(request_id, [])[count:]
            for group, count in zip(self._groups, known, strict=True)
        ]

    def num_blocks_of(self, request_id: str) -> list[int]:
        """Length of the request's table in each group."""
        return [len(group.tables.get(request_id, ())) for group in self._groups]

    def count_query(self, num_tokens: int, hit: PrefixHit) -> None:
        """Count a request's first look into the cache."""
        self.stats.queries += num_tokens
        self.stats.hits += hit.num_tokens

    def reset_prefix_cache(self) -> None:
        """Forget all cached contents, as after a step that failed half-way."""
        for group in self._groups:
            group.pool.reset_cache()

    def check(self) -> None:
        """Raise AssertionError where tables and pools disagree; used by tests."""
        for group in self._groups:
            group.pool.check()
            counts: dict[int, int] = {}
            for table in group.tables.values():
                for block in table:
                    counts[block] = counts.get(block, 0) + (block != 0)
            for block in range(1, group.pool.num_blocks):
                assert group.pool.ref_count(block) == counts.get(block, 0), (
                    f"block {block}: {group.pool.ref_count(block)} references counted, "
                    f"{counts.get(block, 0)} in tables"
                )

    def _cached_run(self, index: int, request: Request, limit: int) -> list[int]:
        """Blocks of the longest usable prefix of at most ``limit`` blocks in one group."""
        pool, spec = self._groups[index].pool, self._specs[index]
        found: list[int] = []
        usable = run = 0
        for block_hash in request.block_hashes[:limit]:
            block = pool.lookup(block_hash)
            found.append(block or 0)
            run = run + 1 if block else 0
            # A prefix of n blocks is usable if all blocks that its next token reads are there.
            first = spec.first_needed(len(found) * spec.block_size)
            if block and run >= len(found) - first:
                usable = len(found)
        first = spec.first_needed(usable * spec.block_size)
        return [0] * min(first, usable) + found[first:usable]

    def _free_behind_window(self, group: _Group, first: int, request_id: str) -> None:
        table = group.tables.get(request_id)
        done = group.first_kept.get(request_id, 0)
        if table is None or first <= done:
            return
        first = min(first, len(table))
        group.pool.release(table[done:first])
        table[done:first] = [0] * (first - done)
        group.first_kept[request_id] = first

    def _offer_full_blocks(self, request: Request, num_tokens: int) -> None:
        """Make blocks findable that are full after this step.

        Other requests of the same step may find them already: in each layer all keys and values
        of a step are written before any are read.
        """
        for group, spec in zip(self._groups, self._specs, strict=True):
            table = group.tables[request.request_id]
            full = min(num_tokens // spec.block_size, len(request.block_hashes))
            for index in range(group.num_cached.get(request.request_id, 0), full):
                if table[index]:
                    group.pool.cache(table[index], request.block_hashes[index])
            group.num_cached[request.request_id] = full
