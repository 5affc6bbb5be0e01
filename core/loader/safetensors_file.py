"""One safetensors file: its header, checked against the file's size, and its tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from runtime.core.errors import ModelLoadError
from runtime.core.loader.weights import FilePlace, LazyWeight

_DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class SafetensorsEntry:
    """What the header says of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    """First byte in the data that follows the header."""


def read_entries(path: Path) -> dict[str, SafetensorsEntry]:
    """The header's tensors, after the file was found whole.

    A file must end with its last tensor: bytes that follow are refused as missing ones are.

    Raises:
        ModelLoadError: names the file, the bytes expected and the bytes there.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(_LENGTH_BYTES)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < _LENGTH_BYTES or _LENGTH_BYTES + length > size:
            expected = _LENGTH_BYTES + length if len(prefix) == _LENGTH_BYTES else _LENGTH_BYTES
            raise ModelLoadError(
                f"{path}: truncated or not a safetensors file: its header needs at least "
                f"{expected} bytes, the file has {size}"
            )
        header = _parse_header(path, file.read(length))
    entries = {name: _entry(path, name, header[name]) for name in header}
    ends = [header[name]["data_offsets"][1] for name in header]
    expected = _LENGTH_BYTES + length + max(ends, default=0)
    if size != expected:
        state = "truncated" if size < expected else f"{size - expected} bytes after the tensors"
        raise ModelLoadError(
            f"{path}: {state}: its header describes {expected} bytes, the file has {size}"
        )
    return entries


def _parse_header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise ModelLoadError(f"{path} is not a safetensors file: its header is not a JSON object")
    header.pop("__metadata__", None)
    return header


def _entry(path: Path, name: str, fields: Any) -> SafetensorsEntry:
    try:
        kind, shape = fields["dtype"], tuple(fields["shape"])
        start, stop = fields["data_offsets"]
        count = stop - start
    except (KeyError, TypeError, ValueError):
        raise ModelLoadError(
            f"{path}: damaged safetensors header: tensor {name!r} lacks dtype, shape or offsets"
        ) from None
    if kind not in _DTYPES:
        raise ModelLoadError(
            f"{path}: tensor {name!r} has dtype {kind}, which is not supported "
            f"({', '.join(_DTYPES)})"
        )
    dtype = _DTYPES[kind]
    expected = dtype.itemsize
    for extent in shape:
        expected *= extent
    if count != expected or start < 0:
        raise ModelLoadError(
            f"{path}: damaged safetensors header: tensor {name!r} of shape {list(shape)} "
            f"and dtype {kind} needs {expected} bytes, it is given {count}"
        )
    return SafetensorsEntry(dtype, shape, start)


class SafetensorsWeight(LazyWeight):
    """A tensor of a safetensors file."""

    def __init__(self, path: Path, name: str, entry: SafetensorsEntry) -> None:
        self.path = path
        self.name = name
        self.shape = entry.shape
        self.dtype = entry.dtype
        self._start = entry.start

    @property
    def place(self) -> FilePlace:
        """Counted from the header's end, which is near enough."""
        return FilePlace(self.path, self._start, math.prod(self.shape) * self.dtype.itemsize)

    def read(self, start: int, stop: int) -> torch.Tensor:
        """Rows ``start:stop``, a view of a mapping of the file.

        Each read maps the file anew, some tens of microseconds: the pages that were read leave
        memory with the view, where one mapping for all would hold the whole file in the end.
        """
        with safe_open(str(self.path), framework="pt") as file:
            tensor: torch.Tensor
            if not self.shape:
                tensor = file.get_tensor(self.name)
            else:
                tensor = file.get_slice(self.name)[start:stop]
            return tensor
