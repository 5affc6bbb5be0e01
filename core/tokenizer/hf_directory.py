"""The tokenizer of a Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from runtime.core.errors import ModelLoadError
from runtime.core.tokenizer.fast import DEFAULT_TEMPLATE, FastTokenizer

PIPELINE = "tokenizer.json"
SENTENCEPIECE = "tokenizer.model"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
TEMPLATE = "chat_template.jinja"
TEMPLATE_FOLDER = "additional_chat_templates"

_NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_EXTRA_LISTS = ("additional_special_tokens", "extra_special_tokens")


def tokenizer_from_directory(path: Path) -> FastTokenizer:
    """The tokenizer as transformers' AutoTokenizer makes it of the same files.

    Where ``tokenizer.json`` is, it says which special tokens surround a text; ``add_bos_token``
    and ``add_eos_token`` of the config then have no effect, as in transformers 5.

    Raises:
        ModelLoadError: no tokenizer (names the files looked for), or one that cannot be read.
    """
    config = _read_json(path / CONFIG)
    if not (path / PIPELINE).is_file():
        if not (path / SENTENCEPIECE).is_file():
            raise ModelLoadError(
                f"{path} has no tokenizer: looked for {PIPELINE} and {SENTENCEPIECE}; name "
                "another with --tokenizer, or use token ids with skip_tokenizer_init"
            )
        return _converted(path, config)
    try:
        backend = tokenizers.Tokenizer.from_file(str(path / PIPELINE))
    # The library raises plain exceptions for whatever is wrong with the file.
    except Exception as error:
        raise ModelLoadError(f"{path / PIPELINE} is not a tokenizer: {error}") from error
    if "added_tokens_decoder" not in config:
        config = {**config, **_read_json(path / SPECIAL_TOKENS)}
    named = _add_special_tokens(backend, config)
    return FastTokenizer(backend, special_tokens=named, chat_templates=_templates(path, config))


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where the file is absent."""
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelLoadError(f"{path} must hold a JSON object, not a {type(values).__name__}")
    return values


def _added_token(value: str | Mapping[str, Any], **defaults: Any) -> tokenizers.AddedToken:
    """A token from a config: its text, or an object with its flags."""
    if isinstance(value, str):
        return tokenizers.AddedToken(value, **defaults)
    flags = {k: v for k, v in value.items() if k not in ("__type", "content")}
    return tokenizers.AddedToken(value["content"], **{**defaults, **flags})


def _add_special_tokens(backend: tokenizers.Tokenizer, config: Mapping[str, Any]) -> dict[str, str]:
    """Give the pipeline the tokens of the config; returns the named ones.

    A token that the vocabulary has keeps its id and becomes special.
    """
    declared = {
        int(token_id): _added_token(token)
        for token_id, token in config.get("added_tokens_decoder", {}).items()
    }
    there = {repr(token) for token in backend.get_added_tokens_decoder().values()}
    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    known |= {token.content: token for token in declared.values()}
    for _, token in sorted(declared.items()):
        if repr(token) not in there:
            backend.add_tokens([token])
    keys = [f"{name}_token" for name in _NAMED]
    keys += [
        key
        for key, value in config.items()
        if key.endswith("_token") and key not in keys and isinstance(value, str | dict)
    ]
    values = {key: config[key] for key in keys if config.get(key)}
    extra: list[Any] = []
    for key in _EXTRA_LISTS:
        listed = config.get(key) or []
        if isinstance(listed, dict):
            values |= listed
        else:
            extra += listed
    for value in (*values.values(), *extra):
        text = value if isinstance(value, str) else value["content"]
        token = known.get(text) or _added_token(value, special=True, normalized=False)
        token.special = True
        backend.add_special_tokens([token])
    return {key: v if isinstance(v, str) else v["content"] for key, v in values.items()}


def _templates(path: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Chat templates by name; files come before what the config has."""
    files = {file.stem: file for file in sorted((path / TEMPLATE_FOLDER).glob("*.jinja"))}
    if (path / TEMPLATE).is_file():
        files[DEFAULT_TEMPLATE] = path / TEMPLATE
    if files:
        return {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    configured = config.get("chat_template")
    if isinstance(configured, list):
        return {entry["name"]: entry["template"] for entry in configured}
    return {DEFAULT_TEMPLATE: configured} if configured else {}


def _converted(path: Path, config: Mapping[str, Any]) -> FastTokenizer:
    """A SentencePiece model, which transformers knows how to turn into a pipeline."""
    from transformers import AutoTokenizer

    try:
        converted = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        backend = converted.backend_tokenizer
    # Conversion depends on optional packages and on the model; whatever fails, the cause is shown.
    except Exception as error:
        raise ModelLoadError(
            f"{path} has no {PIPELINE}, and its {SENTENCEPIECE} could not be converted: {error}"
        ) from error
    return FastTokenizer(
        backend,
        special_tokens=converted.special_tokens_map,
        chat_templates=_templates(path, config),
    )
