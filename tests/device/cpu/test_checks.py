"""Bad arguments raise and name what is wrong; nothing is read or written out of bounds."""

import pytest
import torch

F32, I32 = torch.float32, torch.int32


def zeros(*shape, dtype=F32):
    return torch.zeros(shape, dtype=dtype)


def good():
    """Valid arguments of each operator, by name."""
    positions = zeros(3, dtype=torch.int64)
    heads = {"key": zeros(3, 2, 8), "value": zeros(3, 2, 8)}
    return {
        "rms_norm": {"x": zeros(3, 8), "weight": zeros(8), "out": zeros(3, 8), "eps": 1e-6},
        "fused_add_rms_norm": {
            **{"x": zeros(3, 8), "residual": zeros(3, 8), "weight": zeros(8)},
            **{"out": zeros(3, 8), "total": zeros(3, 8), "eps": 1e-6},
        },
        "silu_and_mul": {"x": zeros(3, 8), "out": zeros(3, 4)},
        "rotary_embedding": {
            **{"query": zeros(3, 4, 8), "key": zeros(3, 2, 8), "positions": positions},
            **{"cos_sin_cache": zeros(5, 8)},
            **{"query_out": zeros(3, 4, 8), "key_out": zeros(3, 2, 8)},
        },
        "write_kv_cache": {
            **heads,
            **{"kv_cache": zeros(2, 4, 2, 2, 8), "slot_mapping": positions},
        },
        "gelu_tanh_and_mul": {"x": zeros(3, 8), "out": zeros(3, 4)},
        "rotary_write_kv_cache": {
            **{"query": zeros(3, 4, 8), **heads, "positions": positions},
            **{"cos_sin_cache": zeros(5, 8), "kv_cache": zeros(2, 4, 2, 2, 8)},
            **{"slot_mapping": positions, "query_out": zeros(3, 4, 8)},
        },
        "linear": {
            **{"x": zeros(3, 8), "weight": zeros(5, 8), "bias": zeros(5), "out": zeros(3, 5)},
        },
        "greedy_sample": {"logits": zeros(3, 8), "out": zeros(3, dtype=torch.int64)},
        "sample_tokens": {
            **{"logits": zeros(3, 8), "temperature": zeros(3) + 1, "top_k": zeros(3, dtype=I32)},
            **{"top_p": zeros(3) + 1, "min_p": zeros(3), "uniform": zeros(3)},
            **{"out": zeros(3, dtype=torch.int64)},
        },
        "apply_penalties": {
            **{"logits": zeros(2, 8), "token_ids": torch.tensor([1, 7, 2], dtype=I32)},
            **{"starts": torch.tensor([0, 2, 3], dtype=I32)},
            **{"output_starts": torch.tensor([1, 2], dtype=I32)},
            **{"repetition": zeros(2) + 1, "presence": zeros(2), "frequency": zeros(2)},
        },
        "embedding": {
            **{"token_ids": torch.tensor([0, 4], dtype=I32), "weight": zeros(5, 8)},
            **{"out": zeros(2, 8)},
        },
        "copy": {"from": zeros(3, 8), "to": zeros(3, 8)},
        "paged_attention": {
            **{"query": zeros(3, 4, 8), "kv_cache": zeros(2, 4, 2, 2, 8)},
            **{"block_table": torch.tensor([[1, 2]], dtype=I32)},
            **{"seq_lens": torch.tensor([3], dtype=I32)},
            **{"query_start_loc": torch.tensor([0, 3], dtype=I32), "out": zeros(3, 4, 8)},
            **{"scale": 1.0, "window": 0, "soft_cap": 0.0},
        },
    }


