"""The CUDA platform: NVIDIA GPUs of compute capability 8.0 and newer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    Platform,
    PlatformCapabilities,
    PlatformPolicy,
    ProbeResult,
    QueueRole,
)
from runtime.platforms.cuda.machine import (
    NoMachineError,
    read_machine,
    torch_cuda_version,
    visible_gpus,
    why_not,
)

if TYPE_CHECKING:
    from runtime.core.config.runtime import RuntimeConfig

SCORE = 100

LARGE = 64 << 30
"""Bytes of memory from which a device is given the large batches."""


class CudaPolicy(PlatformPolicy):
    """Compiled kernels, Triton's, and batches that suit the device's memory."""

    def config_overrides(self, config: RuntimeConfig) -> Mapping[str, Any]:
        """More requests and tokens a step than the core's defaults."""
        large = config.platform.memory.info(config.parallel.device_ids[0]).total >= LARGE
        tokens = 16384 if large else 8192
        if not config.scheduler.enable_chunked_prefill:
            tokens = max(tokens, config.model.max_model_len)
        seqs = config.scheduler.max_num_seqs
        return {"scheduler.max_num_batched_tokens": max(tokens, seqs)} | (
            {"scheduler.max_num_seqs": 512 if large else 256}
        )

    def op_priority(self, op_name: str) -> Sequence[str]:
        """The compiled kernels, then Triton's; what neither takes is torch's."""
        return ("kernels", "triton") if op_name in _OPS else ()

    def attention_backends(self) -> Sequence[str]:
        """By cuDNN and Triton, then others; each has a reason against all without Triton.

        Those of compiled kernels are behind until the engine has been measured with them on a GPU.
        """
        return (
            "runtime.platforms.cuda.attention:CudaBackend",
            "runtime.platforms.cuda.hopper:HopperBackend",
            "runtime.platforms.cuda.split_kv:SplitKvBackend",
            "runtime.platforms.triton.attention:TritonBackend",
        )

    def capture_sizes(self, max_num_seqs: int) -> Sequence[int]:
        """1, 2, 4, multiples of 8 up to 256 and of 16 up to 512."""
        sizes = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
        return [size for size in sizes if size <= max_num_seqs]

    def piece_sizes(self, max_num_batched_tokens: int) -> Sequence[int]:
        """Multiples of 16 up to 128, then wider apart."""
        return PIECES


_OPS = frozenset(
    (
        "apply_penalties",
        "fused_add_rms_norm",
        "gelu_tanh_and_mul",
        "greedy_sample",
        "linear",
        "rms_norm",
        "rotary_embedding",
        "rotary_write_kv_cache",
        "sample_tokens",
        "silu_and_mul",
        "write_kv_cache",
    )
)


PIECES = (*range(16, 129, 16), *range(160, 257, 32), *range(320, 513, 64))
"""Tokens of steps that the host would be slower to launch than the device to compute."""


class CudaPlatform(Platform):
    """NVIDIA GPUs through torch's CUDA device."""

    name = "cuda"
    device_type = "cuda"
    serves = ("nvidia-gpu",)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Asks NVML and reads torch's version; initialises no CUDA context."""
        try:
            machine = read_machine()
        except NoMachineError as error:
            return ProbeResult.no(str(error))
        reason = why_not(machine, torch_cuda_version(), os.environ)
        if reason is not None:
            return ProbeResult.no(reason)
        gpus = visible_gpus(machine.gpus, os.environ)
        first = gpus[0]
        count = f"{len(gpus)} x " if len(gpus) > 1 else ""
        return ProbeResult(
            SCORE, f"{count}{first.name}, {first.memory / 2**30:.0f} GiB, driver {machine.driver}"
        )

    @cached_property
    def capabilities(self) -> PlatformCapabilities:
        """Three float types, graphs, streams and page-locked memory."""
        return PlatformCapabilities(
            dtypes=("bfloat16", "float16", "float32"),
            kv_cache_dtypes=("auto", "float8_e4m3fn"),
            pinned_memory=True,
            streams=True,
            graph_capture=True,
            distributed=True,
        )

    @cached_property
    def devices(self) -> DeviceRole:
        """The visible GPUs."""
        from runtime.platforms.cuda.devices import CudaDevices

        return CudaDevices()

    @cached_property
    def memory(self) -> MemoryRole:
        """Their memory."""
        from runtime.platforms.cuda.memory import CudaMemory

        return CudaMemory()

    @cached_property
    def graphs(self) -> GraphRole:
        """CUDA graphs."""
        from runtime.platforms.cuda.graphs import CudaGraphs

        return CudaGraphs()

    @cached_property
    def queue(self) -> QueueRole:
        """The current stream."""
        from runtime.platforms.cuda.queue import CudaQueue

        return CudaQueue()

    @cached_property
    def policy(self) -> PlatformPolicy:
        """Kernels and batch sizes."""
        return CudaPolicy()

    @property
    def worker_class(self) -> str:
        """Measures what a step takes before the KV cache gets the rest."""
        return "runtime.core.runner.profiling:ProfilingWorker"

    def load_ops(self) -> None:
        """Register the compiled kernels, and Triton's, whose compiler the first call imports."""
        from runtime.platforms.cuda import ops
        from runtime.platforms.triton.ops import register_ops

        ops.register_ops()
        register_ops(self.device_type)

    @property
    def environment(self) -> Mapping[str, str]:
        """The driver's own."""
        return {
            "CUDA_VISIBLE_DEVICES": "GPUs that the process may use: indices or UUIDs",
        }

    @property
    def collective_backend(self) -> str:
        """NCCL."""
        return "nccl"
