"""Which class serves which architecture. Classes are imported when they are needed."""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ModelLoadError

logger = logging.getLogger(__name__)

NATIVE_MODELS: Mapping[str, str] = MappingProxyType(
    {
        "BertModel": "runtime.core.models.bert:BertModel",
        "LlamaForCausalLM": "runtime.core.models.llama:LlamaForCausalLM",
        "LlamaModel": "runtime.core.models.llama:LlamaModel",
        "MistralForCausalLM": "runtime.core.models.mistral:MistralForCausalLM",
        "MistralModel": "runtime.core.models.mistral:MistralModel",
        "RobertaModel": "runtime.core.models.bert:RobertaModel",
        "XLMRobertaModel": "runtime.core.models.bert:RobertaModel",
    }
)
"""Architecture names, as a config's ``architectures`` has them, and qualified class names."""


class _ModelRegistry:
    """Architectures by name: the native ones, and what plugins registered over them."""

    def __init__(self) -> None:
        self._registered: dict[str, str | type] = {}

    def register_model(self, architecture: str, model: str | type) -> None:
        """Serve an architecture by a class, or by its qualified name ``package.module:Class``.

        A name is imported when a model needs it. Registering over a native architecture, or
        again, replaces it.

        Raises:
            ValueError: the name is not of that form.
        """
        if isinstance(model, str) and not _is_qualified(model):
            raise ValueError(
                f"model class {model!r} for {architecture!r} must be 'package.module:Class'"
            )
        if architecture in NATIVE_MODELS:
            logger.info("architecture %s is overridden by %s", architecture, model)
        self._registered[architecture] = model

    def get_supported_archs(self) -> list[str]:
        """Names of all architectures, sorted."""
        return sorted({*NATIVE_MODELS, *self._registered})

    def resolve_name(self, architectures: Sequence[str]) -> str:
        """The first of a config's architectures that is known.

        Raises:
            ModelLoadError: none is; the message lists the known ones.
        """
        for name in architectures:
            if name in self._registered or name in NATIVE_MODELS:
                return name
        asked = ", ".join(map(str, architectures)) or "none named in config.json"
        known = ", ".join(self.get_supported_archs())
        raise ModelLoadError(f"architecture {asked} is not supported; known: {known}")

    def load(self, architecture: str) -> type[Any]:
        """The class of an architecture, imported and checked.

        Raises:
            ModelLoadError: it cannot be imported, or lacks what a model must offer.
        """
        entry = self._registered.get(architecture) or NATIVE_MODELS[architecture]
        if isinstance(entry, str):
            try:
                entry = pkgutil.resolve_name(entry)
            except Exception as error:  # a plugin's module may raise anything
                raise ModelLoadError(
                    f"architecture {architecture}: model class {entry!r} cannot be imported: "
                    f"{type(error).__name__}: {error}"
                ) from error
        missing = _missing(entry)
        if missing:
            raise ModelLoadError(
                f"architecture {architecture}: {entry!r} is not a model: it lacks "
                f"{'; '.join(missing)}"
            )
        assert isinstance(entry, type)
        return entry


def is_encoder(model: type) -> bool:
    """Whether a model class is an ``Encoder``."""
    return bool(getattr(model, "encoder_only", False))


def pools_only(model: type) -> bool:
    """Whether a model class cannot generate: an encoder, or a ``CausalLM`` without its head."""
    return is_encoder(model) or bool(getattr(model, "pools_only", False))


def first_position(model: type, hf: HFConfig) -> int:
    """Positions of a model's table that no text has, since they come first; mostly none."""
    own: Callable[[HFConfig], int] | None = getattr(model, "first_position", None)
    return 0 if own is None else own(hf)


def _is_qualified(name: str) -> bool:
    module, _, attribute = name.partition(":")
    parts = module.split(".") + attribute.split(".")
    return bool(attribute) and all(part.isidentifier() for part in parts)


def _missing(model: object) -> list[str]:
    """What a class lacks of ``CausalLM`` or ``Encoder``, in words."""
    # Here: plugins register models in processes that need no torch.
    from torch import nn

    if not isinstance(model, type):
        return ["being a class"]
    if not issubclass(model, nn.Module):
        return ["being a torch.nn.Module"]
    missing = [
        f"__init__ with the keyword {name!r}"
        for name in ("config", "prefix")
        if not _takes(model, name)
    ]
    # Every module has a forward; an own one is what counts.
    if model.forward is nn.Module.forward:
        missing.append("method forward()")
    elif not _takes_inputs(model.forward):
        missing.append("method forward() with the arguments (input_ids, positions, ctx)")
    if not is_encoder(model) and not callable(getattr(model, "compute_logits", None)):
        missing.append("method compute_logits()")
    return missing


def _takes(model: type, keyword: str) -> bool:
    parameters = inspect.signature(model).parameters
    return keyword in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _takes_inputs(forward: Callable[..., Any]) -> bool:
    try:
        inspect.signature(forward).bind("self", "input_ids", "positions", "ctx")
    except TypeError:
        return False
    return True


ModelRegistry = _ModelRegistry()