BAD = [
    ("greedy_sample", "logits", zeros(3), "logits must have 2 dimensions, not 1"),
    ("greedy_sample", "logits", zeros(3, 0), "logits must have a column"),
    ("greedy_sample", "out", zeros(3), "out must have the dtype"),
    ("sample_tokens", "top_k", zeros(3), "top_k must have the dtype"),
    ("sample_tokens", "uniform", zeros(2), "uniform must have size 3 in dimension 0, not 2"),
    ("sample_tokens", "temperature", zeros(3), r"temperature\[0\] = 0 must be above 0"),
    (
        "apply_penalties",
        "token_ids",
        torch.tensor([1, 8, 2], dtype=I32),
        r"token_ids\[1\] = 8 is not in logits, which have 8 columns",
    ),
    (
        "apply_penalties",
        "starts",
        torch.tensor([0, 2, 4], dtype=I32),
        r"starts\[2\] = 4 must be no less than the one before, and no more than token_ids has: 3",
    ),
    ("apply_penalties", "presence", zeros(3), "presence must have size 2 in dimension 0, not 3"),
    (
        "embedding",
        "token_ids",
        torch.tensor([0, 5], dtype=I32),
        r"token_ids\[1\] = 5 is not in weight, which has 5 rows",
    ),
    ("embedding", "out", zeros(2, 9), "out must have size 8 in dimension 1, not 9"),
    ("copy", "to", zeros(3, 7), "to must have 24 elements, not 21"),
    ("copy", "to", zeros(3, 8, dtype=I32), "to must have the dtype"),
    ("rms_norm", "x", zeros(3, 16)[:, ::2], "x must be contiguous"),
    ("rms_norm", "x", zeros(3, 8, dtype=torch.float64), "weight must have the dtype"),
    ("rms_norm", "weight", zeros(7), "weight must have size 8 in dimension 0, not 7"),
    ("rms_norm", "out", zeros(2, 8), "out must have size 3 in dimension 0, not 2"),
    ("rms_norm", "out", zeros(3, 8, dtype=torch.bfloat16), "out must have the dtype"),
    ("fused_add_rms_norm", "residual", zeros(3, 9), "residual must have size 8"),
    ("fused_add_rms_norm", "total", zeros(3), "total must have 2 dimensions, not 1"),
    ("gelu_tanh_and_mul", "out", zeros(3, 5), "out must have size 4 in dimension 1, not 5"),
    ("rotary_write_kv_cache", "key", zeros(4, 2, 8), "positions must have size 4"),
    ("rotary_write_kv_cache", "value", zeros(3, 2, 9), "value must have size 8"),
    ("rotary_write_kv_cache", "query_out", zeros(3, 4, 9), "query_out must have size 8"),
    (
        "rotary_write_kv_cache",
        "slot_mapping",
        torch.tensor([0, 8, 1]),
        r"slot_mapping\[1\] = 8 is not in kv_cache, which has 8 slots",
    ),
    ("silu_and_mul", "x", zeros(3, 9), "x must have an even last dimension, not 9"),
    ("silu_and_mul", "out", zeros(3, 5), "out must have size 4 in dimension 1, not 5"),
    ("rotary_embedding", "query", zeros(3, 4, 6), "a head of query has 6"),
    ("rotary_embedding", "query", zeros(3, 8, 4).transpose(1, 2), "query must have contiguous"),
    ("rotary_embedding", "positions", torch.tensor([0, 5, 1]), r"positions\[1\] = 5 is not in"),
    ("rotary_embedding", "positions", torch.tensor([0, 1, -1]), r"positions\[2\] = -1"),
    ("rotary_embedding", "positions", zeros(3, dtype=I32), "positions must have the dtype"),
    ("rotary_embedding", "cos_sin_cache", zeros(5, 7), "cos_sin_cache must have an even width"),
    ("write_kv_cache", "slot_mapping", torch.tensor([0, 1, 8]), r"slot_mapping\[2\] = 8"),
    ("write_kv_cache", "slot_mapping", torch.tensor([0, -1, 2]), r"slot_mapping\[1\] = -1"),
    ("write_kv_cache", "value", zeros(3, 1, 8), "value must have size 2 in dimension 1"),
    ("write_kv_cache", "kv_cache", zeros(3, 4, 2, 2, 8), "kv_cache must have size 2"),
    ("linear", "weight", zeros(5, 9), "x must have size 9 in dimension 1, not 8"),
    ("linear", "weight", zeros(8, 5).T, "weight must be contiguous"),
    ("linear", "bias", zeros(4), "bias must have size 5"),
    ("linear", "x", zeros(3, 8, dtype=torch.int32), "weight must have the dtype"),
    ("linear", "out", zeros(3, 6), "out must have size 5 in dimension 1, not 6"),
    ("paged_attention", "block_table", torch.tensor([[1, 4]], dtype=I32), r"\[0, 1\] = 4"),
    ("paged_attention", "block_table", torch.tensor([[-1, 2]], dtype=I32), r"\[0, 0\] = -1"),
    ("paged_attention", "block_table", torch.tensor([[1, 2]]), "block_table must have the dtype"),
    ("paged_attention", "seq_lens", torch.tensor([5], dtype=I32), "too few columns: 2"),
    ("paged_attention", "seq_lens", torch.tensor([2], dtype=I32), "computes 3 tokens"),
    ("paged_attention", "query_start_loc", torch.tensor([1, 3], dtype=I32), "start with 0, not 1"),
    ("paged_attention", "query_start_loc", torch.tensor([0, 3, 3], dtype=I32), "must have size 2"),
    ("paged_attention", "query", zeros(2, 4, 8), "out must have size 2|query has 2 tokens"),
    ("paged_attention", "query", zeros(3, 3, 8), "multiple of kv_cache's 2|out must have size"),
    ("paged_attention", "window", -1, "window must not be negative: -1"),
]


@pytest.mark.parametrize("name", sorted(good()))
def test_good_arguments_pass(kernels, name):
    assert getattr(kernels, name)(**good()[name]) is None


@pytest.mark.parametrize(("name", "argument", "value", "message"), BAD)
def test_bad_arguments_raise(kernels, name, argument, value, message):
    with pytest.raises(RuntimeError, match=message):
        getattr(kernels, name)(**{**good()[name], argument: value})


@pytest.mark.parametrize("name", sorted(good()))
def test_every_tensor_must_be_on_the_cpu(kernels, name):
    arguments = good()[name]
    for argument, value in arguments.items():
        if isinstance(value, torch.Tensor):
            with pytest.raises((RuntimeError, NotImplementedError)):
                getattr(kernels, name)(**{**arguments, argument: value.to("meta")})
