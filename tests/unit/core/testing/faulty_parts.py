"""The faults themselves: each is the public class or the reference with one mistake."""

from dataclasses import replace

import torch

from runtime.core.attention.reference import ReferenceAttention, ReferenceBackend
from runtime.core.distributed.communicator import TorchCommunicator
from runtime.core.ops.registry import get_op, register_provider
from runtime.platforms.cpu.devices import CpuDevices
from runtime.platforms.cpu.memory import CpuMemory
from runtime.platforms.null.graph import NullGraphs


def register_ops():
    def native(name):
        return get_op(name).definition.reference

    @register_provider("rms_norm", provider="acme", device_type="cpu")
    def wrong_eps(x, weight, eps):
        return native("rms_norm")(x, weight, 0.1)

    @register_provider("silu_and_mul", provider="acme", device_type="cpu")
    def wrong_dtype(*args):
        return native("silu_and_mul")(*args).float()

    @register_provider("rotary_embedding", provider="acme", device_type="cpu")
    def wrong_sign(query, key, positions, cos_sin_cache):
        cos, sin = cos_sin_cache.chunk(2, dim=-1)
        return native("rotary_embedding")(query, key, positions, torch.cat((cos, -sin), dim=-1))

    @register_provider("write_kv_cache", provider="acme", device_type="cpu")
    def writes_its_input(key, value, kv_cache, slot_mapping):
        native("write_kv_cache")(key, value, kv_cache, slot_mapping)
        key.zero_()

    # A platform's policy names a provider of "linear" too: it is not there.


class WideWindowAttention(ReferenceAttention):
    def __init__(self, spec):
        window = spec.sliding_window
        super().__init__(replace(spec, sliding_window=None if window is None else window + 1))


class WideWindow(ReferenceBackend):
    name = "wide-window"
    impl_class = WideWindowAttention


class NoBlockTableAttention(ReferenceAttention):
    def forward(self, query, key, value, kv_cache, metadata):
        table = metadata.block_table
        following = table[:, :1] + torch.arange(table.shape[1], dtype=torch.int32)
        following = following.clamp_max(kv_cache.shape[1] - 1)
        return super().forward(
            query, key, value, kv_cache, replace(metadata, block_table=following)
        )


class NoBlockTable(ReferenceBackend):
    name = "no-block-table"
    impl_class = NoBlockTableAttention


class FaultyMemoryRole(CpuMemory):
    def copy_to_host(self, source):
        return source

    def peak(self, index=0):
        return 0

    def is_out_of_memory(self, error):
        return False

    def zeros(self, shape, dtype, index=0):
        return torch.ones(tuple(shape), dtype=dtype)


class FaultyDevices(CpuDevices):
    def seed(self, seed):
        pass


class DeadGraph:
    def replay(self):
        pass


class FaultyGraphRole(NullGraphs):
    def capture(self, work, beside=None):
        super().capture(work, beside)
        return DeadGraph()


class FaultyCommunicator(TorchCommunicator):
    def all_reduce(self, tensor):
        return tensor

    def barrier(self):
        pass
