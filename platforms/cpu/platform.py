"""The CPU platform: x86-64 and ARM64, on Linux and macOS."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from platform import machine
from typing import TYPE_CHECKING

from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    Platform,
    PlatformCapabilities,
    PlatformPolicy,
    ProbeResult,
)
from runtime.platforms.cpu.hardware import (
    architecture,
    instruction_set,
    physical_cores,
    usable_cores,
)

if TYPE_CHECKING:
    import torch

    from runtime.core.config.runtime import RuntimeConfig

SCORE = 10
"""Low: any accelerator that is there should win."""

_WITHOUT_KERNELS = frozenset(("block_linear", "encoder_attention", "gelu", "layer_norm"))
"""Ops that are torch's. Blocks are multiplied with by the scheme of packed weights, not by the op.
"""


class CpuPolicy(PlatformPolicy):
    """The compiled kernels first, where they are installed."""

    def op_priority(self, op_name: str) -> Sequence[str]:
        """The kernels; what they do not take is torch's."""
        return () if op_name in _WITHOUT_KERNELS else ("kernels",)

    def attention_backends(self) -> Sequence[str]:
        """The kernels' backend, which has a reason against every layer where they are missing."""
        return ("runtime.platforms.cpu.attention:KernelBackend",)

    def linear_scheme(self, method: str | None) -> str | None:
        """Packed weights, dense or in blocks, where the kernels are there."""
        from runtime.core.quantization.scheme import BLOCKS
        from runtime.platforms.cpu.kernels import why_missing

        if method not in (None, BLOCKS) or why_missing() is not None:
            return None
        return "runtime.platforms.cpu.packed:PackedScheme"

    def capture_sizes(self, max_num_seqs: int) -> Sequence[int]:
        """Every size: a capture costs little more than the step that it records."""
        return range(1, max_num_seqs + 1)


class CpuPlatform(Platform):
    """The processor as a device. Ops are compiled kernels where installed, else torch's own."""

    name = "cpu"
    device_type = "cpu"

    @classmethod
    def probe(cls) -> ProbeResult:
        """Runs on every machine whose architecture torch is built for."""
        arch = architecture()
        if arch is None:
            return ProbeResult.no(f"the processor is {machine()}, neither x86-64 nor ARM64")
        if sys.platform not in ("linux", "darwin"):
            return ProbeResult.no(f"the system is {sys.platform}, neither Linux nor macOS")
        count = len(physical_cores(usable_cores()))
        words = [arch, f"{count} core{'s' if count > 1 else ''}", instruction_set(arch)]
        return ProbeResult(SCORE, ", ".join(word for word in words if word))

    @cached_property
    def capabilities(self) -> PlatformCapabilities:
        """Three dtypes: bfloat16 first for its size, float16 last because few CPUs compute it.

        Quantised checkpoints run in bfloat16 where the processor multiplies it.
        A KV cache of int8, with a scale for each head of a token, needs the kernels.
        """
        return PlatformCapabilities(
            dtypes=("bfloat16", "float32", "float16"),
            quantized_dtype="bfloat16" if self._attends_in_bfloat16() else "float32",
            kv_cache_dtypes=("auto", "int8"),
            graph_capture=True,
        )

    @staticmethod
    def _attends_in_bfloat16() -> bool:
        """Whether the kernels multiply bfloat16 queries and keys in pairs: half the memory and up
        to twice the speed of float32 there, and neither elsewhere.
        """
        arch = architecture()
        asked = os.environ.get("VLLM_CPU_ISA", "").strip()
        widest = instruction_set(arch) if arch else None
        return widest in ("AVX-512 BF16", "AMX BF16") and asked in ("", "avx512_bf16", "amx")

    @cached_property
    def devices(self) -> DeviceRole:
        """The processor."""
        from runtime.platforms.cpu.devices import CpuDevices

        return CpuDevices()

    @cached_property
    def memory(self) -> MemoryRole:
        """The host's memory."""
        from runtime.platforms.cpu.memory import CpuMemory

        return CpuMemory()

    @cached_property
    def graphs(self) -> GraphRole:
        """Recorded kernel calls."""
        from runtime.platforms.cpu.graphs import CpuGraphs

        return CpuGraphs()

    @cached_property
    def policy(self) -> PlatformPolicy:
        """What the kernels serve."""
        return CpuPolicy()

    @property
    def runner_class(self) -> str:
        """Keeps torch from the kernels' cores."""
        return "runtime.platforms.cpu.runner:CpuModelRunner"

    def load_ops(self) -> None:
        """Load the compiled kernels where they are installed, and register them.

        Raises ConfigError where ``VLLM_CPU_ISA`` names what this processor does not have.
        """
        from runtime.platforms.cpu.ops import register_ops

        register_ops()

    def after_loading(self, model: torch.nn.Module, config: RuntimeConfig) -> None:
        """Give back what loading has left of the heap: 40 MB for a model of 135M parameters."""
        from runtime.platforms.cpu.memory import trim_heap

        trim_heap()

    def start_worker(self, config: RuntimeConfig, index: int) -> str:
        """Set threads and bind them as ``VLLM_CPU_OMP_THREADS_BIND`` says.

        Raises ConfigError where it asks for what is not there.
        """
        import torch

        from runtime.platforms.cpu.kernels import use_threads
        from runtime.platforms.cpu.threads import apply_plan, plan_threads

        line = apply_plan(plan_threads(os.environ, index), os.environ)
        use_threads(torch.get_num_threads())
        return line

    @property
    def environment(self) -> Mapping[str, str]:
        """The names that the field's users know."""
        return {
            "VLLM_CPU_KVCACHE_SPACE": "GiB for the KV cache; the default is what it can use, up to "
            "40 % of the free memory",
            "VLLM_CPU_ISA": "instruction set of the compiled kernels, instead of the widest: "
            "generic, avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16 or amx; on ARM64 neon, "
            "neon_dotprod, neon_i8mm or neon_bf16",
            "VLLM_CPU_OMP_THREADS_BIND": "cores for the threads: auto, nobind, or a list such as "
            "0-3,8 with | between workers",
        }
