"""A vocabulary of bytes and some longer tokens."""

import pytest

from runtime.core.structured_output.interface import Vocabulary


@pytest.fixture(scope="session")
def vocabulary():
    """256 bytes, a special token, end-of-sequence (257), longer tokens; logits are wider."""
    longer = [b'{"', b'":', b"12", b"ye", b"es", "é".encode()]
    tokens = [*(bytes([byte]) for byte in range(256)), b"", b"", *longer]
    return Vocabulary(tuple(tokens), 300, (257,))
