"""Drives a model step by step with hand-made batches, beside transformers' model."""

import itertools

import pytest
import torch

from runtime.core.attention.interface import BatchMetadata
from runtime.core.attention.layer import Attention
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
)
from runtime.core.forward_context import ForwardContext
from runtime.core.models.registry import ModelRegistry

BLOCK_SIZE = 8
MAX_LEN = 64
BLOCKS_EACH = MAX_LEN // BLOCK_SIZE


def make_config(platform, architecture, hf):
    return RuntimeConfig(
        platform=platform,
        model=ModelConfig(
            model="tiny",
            tokenizer=None,
            skip_tokenizer_init=True,
            hf=HFConfig(hf),
            generation=HFConfig({}),
            architecture=architecture,
            dtype=torch.float32,
            max_model_len=MAX_LEN,
            vocab_size=hf.get("vocab_size", 0),
            seed=0,
            enforce_eager=True,
            max_logprobs=0,
        ),
        load=LoadConfig("auto", use_tqdm=False),
        cache=CacheConfig(BLOCK_SIZE, False, None, "auto"),
        scheduler=SchedulerConfig(256, 8, SchedulingPolicy.FCFS, True),
    )


class Driver:
    """One model on a platform, for a few requests with fixed, permuted blocks."""

    def __init__(self, platform, architecture, hf, requests=4):
        self.platform = platform
        self.device = platform.devices.device(0)
        self.config = make_config(platform, architecture, hf)
        self.model = ModelRegistry.load(architecture)(config=self.config)
        self.attention = [m for m in self.model.modules() if isinstance(m, Attention)]
        blocks = torch.randperm(requests * BLOCKS_EACH) + 1
        self.table = blocks.reshape(requests, BLOCKS_EACH)
        for layer in self.attention:
            shape = layer.backend.kv_cache_shape(1 + blocks.numel(), layer.spec)
            layer.kv_cache = platform.memory.zeros(shape, layer.spec.kv_cache_dtype)

    def checkpoint_tensors(self):
        """Every view that a checkpoint fills, by name."""
        found = {}
        for module in self.model.modules():
            if hasattr(module, "checkpoint_tensors"):
                views = module.checkpoint_tensors()
                assert not found.keys() & views.keys()
                found |= views
        return found

    def load(self, state):
        """Fill from a state dict; its names and the model's must be the same."""
        views = self.checkpoint_tensors()
        renamed = {self.model.checkpoint_name(name): value for name, value in state.items()}
        renamed.pop(None, None)
        assert set(renamed) == set(views)
        for name, view in views.items():
            self.platform.memory.copy_to_device(renamed[name].detach().contiguous(), view)
        for module in self.model.modules():
            if hasattr(module, "process_weights_after_loading"):
                module.process_weights_after_loading()

    def put(self, values, dtype):
        host = torch.as_tensor(values, dtype=dtype)
        target = torch.empty(host.shape, dtype=dtype, device=self.device)
        self.platform.memory.copy_to_device(host, target)
        return host, target

    def step(self, sequences, work):
        """Logits of each token of one step; ``work`` is (request, computed, new) triples."""
        work = sorted(work, key=lambda item: item[2] > 1)
        spans = [(row, range(computed, computed + new)) for row, computed, new in work]
        positions = [p for _, span in spans for p in span]
        slots = [
            int(self.table[row, p // BLOCK_SIZE]) * BLOCK_SIZE + p % BLOCK_SIZE
            for row, span in spans
            for p in span
        ]
        counts = [new for *_, new in work]
        lengths = self.put([computed + new for _, computed, new in work], torch.int32)
        starts = self.put([0, *itertools.accumulate(counts)], torch.int32)
        batch = BatchMetadata(
            num_reqs=len(work),
            num_tokens=sum(counts),
            num_decodes=counts.count(1),
            max_query_len=max(counts),
            max_seq_len=int(lengths[0].max()),
            query_start_loc=starts[1],
            seq_lens=lengths[1],
            block_table=self.put(self.table[[row for row, *_ in work]], torch.int32)[1],
            slot_mapping=self.put(slots, torch.int64)[1],
            query_start_loc_host=starts[0],
            seq_lens_host=lengths[0],
        )
        first = self.attention[0]
        builder = first.backend.builder_class(self.config, first.spec, self.device)
        metadata = builder.build(batch)
        context = ForwardContext({layer.layer_name: metadata for layer in self.attention})
        ids = [sequences[row][p] for row, span in spans for p in span]
        hidden = self.model.forward(
            self.put(ids, torch.int32)[1], self.put(positions, torch.int64)[1], context
        )
        logits = self.platform.memory.copy_to_host(self.model.compute_logits(hidden))
        return zip((row for row, *_ in work), logits.split(counts), strict=True)

    @torch.inference_mode()
    def logits(self, sequences, steps):
        """Logits [tokens, vocab] of each sequence after all steps."""
        parts = [[] for _ in sequences]
        for work in steps:
            for row, logits in self.step(sequences, work):
                parts[row].append(logits)
        return [torch.cat(rows) for rows in parts]


@pytest.fixture
def driver():
    """``driver(platform, architecture, hf) -> Driver``."""
    return Driver


@pytest.fixture
def transformers_model():
    """A tiny random model: ``transformers_model("llama", **config) -> model``."""
    transformers = pytest.importorskip("transformers")

    def make(kind, **overrides):
        values = {
            "vocab_size": 131,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": MAX_LEN,
            "initializer_range": 0.2,
            **overrides,
        }
        config = transformers.AutoConfig.for_model(kind, **values)
        torch.manual_seed(5)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for name, tensor in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(tensor, std=0.3)
        return model.float().eval()

    return make
