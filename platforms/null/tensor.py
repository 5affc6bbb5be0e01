"""Tensors of the null device: each wraps a host tensor, which does the computing.

Ops arrive at ``__torch_dispatch__``, run on the wrapped tensors, and their results are wrapped
again. Views wrap views of the same host storage, so aliasing is torch's own. What only a device
would object to is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload

from runtime.platforms.null.device import Block, NullDevice, null_device
from runtime.platforms.null.traits import OpTraits, Place, traits_of

DEVICE_TYPE = "null"

_TO_DEVICE = "use the platform's memory.copy_to_device"
_TO_HOST = "use the platform's memory.copy_to_host"


class NullTensor(torch.Tensor):
    """A tensor on the null device; made by :func:`wrap`."""

    _host: torch.Tensor
    _block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: OpOverload,
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an op that has a null tensor among its arguments."""
        return _dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Shape and dtype; showing values would be a copy that nobody asked for."""
        return f"NullTensor(shape={tuple(self.shape)}, dtype={self.dtype})"

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Refused: the host cannot read device memory."""
        _refuse("Tensor.numpy", "null:0 to host", _TO_HOST)

    def tolist(self) -> NoReturn:
        """Refused: the host cannot read device memory."""
        _refuse("Tensor.tolist", "null:0 to host", _TO_HOST)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the host cannot read device memory."""
        _refuse("Tensor.__dlpack__", "null:0 to host", _TO_HOST)

    def data_ptr(self) -> NoReturn:
        """Refused: nothing can use an address on a device without hardware."""
        _refuse("Tensor.data_ptr", "null:0 to host", _TO_HOST)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        """A copy with memory of its own; a parameter stays one."""
        copy = self.detach().clone().requires_grad_(self.requires_grad)
        copy.__dict__.update({**self.__dict__, **copy.__dict__})
        memo[id(self)] = copy
        return copy

    @property
    def data(self) -> torch.Tensor:
        """The tensor without its history, as in torch."""
        bare: torch.Tensor = torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]
        return bare

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        """Take another null tensor's contents and shape, as in torch."""
        if not isinstance(value, NullTensor):
            _refuse("Tensor.data", f"{value.device} to null:0", _TO_DEVICE)
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self._host, self._block = value._host, value._block


def wrap(host: torch.Tensor, device: NullDevice) -> NullTensor:
    """The null tensor that stands for a host tensor; they share memory.

    Raises torch.OutOfMemoryError where the host tensor's storage is new to the device and larger
    than its free memory.
    """
    block = device.block(host.untyped_storage())
    # As the host tensor is: a view of a tensor from outside inference mode is none of inference.
    with torch.inference_mode(host.is_inference()):
        tensor: NullTensor = torch.Tensor._make_wrapper_subclass(
            NullTensor,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device(DEVICE_TYPE, 0),
        )
    tensor._host = host
    tensor._block = block
    return tensor


def host_of(tensor: torch.Tensor) -> torch.Tensor:
    """The host tensor that a null tensor wraps. Only the memory role may copy through it.

    Raises RuntimeError for a tensor of another device.
    """
    if not isinstance(tensor, NullTensor):
        raise RuntimeError(f"a tensor on null:0 is needed, this one is on {tensor.device}")
    return tensor._host


