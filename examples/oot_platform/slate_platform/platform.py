"""What the core is told of the device. Importing this file imports no torch."""

import os
from functools import cached_property
from types import MappingProxyType

from runtime.core.errors import ConfigError
from runtime.core.platform import interface


class SlatePolicy(interface.PlatformPolicy):
    """What slate would have different from the core's choices."""

    def config_overrides(self, config):
        return {"scheduler.max_num_seqs": 16}

    def op_priority(self, op_name):
        return ("slate",) if op_name in ("rms_norm", "silu_and_mul") else ()

    def attention_backends(self):
        return ("slate_platform.attention:SlateBackend",)

    def linear_scheme(self, method):
        return "slate_platform.ops:TransposedScheme" if method is None else None

    def place_workers(self, count, available):
        super().place_workers(count, available)
        return range(available - 1, available - 1 - count, -1)  # The first one drives a screen.

    def capture_sizes(self, max_num_seqs):
        return ()

    def additional_config(self, values):
        unknown, tiles = sorted(set(values) - {"tiles"}), values.get("tiles", 4)
        if unknown or not isinstance(tiles, int) or tiles < 1:
            fault = unknown[0] if unknown else f"tiles={tiles!r}"
            raise ConfigError(f"additional_config['slate']: {fault}; 'tiles' is an integer above 0")
        return {"tiles": tiles}


class SlatePlatform(interface.Platform):
    """A device with memory and ops of its own, whose tensors torch sees as host tensors."""

    name = "slate"
    device_type = "cpu"
    capabilities = interface.PlatformCapabilities(
        dtypes=("float32", "bfloat16"), kv_block_size=8, kv_block_sizes=(8, 16), distributed=True
    )
    policy = SlatePolicy()
    environment = MappingProxyType(
        {"SLATE_DEVICES": "devices, 2 by default", "SLATE_MEMORY": "GiB in all, 1 by default"}
    )
    process_start_method = "forkserver"
    worker_class = "slate_platform.engine:SlateWorker"
    runner_class = "slate_platform.engine:SlateModelRunner"
    scheduler_class = "slate_platform.engine:SlateScheduler"
    sampler_class = "slate_platform.engine:SlateSampler"
    communicator_class = "slate_platform.engine:SlateCommunicator"

    @classmethod
    def probe(cls):
        count = os.environ.get("SLATE_DEVICES", "2")
        if not count.isdecimal() or int(count) == 0:
            return interface.ProbeResult.no(f"SLATE_DEVICES={count!r} is not a number of devices")
        return interface.ProbeResult(20, f"simulated, devices: {count}")

    @cached_property
    def devices(self):
        from slate_platform.roles import SlateDevices

        return SlateDevices()

    @cached_property
    def memory(self):
        from slate_platform.roles import SlateMemory

        return SlateMemory()

    def load_ops(self):
        import slate_platform.ops  # noqa: F401  (registers them)

    def start_worker(self, config, index):
        return f"device {index}, {config.additional_config['slate']['tiles']} tiles"

    def after_loading(self, model, config):
        from slate_platform.attention import follow_the_runner

        follow_the_runner(model)
