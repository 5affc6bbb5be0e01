"""The platform contract: small roles, frozen capabilities, and policies that return overrides.

A platform is one class that names its roles. Whatever it leaves out has the default stated in
the role's docstring, so the least a platform must bring is a name, a torch device type, a probe,
a :class:`DeviceRole` and a :class:`MemoryRole`.

Importing this module is cheap: it does not import torch, so that a probe need not either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from runtime.core.config.runtime import RuntimeConfig


@dataclass(frozen=True)
class ProbeResult:
    """What a platform says of this machine.

    ``score`` is None where the platform cannot run here; 0 where it can but wants to be chosen by
    name only; above 0 it takes part in the automatic choice and the highest wins. ``reason`` is
    one clause in words, in every case: users read it.
    """

    score: int | None
    reason: str

    @property
    def available(self) -> bool:
        """Whether the platform can run on this machine."""
        return self.score is not None

    @classmethod
    def no(cls, reason: str) -> ProbeResult:
        """The platform cannot run here, and why."""
        return cls(None, reason)


@dataclass(frozen=True)
class PlatformCapabilities:
    """What a device can do. The defaults are what every device can."""

    dtypes: tuple[str, ...] = ("float32",)
    """Names of torch dtypes that models may run in, in order of preference."""
    quantized_dtype: str = "float32"
    """Which of them ``dtype="auto"`` is for weights that stay in the blocks of a checkpoint, which
    names no dtype then."""
    kv_cache_dtypes: tuple[str, ...] = ("auto",)
    """Accepted ``kv_cache_dtype`` values; ``auto`` is the model's own dtype."""
    kv_block_size: int = 16
    """Tokens a KV block holds unless the user says otherwise."""
    kv_block_sizes: tuple[int, ...] | None = None
    """Block sizes that may be asked for; None is any power of two."""
    max_head_size: int | None = None
    """Largest attention head the device serves; None is no limit."""
    pinned_memory: bool = False
    """Whether host buffers can be page-locked so that copies overlap with work."""
    streams: bool = False
    """Whether work can be queued on more than one stream."""
    graph_capture: bool = False
    """Whether :meth:`Platform.graphs` can capture and replay a step."""
    distributed: bool = False
    """Whether several workers can form a group with the platform's communicator."""


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes of device memory."""

    free: int
    total: int


@dataclass(frozen=True)
class MemoryUse:
    """Bytes a worker has measured before its KV cache is sized."""

    weights: int
    peak_activations: int
    kv_bytes_wanted: int
    """What ``max_num_seqs`` requests of ``max_model_len`` tokens would fill."""


@dataclass(frozen=True)
class KernelLibrary:
    """A compiled library that a platform loads, as a bug report should show it."""

    name: str
    """Its distribution: ``acme-kernels``."""
    built_for: str
    """The torch release that it was built for, or the oldest that it takes: ``2.11 or newer``."""
    found: str | None
    """The version that is installed; None: it is missing."""


@runtime_checkable
class DeviceRole(Protocol):
    """The devices themselves."""

    def count(self) -> int:
        """Devices that this process may use."""

    def device(self, index: int = 0) -> torch.device:
        """The torch device of that index."""

    def name(self, index: int = 0) -> str:
        """The device's name in words, for logs."""

    def activate(self, index: int = 0) -> None:
        """Make the device current in this thread; called once by each worker."""

    def synchronize(self, index: int = 0) -> None:
        """Wait until all queued work is done."""

    def seed(self, seed: int) -> None:
        """Seed the device's default random generator."""

    def generator(self, index: int = 0) -> torch.Generator:
        """A new random generator for in-place random ops on the device's tensors."""


