"""The pool hands out, shares, caches and takes back blocks."""

from runtime.core.kv_cache.block_pool import BlockPool
from runtime.core.kv_cache.hashing import hash_block


def test_block_zero_is_never_handed_out():
    pool = BlockPool(5)
    assert sorted(pool.allocate(4)) == [1, 2, 3, 4]
    assert pool.num_free == 0
    assert pool.usage == 1.0


def test_a_released_block_keeps_its_contents_until_it_is_handed_out_again():
    pool = BlockPool(3)
    (block,) = pool.allocate(1)
    name = hash_block(None, [1, 2])
    pool.cache(block, name)
    pool.release([block])
    assert pool.lookup(name) == block
    pool.allocate(1)  # takes the block that caches nothing
    assert pool.lookup(name) == block
    pool.allocate(1)
    assert pool.lookup(name) is None
    pool.check()


def test_the_tail_of_a_released_sequence_is_evicted_before_its_head():
    pool = BlockPool(4)
    blocks = pool.allocate(3)
    names = [hash_block(None, [index]) for index in range(3)]
    for block, name in zip(blocks, names, strict=True):
        pool.cache(block, name)
    pool.release(blocks)
    pool.allocate(1)
    assert [pool.lookup(name) is not None for name in names] == [True, True, False]


def test_least_recently_released_is_evicted_first():
    pool = BlockPool(4)
    names = [hash_block(None, [index]) for index in range(3)]
    owners = [pool.allocate(1) for _ in range(3)]
    for blocks, name in zip(owners, names, strict=True):
        pool.cache(blocks[0], name)
    for index in (1, 0, 2):
        pool.release(owners[index])
    pool.allocate(1)
    assert [pool.lookup(name) is not None for name in names] == [True, False, True]


def test_a_shared_block_is_free_only_when_its_last_owner_lets_go():
    pool = BlockPool(2)
    blocks = pool.allocate(1)
    pool.cache(blocks[0], hash_block(None, [7]))
    pool.take_cached(blocks)
    pool.release(blocks)
    assert pool.num_free == 0
    pool.release(blocks)
    assert pool.num_free == 1
    pool.check()


def test_the_first_block_with_some_contents_is_the_one_that_is_found():
    pool = BlockPool(3)
    first, second = pool.allocate(2)
    name = hash_block(None, [1])
    pool.cache(first, name)
    pool.cache(second, name)
    assert pool.lookup(name) == first
    pool.check()
