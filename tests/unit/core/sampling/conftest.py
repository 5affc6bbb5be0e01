"""A sampler on each of the built-in platforms, and batches to give it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from runtime.core.runner.input_batch import RequestState
from runtime.core.sampling.params import SamplingParams
from runtime.core.sampling.sampler import Sampler, SamplingBatch
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform


class Bench:
    """A sampler with host logits in and tokens out."""

    def __init__(self, platform, seed=0):
        self.platform = platform
        self.device = platform.devices.device(0)
        self.config = SimpleNamespace(platform=platform, model=SimpleNamespace(seed=seed))
        self.sampler = Sampler(self.config, self.device)

    def batch(self, *rows):
        """Rows are (params, prompt tokens, output tokens[, stop ids, bad words])."""
        states, tokens = [], []
        for index, (params, prompt, output, *rest) in enumerate(rows):
            stop_ids, bad_words = [*rest, [], []][:2]
            states.append(
                RequestState(
                    request_id=str(index),
                    row=index,
                    params=params,
                    num_prompt_tokens=len(prompt),
                    num_tokens=len(prompt) + len(output),
                    num_computed=0,
                    num_blocks=[],
                    stop_token_ids=stop_ids,
                    bad_words_token_ids=bad_words,
                    prompt_logprobs_from=0,
                )
            )
            tokens.append(np.array([*prompt, *output], dtype=np.int32))
        return SamplingBatch(states, tokens)

    def on_device(self, logits):
        host = torch.as_tensor(logits, dtype=torch.float32)
        target = torch.empty(host.shape, device=self.device)
        self.platform.memory.copy_to_device(host, target)
        return target

    def sample(self, logits, *rows):
        with torch.inference_mode():
            return self.sampler.sample(self.on_device(logits), self.batch(*rows))

    def processed(self, logits, *rows):
        """Logits after all processors."""
        batch = self.batch(*rows)
        with torch.inference_mode():
            values = self.on_device(logits)
            for processor in self.sampler._processors:
                processor.apply(values, batch)
            return self.platform.memory.copy_to_host(values).numpy()


@pytest.fixture(params=[CpuPlatform, NullPlatform], ids=["cpu", "null"])
def bench(request):
    """A sampler bench."""
    return Bench(request.param())


@pytest.fixture
def new_bench():
    """Make another bench, with its own engine seed."""
    return lambda seed=0: Bench(CpuPlatform(), seed)


@pytest.fixture
def params():
    """Sampling parameters, greedy unless told."""
    return lambda **given: SamplingParams(**{"temperature": 0.0, **given})
