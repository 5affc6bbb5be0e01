"""What the files of the sentence-transformers library say of a model directory.

``modules.json`` lists what a text goes through: the transformer, the pooling, and perhaps a
normalisation; each has a folder with its own settings.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runtime.core.errors import ModelLoadError
from runtime.core.pooling.params import PoolingType

logger = logging.getLogger(__name__)

MODULES = "modules.json"
TRANSFORMER_CONFIGS = "sentence_*_config.json"
LIBRARY_CONFIG = "config_sentence_transformers.json"
TOKENIZER = "tokenizer_config.json"
POOLING_CONFIG = "config.json"

_MODES: Mapping[str, PoolingType] = MappingProxyType(
    {
        "mean": PoolingType.MEAN,
        "cls": PoolingType.CLS,
        "lasttoken": PoolingType.LAST,
    }
)


@dataclass(frozen=True)
class SentenceTransformers:
    """A model as that library runs it."""

    pooling: PoolingType
    normalize: bool
    lower_case: bool
    max_seq_length: int | None
    """Tokens, special ones too, past which that library cuts a text; None: the model's limit."""


def read_sentence_transformers(path: Path) -> SentenceTransformers | None:
    """The description in a model directory; None where there is none, or none of pooling.

    Raises:
        ModelLoadError: a file is damaged, or names what is not supported: the embeddings would
            not be the model's.
    """
    modules = path / MODULES
    if not modules.is_file():
        return None
    try:
        listed = json.loads(modules.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{modules} is not JSON: {error}") from error
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise ModelLoadError(f"{modules} must hold a list of modules")
    # Only the last word is the same in all versions of the library.
    kinds = {str(one.get("type", "")).rpartition(".")[2]: one for one in listed}
    unknown = sorted(kinds.keys() - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise ModelLoadError(
            f"{modules}: module {unknown[0]!r} is not supported (Transformer, Pooling and "
            "Normalize are)"
        )
    if "Pooling" not in kinds:
        return None
    prompt = _object(path / LIBRARY_CONFIG).get("default_prompt_name")
    if prompt is not None:
        logger.warning(
            "%s: default_prompt_name is %r; here texts are embedded as they are given",
            path / LIBRARY_CONFIG,
            prompt,
        )
    folder = path / str(kinds.get("Transformer", {}).get("path", ""))
    settings = _settings(folder)
    # Newer versions of the library keep the limit with the tokenizer.
    length = settings.get("max_seq_length") or _object(folder / TOKENIZER).get("model_max_length")
    return SentenceTransformers(
        pooling=_pooling_type(path / str(kinds["Pooling"].get("path", "")) / POOLING_CONFIG),
        normalize="Normalize" in kinds,
        lower_case=bool(settings.get("do_lower_case", False)),
        max_seq_length=None if length is None else int(length),
    )


def _settings(folder: Path) -> Mapping[str, Any]:
    """What the transformer's module was made with; the file is named after the model's kind."""
    file = next(iter(sorted(folder.glob(TRANSFORMER_CONFIGS))), None)
    return {} if file is None else _object(file)


def _object(file: Path) -> Mapping[str, Any]:
    """The object in a file; empty where there is no file."""
    if not file.is_file():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{file} is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise ModelLoadError(f"{file} must hold a JSON object, not a {type(values).__name__}")
    return values


def _pooling_type(file: Path) -> PoolingType:
    if not file.is_file():
        raise ModelLoadError(f"{file.parent.parent / MODULES} names {file}, which is missing")
    values = _object(file)
    named = values.get("pooling_mode")
    if named is None:
        named = [
            key.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
            for key, on in values.items()
            if key.startswith("pooling_mode_") and on is True
        ]
    modes = [named] if isinstance(named, str) else list(named)
    if len(modes) != 1 or modes[0] not in _MODES:
        asked = " and ".join(map(str, modes)) or "no mode"
        raise ModelLoadError(
            f"{file} pools by {asked}; by {', '.join(_MODES)} is supported, each by itself"
        )
    return _MODES[modes[0]]
