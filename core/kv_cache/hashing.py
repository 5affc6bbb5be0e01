"""Names of full blocks: equal names mean equal contents.

The chain follows the design of vLLM's automatic prefix caching (a block's hash covers its parent's
hash, its tokens and whatever else its contents depend on). SHA-256 makes a collision infeasible,
so that a prompt can neither meet nor be made to meet another prompt's blocks.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import NewType

BlockHash = NewType("BlockHash", bytes)

_ROOT = BlockHash(b"")


def hash_block(parent: BlockHash | None, tokens: Sequence[int], extra: bytes = b"") -> BlockHash:
    """Hash of a full block after ``parent`` (None: it is the prompt's first)."""
    digest = hashlib.sha256(parent or _ROOT)
    digest.update(array("q", tokens).tobytes())
    digest.update(extra)
    return BlockHash(digest.digest())


def extend_hashes(
    hashes: list[BlockHash], tokens: Sequence[int], block_size: int, extra: bytes = b""
) -> None:
    """Append to ``hashes`` those of the full blocks of ``tokens`` that it lacks, in place."""
    for index in range(len(hashes), len(tokens) // block_size):
        block = tokens[index * block_size : (index + 1) * block_size]
        hashes.append(hash_block(hashes[-1] if hashes else None, block, extra))