def _dispatch(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    traits = traits_of(func)
    if traits.decompose:
        return func.decompose(*args, **kwargs)
    strangers: list[torch.Tensor] = []
    host_args = [_unwrap(value, strangers) for value in args]
    host_kwargs = {name: _unwrap(value, strangers) for name, value in kwargs.items()}
    if strangers:
        _check_strangers(traits, args, kwargs, strangers)
        host_args, host_kwargs = _with_numbers_fixed(host_args, host_kwargs, strangers)
    device = null_device()
    if traits.waits or (traits.index and _needs_hit_count(host_args)):
        device.wait(traits.name)
    target = kwargs.get("device")
    stays = target is None or target.type == DEVICE_TYPE
    if traits.moves and not stays:
        _refuse(traits.name, f"null:0 to {target}", _TO_HOST)
    host_result = func(*host_args, **host_kwargs)
    result = _results(traits, args, kwargs, host_result) if stays else host_result
    recording = device.local.recording
    if recording is not None:
        recording.add(func, host_args, host_kwargs, host_result, result)
    return result


def _unwrap(value: Any, strangers: list[torch.Tensor]) -> Any:
    """What an argument is on the host; tensors that are not on the null device are collected."""
    kind = type(value)
    if kind is NullTensor:
        return value._host
    if kind is list or kind is tuple:
        return [_unwrap(item, strangers) for item in value]
    if kind is torch.device and value.type == DEVICE_TYPE:
        check_index(value)
        return torch.device("cpu")
    if isinstance(value, torch.Tensor):
        strangers.append(value)
    return value


def check_index(device: torch.device) -> None:
    """Raise RuntimeError for any device but the only one there is."""
    if device.index:
        raise RuntimeError(f"there is no device {device}: the null platform has one, null:0")


def _results(
    traits: OpTraits,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    host_result: Any,
) -> Any:
    """What an op returns: the arguments it wrote to where it says so, else new null tensors."""
    device = null_device()
    if traits.resizes:
        for place in traits.written:
            value = _at(place, args, kwargs)
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                _follow(tensor)
    if traits.returned:
        same = [_at(place, args, kwargs) for place in traits.returned]
        return same[0] if len(same) == 1 else tuple(same)
    if isinstance(host_result, torch.Tensor):
        return wrap(host_result, device)
    if isinstance(host_result, (list, tuple)):
        return type(host_result)(
            wrap(item, device) if isinstance(item, torch.Tensor) else item for item in host_result
        )
    return host_result


def _follow(tensor: NullTensor) -> None:
    """Give a tensor the shape that an op has just given its host tensor."""
    host = tensor._host
    null_device().resized(tensor._block)
    if host.shape != tensor.shape or host.stride() != tensor.stride():
        tensor.data = wrap(host, null_device())


def _at(place: Place, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An argument; None where an optional one was left out."""
    if isinstance(place, str):
        return kwargs.get(place)
    return args[place] if place < len(args) else None


def _with_numbers_fixed(
    args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Sequence[torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with 0-dim host tensors copied: a graph keeps their value, not the tensor."""

    def fixed(value: Any) -> Any:
        return value.clone() if any(value is number for number in numbers) else value

    return [fixed(v) for v in args], {name: fixed(v) for name, v in kwargs.items()}


def _needs_hit_count(args: Sequence[Any]) -> bool:
    """Whether an index op must know how many elements a mask selects.

    Writing one value where one mask hits needs no count: it is a masked fill.
    """
    masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
    if not masks:
        return False
    fills = len(args) > 2 and args[2].numel() == 1 and len(args[1]) == 1
    return not fills


def _check_strangers(
    traits: OpTraits,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    strangers: Sequence[torch.Tensor],
) -> None:
    """Raise RuntimeError unless the tensors of other devices are numbers in disguise."""
    written = [_at(place, args, kwargs) for place in traits.written]
    if traits.moves:
        target = written[0]
        if isinstance(target, NullTensor):
            _refuse(traits.name, f"{strangers[0].device} to null:0", _TO_DEVICE)
        _refuse(traits.name, f"null:0 to {target.device}", _TO_HOST)
    direct = [*args, *kwargs.values()]
    for stranger in strangers:
        number = (
            traits.takes_host_number
            and stranger.dim() == 0
            and stranger.device.type == "cpu"
            and any(stranger is value for value in direct)
            and not any(stranger is value for value in written)
        )
        if not number:
            _refuse(traits.name, f"mixing null:0 and {stranger.device} tensors", _TO_DEVICE)


def _refuse(op: str, what: str, remedy: str) -> NoReturn:
    raise RuntimeError(f"{op} on the null device: {what} is refused; {remedy}")
