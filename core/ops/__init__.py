"""The ops of a language model, one a file. Calling one dispatches on its tensors' device type."""

from runtime.core.ops.apply_penalties import apply_penalties
from runtime.core.ops.block_linear import block_linear
from runtime.core.ops.embedding import embedding
from runtime.core.ops.encoder_attention import encoder_attention
from runtime.core.ops.fused_add_rms_norm import fused_add_rms_norm
from runtime.core.ops.gelu import gelu
from runtime.core.ops.gelu_tanh_and_mul import gelu_tanh_and_mul
from runtime.core.ops.greedy_sample import greedy_sample
from runtime.core.ops.layer_norm import layer_norm
from runtime.core.ops.linear import linear
from runtime.core.ops.paged_attention import paged_attention
from runtime.core.ops.rms_norm import rms_norm
from runtime.core.ops.rotary_embedding import rotary_embedding
from runtime.core.ops.rotary_write_kv_cache import rotary_write_kv_cache
from runtime.core.ops.sample_tokens import sample_tokens
from runtime.core.ops.silu_and_mul import silu_and_mul
from runtime.core.ops.write_kv_cache import write_kv_cache

__all__ = [
    "apply_penalties",
    "block_linear",
    "embedding",
    "encoder_attention",
    "fused_add_rms_norm",
    "gelu",
    "gelu_tanh_and_mul",
    "greedy_sample",
    "layer_norm",
    "linear",
    "paged_attention",
    "rms_norm",
    "rotary_embedding",
    "rotary_write_kv_cache",
    "sample_tokens",
    "silu_and_mul",
    "write_kv_cache",
]
