"""Which tokenizer an engine uses."""

from __future__ import annotations

from pathlib import Path

from runtime.core.errors import ModelLoadError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.open import is_gguf
from runtime.core.tokenizer.hf_directory import tokenizer_from_directory
from runtime.core.tokenizer.interface import Tokenizer


def load_tokenizer(checkpoint: Checkpoint, tokenizer: str | None = None) -> Tokenizer:
    """The checkpoint's own tokenizer, or the one at the path ``tokenizer``.

    Raises:
        ModelLoadError: no tokenizer there, or one that cannot be read.
    """
    return checkpoint.load_tokenizer() if tokenizer is None else tokenizer_at(tokenizer)


def tokenizer_at(tokenizer: str) -> Tokenizer:
    """The tokenizer at a path: a directory with ``tokenizer.json`` (or ``tokenizer.model``), or a
    GGUF file.

    Raises:
        ModelLoadError: no tokenizer there, or one that cannot be read.
    """
    path = Path(tokenizer).expanduser()
    if path.is_dir():
        return tokenizer_from_directory(path)
    if not path.is_file():
        raise ModelLoadError(f"tokenizer={tokenizer!r}: no such path")
    if not is_gguf(path):
        raise ModelLoadError(
            f"tokenizer={tokenizer!r} is neither a directory nor a GGUF file; name the directory "
            "that holds tokenizer.json"
        )
    # Here, since the gguf library is of no use to users of directories.
    from runtime.core.loader.gguf_header import read_header
    from runtime.core.tokenizer.gguf import tokenizer_from_gguf

    return tokenizer_from_gguf(path, read_header(path).metadata)
