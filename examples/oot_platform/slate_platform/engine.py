"""Subclasses of the engine's parts, each changing one thing."""

from runtime.core.distributed.communicator import TorchCommunicator
from runtime.core.runner.model_runner import ModelRunner
from runtime.core.runner.worker import Worker
from runtime.core.sampling.sampler import Sampler
from runtime.core.scheduler.queue import WaitingQueue
from runtime.core.scheduler.scheduler import Scheduler


class SlateWorker(Worker):
    """Leaves an eighth of the memory to the device's own buffers."""

    def kv_cache_bytes(self, wanted):
        return super().kv_cache_bytes(wanted) * 7 // 8


class SlateModelRunner(ModelRunner):
    """Divides a step's tokens among the tiles; attention reads it in ``ctx.extras["slate"]``."""

    def forward_extras(self, num_reqs, num_tokens):
        tiles = self.config.additional_config["slate"]["tiles"]
        return {"slate": {"rows": -(-num_tokens // tiles)}}


class ShortestFirst(WaitingQueue):
    """Orders waiting requests by their prompts' lengths, within one priority."""

    def key(self, request):
        return super().key(request)[0], request.num_prompt_tokens, request.arrival_index


class SlateScheduler(Scheduler):
    """Takes short prompts first."""

    def __init__(self, config, layout):
        super().__init__(config, layout)
        self.waiting = ShortestFirst(config.scheduler.policy)


class SlateSampler(Sampler):
    """Counts the rows that it draws."""

    rows = 0

    def sample(self, logits, batch):
        self.rows += len(batch.states)
        return super().sample(logits, batch)


class SlateCommunicator(TorchCommunicator):
    """Sums in the order of ranks, so that a sum is the same on every run."""

    def all_reduce(self, tensor):
        return tensor.copy_(sum(self.all_gather(tensor.unsqueeze(0), dim=0)))
