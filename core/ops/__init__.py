"""The ops of a language model, one a file. Calling one dispatches on its tensors' device type."""

from runtime.core.ops.block_linear import block_linear
from runtime.core.ops.fused_add_rms_norm import fused_add_rms_norm
from runtime.core.ops.gelu_tanh_and_mul import gelu_tanh_and_mul
from runtime.core.ops.linear import linear
from runtime.core.ops.paged_attention import paged_attention
from runtime.core.ops.rms_norm import rms_norm
from runtime.core.ops.rotary_embedding import rotary_embedding
from runtime.core.ops.rotary_write_kv_cache import rotary_write_kv_cache
from runtime.core.ops.silu_and_mul import silu_and_mul
from runtime.core.ops.write_kv_cache import write_kv_cache

__all__ = [
    "block_linear",
    "fused_add_rms_norm",
    "gelu_tanh_and_mul",
    "linear",
    "paged_attention",
    "rms_norm",
    "rotary_embedding",
    "rotary_write_kv_cache",
    "silu_and_mul",
    "write_kv_cache",
]
