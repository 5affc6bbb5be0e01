"""Out-of-tree platforms, each with faults that the conformance suite must find.

Copied to a folder of its own by the test, with a ``.dist-info`` beside it.
"""

from dataclasses import replace
from functools import cached_property

from runtime.core.platform.interface import PlatformPolicy
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform


class Bare(CpuPlatform):
    """The processor with torch's own ops and no graphs."""

    graphs = None

    @cached_property
    def capabilities(self):
        return replace(super().capabilities, graph_capture=False)

    @cached_property
    def policy(self):
        return PlatformPolicy()

    def load_ops(self):
        pass


class FaultyOpsPolicy(PlatformPolicy):
    def op_priority(self, op_name):
        faulty = ("rms_norm", "silu_and_mul", "rotary_embedding", "write_kv_cache", "linear")
        return ("acme",) if op_name in faulty else ()


class FaultyOps(Bare):
    """Providers with a wrong eps, dtype, sign, another argument written to, and one missing."""

    name = "faulty-ops"

    @cached_property
    def policy(self):
        return FaultyOpsPolicy()

    def load_ops(self):
        from faulty_parts import register_ops

        register_ops()


class FaultyAttentionPolicy(PlatformPolicy):
    def attention_backends(self):
        return ("faulty_parts:WideWindow", "faulty_parts:NoBlockTable")


class FaultyAttention(Bare):
    """Backends that see a token too many, and that ignore the block table."""

    name = "faulty-attention"

    @cached_property
    def policy(self):
        return FaultyAttentionPolicy()


class FaultyMemory(Bare):
    """Aliases, no peak, no out-of-memory, zeros that are none, and seeds that do nothing."""

    name = "faulty-memory"

    @cached_property
    def memory(self):
        from faulty_parts import FaultyMemoryRole

        return FaultyMemoryRole()

    @cached_property
    def devices(self):
        from faulty_parts import FaultyDevices

        return FaultyDevices()


class FaultyGraphs(NullPlatform):
    """Graphs that run nothing again."""

    name = "faulty-graphs"

    @cached_property
    def graphs(self):
        from faulty_parts import FaultyGraphRole

        return FaultyGraphRole()


class FaultyGroupPolicy(PlatformPolicy):
    def place_workers(self, count, available):
        return [0] * count


class FaultyGroup(Bare):
    """A communicator that does not reduce and waits for nobody."""

    name = "faulty-group"
    communicator_class = "faulty_parts:FaultyCommunicator"

    @cached_property
    def capabilities(self):
        return replace(super().capabilities, dtypes=("float32",), distributed=True)

    @cached_property
    def policy(self):
        return FaultyGroupPolicy()


class FaultyLoading(Bare):
    """A model that is changed after its weights are there."""

    name = "faulty-loading"

    def after_loading(self, model, config):
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.data[0] = -weight.data[0]


class Sound(FaultyGroup):
    """Nothing of that: a platform that brings only a group of two workers."""

    name = "sound"
    communicator_class = "runtime.core.distributed.communicator:TorchCommunicator"


def register_ops_platform():
    return "faulty_platforms:FaultyOps"


def register_attention_platform():
    return "faulty_platforms:FaultyAttention"


def register_memory_platform():
    return "faulty_platforms:FaultyMemory"


def register_graphs_platform():
    return "faulty_platforms:FaultyGraphs"


def register_group_platform():
    return "faulty_platforms:FaultyGroup"


def register_loading_platform():
    return "faulty_platforms:FaultyLoading"


def register_sound_platform():
    return "faulty_platforms:Sound"
