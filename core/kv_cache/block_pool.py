"""A pool of KV blocks with reference counts and a cache of full blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from runtime.core.kv_cache.hashing import BlockHash


class BlockPool:
    """Blocks ``1 .. num_blocks - 1``; block 0 is reserved and never handed out.

    A block is *free* when nobody refers to it. A free block may still be *cached*: it keeps its
    contents and its hash until it is handed out again, least recently used first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._refs = [0] * num_blocks
        self._hash_of: dict[int, BlockHash] = {}
        self._block_of: dict[BlockHash, int] = {}
        # Free blocks, next to be handed out first.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))

    @property
    def num_free(self) -> int:
        """Blocks that nobody refers to."""
        return len(self._free)

    @property
    def num_usable(self) -> int:
        """Blocks that can be handed out in all."""
        return self.num_blocks - 1

    @property
    def usage(self) -> float:
        """Share of usable blocks that somebody refers to, 0 to 1."""
        return 1.0 - self.num_free / self.num_usable if self.num_usable else 0.0

    def lookup(self, block_hash: BlockHash) -> int | None:
        """The block with those contents, if it is cached."""
        return self._block_of.get(block_hash)

    def num_free_among(self, blocks: Iterable[int]) -> int:
        """How many of those blocks are free now: taking them uses up free blocks."""
        return sum(block in self._free for block in blocks)

    def take_cached(self, blocks: Iterable[int]) -> None:
        """Refer once more to cached blocks."""
        for block in blocks:
            self._free.pop(block, None)
            self._refs[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Hand out ``count`` blocks, forgetting what they cached. The caller checked num_free."""
        taken = []
        for _ in range(count):
            block, _ = self._free.popitem(last=False)
            self._forget(block)
            self._refs[block] = 1
            taken.append(block)
        return taken

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference to each block.

        The first of them is reused last: callers pass a request's blocks in order and a prefix
        is worth more than its tail. A block without a hash holds nothing anyone could find, so
        it is reused first.
        """
        for block in reversed(blocks):
            if block == 0:
                continue
            self._refs[block] -= 1
            if self._refs[block] == 0:
                self._free[block] = None
                if block not in self._hash_of:
                    self._free.move_to_end(block, last=False)

    def cache(self, block: int, block_hash: BlockHash) -> None:
        """Make a full block findable, unless another block with the same contents is."""
        if block not in self._hash_of and block_hash not in self._block_of:
            self._hash_of[block] = block_hash
            self._block_of[block_hash] = block

    def uncache(self, blocks: Iterable[int]) -> None:
        """Make blocks unfindable; references stay."""
        for block in blocks:
            self._forget(block)

    def reset_cache(self) -> None:
        """Forget the contents of all blocks; references stay."""
        self._hash_of.clear()
        self._block_of.clear()

    def ref_count(self, block: int) -> int:
        """References to a block."""
        return self._refs[block]

    def check(self) -> None:
        """Raise AssertionError where the books do not agree; used by tests."""
        for block in range(1, self.num_blocks):
            free = block in self._free
            assert free == (self._refs[block] == 0), f"block {block}: refs and free list differ"
        assert 0 not in self._free, "block 0 is reserved"
        assert all(count >= 0 for count in self._refs), "a reference count is negative"
        for block, block_hash in self._hash_of.items():
            assert self._block_of.get(block_hash) == block, f"block {block}: hash maps elsewhere"
        assert len(self._hash_of) == len(self._block_of), "the hash maps differ in size"

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]
