"""A hardware-agnostic LLM inference engine whose devices are plugins.

Importing this package is cheap: torch comes with the first name that needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from runtime.core.version import own_version

if TYPE_CHECKING:
    from runtime.core.engine.async_llm import AsyncLLM
    from runtime.core.engine.outputs import CompletionOutput, RequestOutput
    from runtime.core.entrypoints.beam_search import BeamSearchParams
    from runtime.core.entrypoints.llm import LLM
    from runtime.core.errors import RuntimeUserError
    from runtime.core.models.registry import ModelRegistry
    from runtime.core.pooling.outputs import EmbeddingRequestOutput, PoolingRequestOutput
    from runtime.core.pooling.params import PoolingParams
    from runtime.core.sampling.params import SamplingParams
    from runtime.core.structured_output.params import StructuredOutputs

__version__ = own_version()

_HOMES = {
    "AsyncLLM": "runtime.core.engine.async_llm",
    "LLM": "runtime.core.entrypoints.llm",
    "BeamSearchParams": "runtime.core.entrypoints.beam_search",
    "CompletionOutput": "runtime.core.engine.outputs",
    "EmbeddingRequestOutput": "runtime.core.pooling.outputs",
    "ModelRegistry": "runtime.core.models.registry",
    "PoolingParams": "runtime.core.pooling.params",
    "PoolingRequestOutput": "runtime.core.pooling.outputs",
    "RequestOutput": "runtime.core.engine.outputs",
    "RuntimeUserError": "runtime.core.errors",
    "SamplingParams": "runtime.core.sampling.params",
    "StructuredOutputs": "runtime.core.structured_output.params",
}

__all__ = [
    "LLM",
    "AsyncLLM",
    "BeamSearchParams",
    "CompletionOutput",
    "EmbeddingRequestOutput",
    "ModelRegistry",
    "PoolingParams",
    "PoolingRequestOutput",
    "RequestOutput",
    "RuntimeUserError",
    "SamplingParams",
    "StructuredOutputs",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, for completion."""
    return sorted(__all__)
