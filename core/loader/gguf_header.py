"""The header of a GGUF file: metadata and where each tensor lies.

The ``gguf`` library's own reader makes an array object of every string in the vocabulary, which
takes seconds for a large one (11 s for 262,144 tokens, against 0.5 s here) and reports damage as
an index error, so the header is read here; types and block sizes still come from the library.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGMLQuantizationType,
    GGUFValueType,
)

from runtime.core.errors import ModelLoadError

_MAGIC = b"GGUF"
VERSIONS = (2, 3)

_SCALARS: Mapping[int, str] = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
_MAX_DIMENSIONS = 8


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor of the file."""

    name: str
    """As the file names it."""
    shape: tuple[int, ...]
    """Outermost dimension first, of the dequantised values."""
    type: GGMLQuantizationType
    offset: int
    """Bytes from the start of the file."""
    nbytes: int


_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class GGUFHeader:
    """What a GGUF file says before its tensor data."""

    metadata: Mapping[str, Any]
    """Numbers, booleans, strings, and lists of them."""
    tensors: Mapping[str, GGUFTensor]
    """In the order of the file's list."""


def read_header(path: Path) -> GGUFHeader:
    """Read and check the header; the tensor data is not touched.

    Raises:
        ModelLoadError: the file is not GGUF of a known version, is cut short, or goes on after
            its last tensor.
    """
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(path, data, size)
        try:
            return _read(cursor)
        except UnicodeDecodeError as error:
            raise ModelLoadError(
                f"{path}: damaged GGUF: the text before byte {cursor.position} is not UTF-8"
            ) from error


class _Cursor:
    """Reads little-endian values from the start of a file on."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self.path = path
        self.data = data
        self.size = size
        self.position = 0

    def advance(self, count: int) -> int:
        """Step over ``count`` bytes and return where they start."""
        start = self.position
        if start + count > self.size:
            raise ModelLoadError(
                f"{self.path}: truncated GGUF: the header goes on past the file's {self.size} bytes"
            )
        self.position = start + count
        return start

    def u32(self) -> int:
        value: int = struct.unpack_from("<I", self.data, self.advance(4))[0]
        return value

    def u64(self) -> int:
        value: int = struct.unpack_from("<Q", self.data, self.advance(8))[0]
        return value

    def text(self) -> str:
        count = self.u64()
        start = self.advance(count)
        return self.data[start : start + count].decode()

    def value(self, kind: int) -> Any:
        if kind == GGUFValueType.STRING:
            return self.text()
        if kind == GGUFValueType.ARRAY:
            return self.array()
        return self.scalars(kind, 1)[0]

    def array(self) -> list[Any]:
        kind, count = self.u32(), self.u64()
        if kind in _SCALARS:
            return self.scalars(kind, count)
        if kind == GGUFValueType.STRING:
            return self.texts(count)
        return [self.value(kind) for _ in range(count)]

    def texts(self, count: int) -> list[Any]:
        """Many texts, as a vocabulary has them: without a call for each part of each."""
        data, size, found = self.data, self.size, []
        for _ in range(count):
            start = self.position + _LENGTH.size
            stop = start if start > size else start + _LENGTH.unpack_from(data, self.position)[0]
            if stop > size:
                self.advance(stop - self.position)  # Raises.
            self.position = stop
            found.append(data[start:stop].decode())
        return found

    def scalars(self, kind: int, count: int) -> list[Any]:
        if kind not in _SCALARS:
            raise ModelLoadError(f"{self.path}: damaged GGUF: {kind} is no type of metadata")
        dtype = np.dtype(_SCALARS[kind])
        start = self.advance(count * dtype.itemsize)
        values: list[Any] = np.frombuffer(self.data[start : self.position], dtype).tolist()
        return values


def _read(cursor: _Cursor) -> GGUFHeader:
    path = cursor.path
    start = cursor.advance(len(_MAGIC))
    if cursor.data[start : cursor.position] != _MAGIC:
        raise ModelLoadError(f"{path} is not a GGUF file: it does not start with 'GGUF'")
    version = cursor.u32()
    if version not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        raise ModelLoadError(f"{path}: GGUF version {version} is not supported (only {known})")
    tensor_count, key_count = cursor.u64(), cursor.u64()
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.u32())
    if metadata.get("split.count", 1) > 1:
        raise ModelLoadError(
            f"{path} is one of {metadata['split.count']} parts of a model: "
            "join them with llama-gguf-split --merge"
        )
    entries = [_read_entry(cursor) for _ in range(tensor_count)]
    return GGUFHeader(metadata, _place(cursor, entries, metadata))


def _read_entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
    name, count = cursor.text(), cursor.u32()
    if count > _MAX_DIMENSIONS:
        raise ModelLoadError(f"{cursor.path}: damaged GGUF: tensor {name!r} has {count} dimensions")
    shape = tuple(cursor.u64() for _ in range(count))[::-1]
    kind, offset = cursor.u32(), cursor.u64()
    try:
        return name, shape, GGMLQuantizationType(kind), offset
    except ValueError:
        raise ModelLoadError(
            f"{cursor.path}: tensor {name!r} has the type {kind}, which the installed gguf "
            "library does not know: update it"
        ) from None


def _place(
    cursor: _Cursor,
    entries: list[tuple[str, tuple[int, ...], GGMLQuantizationType, int]],
    metadata: Mapping[str, Any],
) -> dict[str, GGUFTensor]:
    """Absolute offsets and sizes, checked against the file's size."""
    path = cursor.path
    alignment = metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
    data_start = -(-cursor.position // alignment) * alignment
    tensors: dict[str, GGUFTensor] = {}
    end = data_start if entries else cursor.position
    for name, shape, kind, offset in entries:
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape and shape[-1] % block:
            raise ModelLoadError(
                f"{path}: damaged GGUF: rows of tensor {name!r} have {shape[-1]} values, "
                f"which {kind.name} blocks of {block} do not divide"
            )
        nbytes = int(np.prod(shape, dtype=object)) // block * block_bytes
        tensors[name] = GGUFTensor(name, shape, kind, data_start + offset, nbytes)
        end = max(end, data_start + offset + nbytes)
    if cursor.size < end:
        raise ModelLoadError(
            f"{path}: truncated GGUF: its tensors end at byte {end}, the file has {cursor.size}"
        )
    if cursor.size >= end + alignment:
        raise ModelLoadError(
            f"{path}: {cursor.size - end} bytes after the last tensor: expected a file of "
            f"{end} bytes, it has {cursor.size}"
        )
    return tensors