@runtime_checkable
class MemoryRole(Protocol):
    """Device memory, and the only ways by which data crosses between host and device."""

    def info(self, index: int = 0) -> MemoryInfo:
        """Free and total bytes now."""

    def peak(self, index: int = 0) -> int:
        """Most bytes allocated at once since :meth:`reset_peak`."""

    def reset_peak(self, index: int = 0) -> None:
        """Start a new peak measurement."""

    def empty_cache(self) -> None:
        """Return cached, unused memory to the system."""

    def host_buffer(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed host tensor that copies fastest to this device (page-locked where it helps)."""

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, index: int = 0) -> torch.Tensor:
        """A zeroed device tensor, large and long-lived: a KV cache.

        Most of it may never be used: where the system can, memory is taken when it is touched.
        """

    def copy_to_device(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy a host tensor into a device tensor of the same shape.

        May return before the copy is done; the order with later device work is kept, and
        ``source`` must stay unchanged until the next :meth:`copy_to_host` or synchronisation.
        """

    def copy_to_host(self, source: torch.Tensor) -> torch.Tensor:
        """A host copy of a device tensor; waits for the work that makes it."""

    def kv_cache_bytes(self, config: RuntimeConfig, use: MemoryUse, index: int = 0) -> int:
        """How many bytes the KV cache may take on this device."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether that exception means that the device has no memory left."""


class HostCopy(Protocol):
    """A device tensor's values on their way to the host."""

    def wait(self) -> torch.Tensor:
        """The host tensor; waits until it is there."""


@runtime_checkable
class QueueRole(Protocol):
    """Work that the device queues. Without it the host waits for each step's tokens at once."""

    def start_copy_to_host(self, source: torch.Tensor) -> HostCopy:
        """Begin a copy of ``source`` as it is once all work before this call is done.

        Returns at once. Later work may change ``source``: it comes after the copy.
        """


class Graph(Protocol):
    """Captured device work."""

    def replay(self) -> None:
        """Run the captured work again on the same tensors."""


@runtime_checkable
class GraphRole(Protocol):
    """Capture of device work. A platform without it runs eagerly."""

    computes_while_capturing: bool
    """Whether a capture also computes what it records: a batch size is then captured by the first
    batch that has it, instead of all of them at start-up."""

    def capture(self, work: Callable[[], Any], beside: Graph | None = None) -> Graph:
        """Run ``work`` once and record it.

        ``beside`` is a graph that is never replayed at the same time as this one: the two may
        share the memory of their intermediate tensors.

        ``work`` must use tensors that outlive the graph, and may neither wait for the device nor
        copy between host and device: a platform raises RuntimeError where it does.
        """


@runtime_checkable
class PiecewiseRole(Protocol):
    """What a :class:`GraphRole` may have besides: captures of work with gaps."""

    def capture_pieces(
        self, work: Callable[[Callable[..., None]], Any], beside: Graph | None = None
    ) -> Graph:
        """Run ``work(outside)`` once and record it but for what it hands to ``outside``.

        ``outside(run, *tensors)`` calls ``run(*tensors)`` as if nothing were captured; a replay
        calls it again in its place, with tensors of the same memory. That memory may serve other
        pieces once ``run`` has returned.
        """


class PlatformPolicy:
    """What a platform would have different. Every method is pure and returns; none writes."""

    def config_overrides(self, config: RuntimeConfig) -> Mapping[str, Any]:
        """Values by dotted path (``{"scheduler.max_num_seqs": 64}``). Default: none.

        Only fields that the user left unset may be overridden.
        """
        return {}

    def op_priority(self, op_name: str) -> Sequence[str]:
        """Provider names for an op, best first. Default: none, so the native reference serves.

        ``native`` is always tried last.
        """
        return ()

    def attention_backends(self) -> Sequence[str]:
        """Qualified names (``package.module:Class``) of attention backends, best first.

        Default: none. The native backend is always tried last.
        """
        return ()

    def linear_scheme(self, method: str | None) -> str | None:
        """Qualified name of the ``LinearScheme`` for a quantisation method; None is dense.

        Default: None, the core's own scheme for the method.
        """
        return None

    def place_workers(self, count: int, available: int) -> Sequence[int]:
        """Device index of each of ``count`` workers, of ``available`` devices.

        Default: the first ones. ConfigError where they do not suffice.
        """
        if count > available:
            raise ConfigError(f"{count} workers need {count} devices; there are {available}")
        return range(count)

    def capture_sizes(self, max_num_seqs: int) -> Sequence[int]:
        """Batch sizes for which decode graphs are captured, ascending.

        A batch is padded to the next size; a larger one runs eagerly. Default: 1, 2, 4 and
        multiples of 8 up to the smaller of ``max_num_seqs`` and 64.
        """
        most = min(max_num_seqs, 64)
        return [size for size in (1, 2, 4, *range(8, 65, 8)) if size <= most]

    def piece_sizes(self, max_num_batched_tokens: int) -> Sequence[int]:
        """Numbers of tokens for which steps with prompts are captured, ascending.

        All but attention is, in pieces. A step is padded to the next size; a larger one runs
        eagerly. Only asked where :attr:`Platform.graphs` is a :class:`PiecewiseRole`. Default:
        none.
        """
        return ()

    def additional_config(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the plugin's own settings, ``additional_config[<its name>]``, and complete them.

        ConfigError names what is wrong. Default: the platform has no settings of its own.
        """
        if values:
            raise ConfigError(
                f"additional_config: this platform has no setting {next(iter(values))!r}"
            )
        return {}


class Platform(ABC):
    """A device, as the engine sees it.

    A platform object holds no mutable state of its own and is pickled by its class, so that a
    spawned worker gets the same one.
    """

    name: ClassVar[str]
    """What users type in ``--platform``."""
    device_type: ClassVar[str]
    """The torch device type of its tensors."""
    serves: ClassVar[Sequence[str]] = ()
    """Kinds of hardware that it serves, as hardware plugins name them, beside one of its own name.
    """

    @classmethod
    @abstractmethod
    def probe(cls) -> ProbeResult:
        """Say whether the platform can run here.

        Cheap and without effect: initialises no driver, imports nothing heavy. An exception is
        reported to the user with its cause.
        """

    @cached_property
    @abstractmethod
    def capabilities(self) -> PlatformCapabilities:
        """What the device can do; read before anything is built."""

    @cached_property
    @abstractmethod
    def devices(self) -> DeviceRole:
        """The devices."""

    @cached_property
    @abstractmethod
    def memory(self) -> MemoryRole:
        """Device memory and copies."""

    @cached_property
    def graphs(self) -> GraphRole | None:
        """Graph capture. Default: None, everything runs eagerly."""
        return None

    @cached_property
    def queue(self) -> QueueRole | None:
        """Queued work. Default: None, each step is waited for."""
        return None

    @cached_property
    def policy(self) -> PlatformPolicy:
        """Overrides of the core's choices. Default: none."""
        return PlatformPolicy()

    def load_ops(self) -> None:  # noqa: B027 (optional, with a default)
        """Register this platform's op providers. Default: nothing to register.

        Called once before ops are resolved; this is where a kernel library is loaded.
        """

    def start_worker(self, config: RuntimeConfig, index: int) -> str | None:
        """Prepare the calling process for work on a device (bind threads, pick streams).

        Returns a line for the start-up log, or None. Default: nothing to prepare.
        """
        return None

    def after_loading(self, model: torch.nn.Module, config: RuntimeConfig) -> None:  # noqa: B027
        """Change a model once its weights are there (fuse, repack, move). Default: nothing."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that the platform reads, with what each does. Default: none."""
        return {}

    @property
    def kernel_libraries(self) -> Sequence[KernelLibrary]:
        """Compiled libraries that the platform loads, for bug reports. Default: none.

        Read without a model and perhaps on a broken installation: loads nothing.
        """
        return ()

    @property
    def process_start_method(self) -> str:
        """How worker processes start: ``spawn``, ``fork`` or ``forkserver``. Default: ``spawn``.

        The user's VLLM_WORKER_MULTIPROC_METHOD wins.
        """
        return "spawn"

    @property
    def executor_class(self) -> str:
        """Qualified name of the ``Executor``. Default: one worker in the engine's process."""
        return "runtime.core.runner.executor:UniprocExecutor"

    @property
    def scheduler_class(self) -> str:
        """Qualified name of the ``Scheduler`` subclass. Default: the core's."""
        return "runtime.core.scheduler.scheduler:Scheduler"

    @property
    def worker_class(self) -> str:
        """Qualified name of the ``Worker`` subclass. Default: the core's."""
        return "runtime.core.runner.worker:Worker"

    @property
    def runner_class(self) -> str:
        """Qualified name of the ``ModelRunner`` subclass.

        Default: the core's: with captured graphs where the platform has them, else eager.
        """
        if self.capabilities.graph_capture:
            return "runtime.core.runner.graph_runner:GraphModelRunner"
        return "runtime.core.runner.model_runner:ModelRunner"

    @property
    def sampler_class(self) -> str:
        """Qualified name of the ``Sampler`` subclass, log-probabilities included."""
        return "runtime.core.sampling.sampler:Sampler"

    @property
    def communicator_class(self) -> str:
        """Qualified name of the ``Communicator``. Default: torch.distributed."""
        return "runtime.core.distributed.communicator:TorchCommunicator"

    @property
    def collective_backend(self) -> str:
        """torch.distributed backend that the default communicator uses. Default: ``gloo``."""
        return "gloo"

    def __reduce__(self) -> tuple[type[Platform], tuple[()]]:
        """Pickle by class: role objects are made anew where the platform is used."""
        return type(self), ()

    def __repr__(self) -> str:
        """The name, as users know it."""
        return f"<platform {self.name}>"
