"""Schedulers without a model: the runner's part is played by a function of the tokens."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
)
from runtime.core.kv_cache.spec import FullAttentionSpec, group_layers, plan_layout
from runtime.core.messages import EngineRequest, RunnerOutput
from runtime.core.sampling.params import SamplingParams
from runtime.core.scheduler.scheduler import Scheduler
from runtime.platforms.null.platform import NullPlatform


def _config(*, block_size, max_model_len, budget, max_seqs, policy, caching, chunked):
    return RuntimeConfig(
        platform=NullPlatform(),
        model=ModelConfig(
            model="none",
            tokenizer=None,
            skip_tokenizer_init=True,
            hf=HFConfig({}),
            generation=HFConfig({}),
            architecture="None",
            dtype=torch.float32,
            max_model_len=max_model_len,
            vocab_size=1000,
            seed=0,
            enforce_eager=False,
            max_logprobs=20,
        ),
        load=LoadConfig("dummy", False),
        cache=CacheConfig(block_size, caching, None, "auto"),
        scheduler=SchedulerConfig(budget, max_seqs, SchedulingPolicy(policy), chunked),
    )


class Harness:
    """A scheduler and a pretended runner that checks what it is told."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.known = {}
        self.outputs = {}
        self.finished = {}
        self.ids = itertools.count()

    def add(self, tokens, *, request_id=None, salt=None, **params):
        request_id = request_id or f"r{next(self.ids)}"
        params = SamplingParams(**{"temperature": 0, **params})
        self.scheduler.add(
            EngineRequest(request_id, list(tokens), params, [999], next(self.ids), salt)
        )
        self.outputs[request_id] = []
        return request_id

    def step(self):
        step = self.scheduler.schedule()
        for request_id in step.removed:
            del self.known[request_id]
        for new in step.new_requests:
            assert new.request_id not in self.known, "told twice"
            state = SimpleNamespace(
                tokens=list(new.token_ids),
                computed=new.num_computed,
                blocks=[list(b) for b in new.block_ids],
            )
            self.known[new.request_id] = state
        for update in step.updates:
            state = self.known[update.request_id]
            state.computed = update.num_computed
            for mine, more in zip(state.blocks, update.new_block_ids, strict=True):
                mine.extend(more)
        sampled = {}
        sizes = [group.spec.block_size for group in self.scheduler.kv_cache.layout.groups]
        for request_id, count in step.num_scheduled.items():
            state = self.known[request_id]
            assert count > 0
            end = state.computed + count
            assert end <= len(state.tokens), "more scheduled than known"
            for blocks, size in zip(state.blocks, sizes, strict=True):
                assert len(blocks) * size >= end, "no block for a token"
            if end == len(state.tokens):
                token = self.next_token(state.tokens)
                state.tokens.append(token)
                sampled[request_id] = token
        for output in self.scheduler.update(step, RunnerOutput(sampled, {}, {})):
            self.outputs[output.request_id] += output.new_token_ids
            if output.finish_reason:
                self.finished[output.request_id] = output
        return step

    def run(self, limit=10_000):
        for _ in range(limit):
            if not self.scheduler.has_requests:
                return self
            self.step()
        raise AssertionError("requests never finish")

    @staticmethod
    def next_token(tokens):
        """A token that depends on all before it, never end-of-sequence."""
        return hash(tuple(tokens)) % 900


@pytest.fixture
def harness():
    """Make a scheduler over pools of ``blocks`` usable blocks."""

    def make(
        *,
        blocks=64,
        block_size=4,
        max_model_len=64,
        budget=32,
        max_seqs=8,
        policy="fcfs",
        caching=True,
        chunked=True,
        specs=None,
    ):
        config = _config(
            block_size=block_size,
            max_model_len=max_model_len,
            budget=budget,
            max_seqs=max_seqs,
            policy=policy,
            caching=caching,
            chunked=chunked,
        )
        specs = specs or {"layer": FullAttentionSpec(block_size, 1)}
        layout = plan_layout(group_layers(specs), 0, max_model_len, budget, override=blocks)
        return Harness(Scheduler(config, layout))

    return make
