"""What a user may ask of an engine: one source for ``LLM(...)`` and for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from runtime.core.platform.interface import Platform


def _arg(group: str, text: str, default: Any, *, cli: bool = True) -> Any:
    """A field with its help text; ``cli`` False keeps it off the command line."""
    return field(default=default, metadata={"group": group, "help": text, "cli": cli})


@dataclass(frozen=True)
class EngineArgs:
    """Arguments of an engine, as the user gave them. None means: not given."""

    model: str = field(
        metadata={
            "group": "Model",
            "help": "Path of a Hugging Face directory or of a GGUF file",
            "cli": False,
        }
    )
    tokenizer: str | None = _arg("Model", "Tokenizer path, if it is not with the model", None)
    runner: Literal["auto", "generate", "pooling"] = _arg(
        "Model",
        "Whether prompts are continued or pooled into embeddings; auto pools encoders and what "
        "has the files of sentence-transformers",
        "auto",
    )
    convert: Literal["auto", "none", "embed"] = _arg(
        "Model", "embed pools the hidden states of a model that generates", "auto"
    )
    pooler_config: Mapping[str, Any] | None = _arg(
        "Model",
        "How hidden states are pooled where the checkpoint does not say, or other than it says: "
        "a JSON object with pooling_type (MEAN, CLS or LAST) and normalize (true or false)",
        None,
    )
    skip_tokenizer_init: bool = _arg(
        "Model", "Load no tokenizer: prompts are token ids and outputs have no text", False
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = _arg(
        "Model", "Dtype of weights and activations; auto is the checkpoint's", "auto"
    )
    quantization: Literal["none", "gguf", "int8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"] | None = (
        _arg(
            "Model",
            "Format of the weights in memory: 'gguf' keeps a GGUF file's blocks as they are (the "
            "default where the platform computes with them), 'none' makes them dense, any other "
            "quantizes while loading",
            None,
        )
    )
    max_model_len: int | Literal["auto"] | None = _arg(
        "Model",
        "Most tokens of prompt and output together; the default is the model's own limit, "
        "'auto' lowers it to what the memory holds",
        None,
    )
    seed: int = _arg(
        "Model", "Seed of the engine: what requests without a seed of their own draw from", 0
    )
    enforce_eager: bool = _arg("Model", "Never capture graphs", False)
    max_logprobs: int = _arg(
        "Model", "Most log-probabilities a token that a request may ask for; -1 is no limit", 20
    )
    load_format: Literal["auto", "safetensors", "gguf", "dummy"] = _arg(
        "Loading", "Format of the weights; dummy fills them with random values", "auto"
    )
    platform: str | Platform | None = _arg(  # noqa: RUF009 (a frozen default: None)
        "Platform", "Platform to run on, or an error; the default is the best one found", None
    )
    device_id: int | None = _arg(
        "Platform", "Index of the platform's device; the default is the platform's choice", None
    )
    additional_config: Mapping[str, Any] | None = _arg(
        "Platform", "Settings of plugins, by plugin name, as a JSON object", None
    )
    tensor_parallel_size: int = _arg("Parallel", "Workers that share each layer", 1)
    block_size: int | None = _arg("KV cache", "Tokens that a KV block holds", None)
    enable_prefix_caching: bool | None = _arg(
        "KV cache", "Reuse KV blocks of prompts that begin alike (default: on)", None
    )
    kv_cache_dtype: str = _arg(
        "KV cache", "Dtype of the KV cache; auto is the model's, fp8 is float8_e4m3fn", "auto"
    )
    num_kv_blocks_override: int | None = _arg(
        "KV cache", "Blocks in the KV cache, whatever the memory holds", None
    )
    num_gpu_blocks_override: int | None = _arg(
        "KV cache", "Another name of --num-kv-blocks-override", None
    )
    memory_utilization: float | None = _arg(
        "KV cache",
        "Share of the device's memory that weights, activations and KV cache take together; "
        "the default is the platform's",
        None,
    )
    gpu_memory_utilization: float | None = _arg(
        "KV cache", "Another name of --memory-utilization", None
    )
    max_num_batched_tokens: int | None = _arg(
        "Scheduler", "Tokens that one step may compute (default: 2048)", None
    )
    max_num_seqs: int | None = _arg("Scheduler", "Requests that run at once (default: 128)", None)
    scheduling_policy: Literal["fcfs", "priority"] = _arg(
        "Scheduler", "Order in which waiting requests are taken", "fcfs"
    )
    enable_chunked_prefill: bool = _arg("Scheduler", "Split long prompts over several steps", True)
    async_scheduling: bool | None = _arg(
        "Scheduler",
        "Schedule a step while the one before it runs (default: where the device queues work)",
        None,
    )
    structured_outputs_backend: str = _arg(
        "Structured output", "What compiles grammars; auto is xgrammar", "auto"
    )
    use_tqdm_on_load: bool = _arg("Loading", "Show a progress bar while loading", True)
