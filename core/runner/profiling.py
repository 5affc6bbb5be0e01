"""A worker that runs the largest step once, to see what memory it takes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from runtime.core import ops
from runtime.core.attention.interface import BatchMetadata
from runtime.core.forward_context import ForwardContext
from runtime.core.kv_cache.spec import group_layers
from runtime.core.runner.buffers import to_device
from runtime.core.runner.model_runner import ModelRunner
from runtime.core.runner.worker import Worker

logger = logging.getLogger(__name__)


class ProfilingWorker(Worker):
    """For devices whose allocator tells its peak. Default elsewhere: an estimate by shapes."""

    def peak_activation_bytes(self) -> int:
        """Most bytes of tensors at once in the largest step, beside weights and KV cache."""
        memory = self.platform.memory
        memory.empty_cache()
        memory.reset_peak(self.index)
        before = memory.peak(self.index)
        run_largest_step(self.runner)
        self.platform.devices.synchronize(self.index)
        peak = memory.peak(self.index) - before
        memory.empty_cache()
        logger.info("the largest step takes %.2f GiB of activations", peak / 2**30)
        return peak


@torch.inference_mode()
def run_largest_step(runner: ModelRunner) -> None:
    """Prompts of all tokens that a step may have, then a draw for all requests that may run.

    Keys and values go to a cache of one block, which all requests share and which is let go.
    """
    config = runner.config
    limits, most = config.scheduler, config.model.max_model_len
    tokens = min(limits.max_num_batched_tokens, limits.max_num_seqs * most)
    counts = np.full(-(-tokens // most), most, dtype=np.int32)
    counts[0] = tokens - most * (len(counts) - 1)
    try:
        context = _context(runner, counts)
        ids = torch.zeros(tokens, dtype=torch.int32, device=runner.device)
        positions = np.concatenate([np.arange(count) for count in counts])
        hidden = runner.model.forward(
            ids, to_device(positions, torch.int64, runner.device, runner.memory), context
        )
        if config.model.pooling is not None:
            return
        rows = torch.arange(limits.max_num_seqs, device=runner.device)
        logits = runner.model.compute_logits(hidden[rows % tokens]).float()
        ones = torch.ones(len(rows), dtype=torch.float32, device=runner.device)
        half = ones / 2
        ops.sample_tokens(logits, ones, rows.to(torch.int32), half, ones * 0, half)
    finally:
        for layer in runner.attention_layers.values():
            layer.kv_cache = None


def _context(
    runner: ModelRunner, counts: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> ForwardContext:
    """Attention metadata of requests that compute all their tokens, each block the reserved one."""
    starts = np.concatenate((np.zeros(1, dtype=np.int32), counts.cumsum(dtype=np.int32)))
    device, memory = runner.device, runner.memory
    attention: dict[str, Any] = dict(
        runner.encoder_context(to_device(starts, torch.int32, device, memory), counts.tolist())
    )
    for group in group_layers(runner.kv_cache_specs()):
        layers = [runner.attention_layers[name] for name in group.layer_names]
        for layer in layers:
            shape = layer.backend.kv_cache_shape(1, layer.spec)
            layer.kv_cache = memory.zeros(shape, layer.spec.kv_cache_dtype, runner.index)
        blocks = -(-int(counts.max()) // group.spec.block_size)
        batch = BatchMetadata(
            num_reqs=len(counts),
            num_tokens=int(starts[-1]),
            num_decodes=int(np.count_nonzero(counts == 1)),
            max_query_len=int(counts.max()),
            max_seq_len=int(counts.max()),
            query_start_loc=to_device(starts, torch.int32, device, memory),
            seq_lens=to_device(counts, torch.int32, device, memory),
            block_table=torch.zeros((len(counts), blocks), dtype=torch.int32, device=device),
            slot_mapping=torch.zeros(int(starts[-1]), dtype=torch.int64, device=device),
            query_start_loc_host=torch.from_numpy(starts),
            seq_lens_host=torch.from_numpy(counts),
        )
        builder = layers[0].backend.builder_class(runner.config, layers[0].spec, device)
        metadata = builder.build(batch)
        attention.update(dict.fromkeys(group.layer_names, metadata))
    return ForwardContext(attention, runner.forward_extras(len(counts), int(starts[-1])))
