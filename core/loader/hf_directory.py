"""A Hugging Face model directory: config.json and safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ModelLoadError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.safetensors_file import (
    SafetensorsEntry,
    SafetensorsWeight,
    read_entries,
)
from runtime.core.loader.weights import LazyWeight

if TYPE_CHECKING:
    from runtime.core.tokenizer.interface import Tokenizer

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class HFDirectory(Checkpoint):
    """A directory with ``config.json``, and safetensors where ``with_weights``.

    An index, where there is one, says which files count; others are not read, whatever their
    name. Without one it is ``model.safetensors``.
    """

    def __init__(self, path: Path, *, with_weights: bool = True) -> None:
        self.path = path
        self.config = HFConfig(_read_config(path))
        generation = path / GENERATION_CONFIG
        self.generation_config = HFConfig(read_json(generation) if generation.is_file() else {})
        self._entries: dict[str, tuple[Path, SafetensorsEntry]] = {}
        if with_weights:
            index = path / INDEX
            self._entries = _indexed(index) if index.is_file() else _single(path)

    def names(self) -> list[str]:
        """Names of all tensors, as the files have them."""
        return list(self._entries)

    def weights(self) -> Iterator[LazyWeight]:
        """All tensors, file by file and in the order of their bytes."""
        ordered = sorted(self._entries.items(), key=lambda item: (item[1][0], item[1][1].start))
        for name, (path, entry) in ordered:
            yield SafetensorsWeight(path, name, entry)

    def load_tokenizer(self) -> Tokenizer:
        """The directory's tokenizer."""
        from runtime.core.tokenizer.hf_directory import tokenizer_from_directory

        return tokenizer_from_directory(self.path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; ModelLoadError with the place where it is not one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelLoadError(f"{path} must hold a JSON object, not a {type(values).__name__}")
    return values


def _read_config(path: Path) -> dict[str, Any]:
    config = path / CONFIG
    if config.is_file():
        return read_json(config)
    gguf = sorted(entry.name for entry in path.glob("*.gguf"))
    if gguf:
        raise ModelLoadError(
            f"{path} has no {CONFIG} but GGUF files: name one of them, e.g. {path / gguf[0]}"
        )
    raise ModelLoadError(f"{path} is not a model directory: it has no {CONFIG}")


def _single(path: Path) -> dict[str, tuple[Path, SafetensorsEntry]]:
    file = path / SINGLE
    if not file.is_file():
        others = sorted(
            entry.name
            for pattern in ("*.safetensors", "*.bin", "*.pt", "*.pth")
            for entry in path.glob(pattern)
        )
        there = f"; it has {', '.join(others[:5])}, which are not read" if others else ""
        raise ModelLoadError(f"{path} has no weights: looked for {SINGLE} and {INDEX}{there}")
    return {name: (file, entry) for name, entry in read_entries(file).items()}


def _indexed(index: Path) -> dict[str, tuple[Path, SafetensorsEntry]]:
    """The tensors that an index names, each in the file that it names."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(shard, str) for shard in weight_map.values()
    ):
        raise ModelLoadError(f"{index} has no weight_map from tensor names to file names")
    shards: dict[str, dict[str, SafetensorsEntry]] = {}
    for shard in sorted(set(weight_map.values())):
        file = index.parent / shard
        if Path(shard).name != shard:
            raise ModelLoadError(f"{index} names {shard!r}, which is not a file beside it")
        if not file.is_file():
            raise ModelLoadError(f"{index} names {shard}, which is missing from {index.parent}")
        shards[shard] = read_entries(file)
    absent = [name for name, shard in weight_map.items() if name not in shards[shard]]
    if absent:
        raise ModelLoadError(
            f"{index} says that {weight_map[absent[0]]} holds {absent[0]!r}, which it does not"
            + (f" (and {len(absent) - 1} more like it)" if len(absent) > 1 else "")
        )
    return {name: (index.parent / shard, shards[shard][name]) for name, shard in weight_map.items()}
