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
    """Tells the platform's layers the size of the step, in ``ctx.extras["slate"]``."""

    def forward_extras(self, num_reqs, num_tokens):
        return {"slate": {"num_reqs": num_reqs, "num_tokens": num_tokens}}

    def run_model(self, inputs):
        self.last_extras = inputs.context.extras["slate"]
        return super().run_model(inputs)


class ShortestFirst(WaitingQueue):
    """Orders waiting requests by their prompts' lengths, within one priority."""

    def key(self, request):
        priority, arrival, index = super().key(request)
        return priority * 1_000_000 + request.num_prompt_tokens, arrival, index


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
        parts = self.all_gather(tensor.unsqueeze(0), dim=0)
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        return tensor.copy_(total)
