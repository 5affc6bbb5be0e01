"""Names of blocks: all that a block's contents depend on is in them."""

from runtime.core.kv_cache.hashing import extend_hashes, hash_block


def hashes_of(tokens, size=4, extra=b""):
    found = []
    extend_hashes(found, tokens, size, extra)
    return found


def test_only_full_blocks_have_names():
    assert len(hashes_of(list(range(11)))) == 2
    assert len(hashes_of(list(range(12)))) == 3


def test_a_name_covers_everything_before_the_block():
    one, other = hashes_of([1, 2, 3, 4, 5, 6, 7, 8]), hashes_of([9, 2, 3, 4, 5, 6, 7, 8])
    assert one[1] != other[1]
    assert hashes_of([1, 2, 3, 4, 5, 6, 7, 9])[0] == one[0]


def test_a_salt_changes_every_name():
    plain, salted = hashes_of(list(range(8))), hashes_of(list(range(8)), extra=b"tenant")
    assert not set(plain) & set(salted)


def test_extending_step_by_step_gives_the_same_names():
    tokens = list(range(33))
    grown = []
    for end in range(len(tokens) + 1):
        extend_hashes(grown, tokens[:end], 4)
    assert grown == hashes_of(tokens)


def test_tokens_are_not_confused_across_their_boundaries():
    assert hash_block(None, [1, 23]) != hash_block(None, [12, 3])
    assert hash_block(None, [-1]) != hash_block(None, [255])


def test_equal_python_hashes_do_not_make_equal_names():
    # hash(-1) == hash(-2) in CPython: a key by Python's hash alone would confuse the two.
    assert hash(-1) == hash(-2)
    assert hash_block(None, [-1]) != hash_block(None, [-2])
