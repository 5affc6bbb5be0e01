"""Opening a checkpoint, whatever its format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from runtime.core.errors import ModelLoadError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.hf_directory import HFDirectory

GGUF_MAGIC = b"GGUF"


class LoadFormat(StrEnum):
    """What ``load_format`` may be."""

    AUTO = "auto"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    DUMMY = "dummy"


def open_checkpoint(path: str, load_format: str = "auto") -> Checkpoint:
    """Open a Hugging Face directory or a GGUF file (known by its first bytes, not its name).

    Headers are read and checked against the files' sizes; weights stay on disk. With ``dummy``
    the configuration is read and the checkpoint has no tensors.

    Raises:
        ModelLoadError: nothing there, of another format than asked for, damaged or unknown.
    """
    try:
        wanted = LoadFormat(load_format)
    except ValueError:
        raise ModelLoadError(
            f"load_format={load_format!r} must be one of {', '.join(LoadFormat)}"
        ) from None
    place = Path(path).expanduser()
    try:
        return _open(place, wanted)
    except OSError as error:
        name = error.filename or place
        raise ModelLoadError(f"{name} cannot be read: {error.strerror or error}") from error


def _open(place: Path, wanted: LoadFormat) -> Checkpoint:
    with_weights = wanted is not LoadFormat.DUMMY
    if place.is_dir():
        if wanted is LoadFormat.GGUF:
            raise ModelLoadError(f"load_format=gguf needs a GGUF file, but {place} is a directory")
        return HFDirectory(place, with_weights=with_weights)
    if not place.exists():
        raise ModelLoadError(
            f"no such path: {place} (a model is a directory with config.json, or a GGUF file)"
        )
    if not is_gguf(place):
        raise ModelLoadError(
            f"{place} is neither a directory nor a GGUF file; for a Hugging Face model name the "
            "directory that holds config.json"
        )
    if wanted is LoadFormat.SAFETENSORS:
        raise ModelLoadError(
            f"load_format=safetensors needs a directory, but {place} is a GGUF file"
        )
    # Here, since the gguf library is of no use to users of directories.
    from runtime.core.loader.gguf_file import GGUFFile

    return GGUFFile(place, with_weights=with_weights)


def is_gguf(path: Path) -> bool:
    """Whether a file starts as GGUF files do."""
    with path.open("rb") as file:
        return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
