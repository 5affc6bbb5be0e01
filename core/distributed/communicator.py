"""What workers say to each other, and the default way: torch.distributed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.distributed as dist

from runtime.core.platform.interface import Platform


class Communicator(ABC):
    """A group of workers, each with one device. All of them make the same calls in one order."""

    def __init__(self, platform: Platform, rank: int, world_size: int, init_method: str) -> None:
        """Join the group; returns when all have.

        Args:
            platform: the platform of this worker's tensors.
            rank: this worker, from 0.
            world_size: workers in the group.
            init_method: where they meet: a torch.distributed URL such as ``file:///path``.
        """
        self.platform = platform
        self.rank = rank
        self.world_size = world_size

    @abstractmethod
    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all workers; may reuse ``tensor``."""

    @abstractmethod
    def all_gather(self, tensor: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """All workers' tensors, joined along ``dim`` in the order of their ranks."""

    @abstractmethod
    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> torch.Tensor:
        """The tensor of worker ``source``; may reuse ``tensor``."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait for all workers."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class TorchCommunicator(Communicator):
    """torch.distributed on the platform's ``collective_backend``, for tensors that it takes."""

    def __init__(self, platform: Platform, rank: int, world_size: int, init_method: str) -> None:
        super().__init__(platform, rank, world_size, init_method)
        dist.init_process_group(
            platform.collective_backend,
            init_method=init_method,
            rank=rank,
            world_size=world_size,
        )

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """In place."""
        dist.all_reduce(tensor)
        return tensor

    def all_gather(self, tensor: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """A new tensor."""
        parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> torch.Tensor:
        """In place."""
        dist.broadcast(tensor, source)
        return tensor

    def barrier(self) -> None:
        """Wait for all workers."""
        dist.barrier()

    def close(self) -> None:
        """End the process group."""
        dist.destroy_process_group()


class HostCommunicator(TorchCommunicator):
    """Collectives over copies on the host, for devices whose tensors torch.distributed refuses."""

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """In place, by way of the host."""
        return self._put(super().all_reduce(self._host(tensor)), tensor)

    def all_gather(self, tensor: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """A new tensor, by way of the host."""
        joined = super().all_gather(self._host(tensor), dim)
        target = torch.empty(joined.shape, dtype=joined.dtype, device=tensor.device)
        return self._put(joined, target)

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> torch.Tensor:
        """In place, by way of the host."""
        return self._put(super().broadcast(self._host(tensor), source), tensor)

    def _host(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.platform.memory.copy_to_host(tensor)

    def _put(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.platform.memory.copy_to_device(source, target)
        return target
