"""Operators agree with their schemas; bad arguments raise and name what is wrong."""

import pytest
import torch

BF16, F32, I64 = torch.bfloat16, torch.float32, torch.int64


def zeros(*shape, dtype=BF16, device="cuda"):
    return torch.zeros(shape, dtype=dtype, device=device)


def numbers(values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def good():
    """Valid arguments of each operator, by name."""
    tokens = zeros(3, dtype=I64)
    heads = {"key": zeros(3, 2, 16), "value": zeros(3, 2, 16)}
    cache = {"kv_cache": zeros(2, 4, 2, 2, 16), "slot_mapping": torch.arange(2, 5, device="cuda")}
    rotation = {"positions": tokens, "cos_sin_cache": zeros(5, 16)}
    return {
        "rms_norm": {"x": zeros(3, 8), "weight": zeros(8), "out": zeros(3, 8), "eps": 1e-6},
        "fused_add_rms_norm": {
            **{"x": zeros(3, 8), "residual": zeros(3, 8), "weight": zeros(8)},
            **{"out": zeros(3, 8), "total": zeros(3, 8), "eps": 1e-6},
        },
        "silu_and_mul": {"x": zeros(3, 8), "out": zeros(3, 4)},
        "gelu_tanh_and_mul": {"x": zeros(3, 8), "out": zeros(3, 4)},
        "linear": {
            **{"x": zeros(3, 8), "weight": zeros(5, 8), "bias": zeros(5), "out": zeros(3, 5)},
        },
        "rotary_embedding": {
            **{"query": zeros(3, 4, 16), "key": zeros(3, 2, 16), **rotation},
            **{"query_out": zeros(3, 4, 16), "key_out": zeros(3, 2, 16)},
        },
        "write_kv_cache": {**heads, **cache},
        "rotary_write_kv_cache": {
            **{"query": zeros(3, 4, 16), **heads, **rotation, **cache},
            **{"query_out": zeros(3, 4, 16)},
        },
        "copy_blocks": {
            "kv_cache": zeros(2, 4, 2, 2, 16),
            "pairs": torch.tensor([[1, 2]], device="cuda"),
        },
        "greedy_sample": {"logits": zeros(3, 9), "out": zeros(3, dtype=I64)},
        "sample_tokens": {
            **{"logits": zeros(3, 9), "temperature": zeros(3, dtype=F32) + 1},
            **{"top_k": numbers([0, 1, 2]), "top_p": zeros(3, dtype=F32) + 1},
            **{"min_p": zeros(3, dtype=F32), "uniform": zeros(3, dtype=F32)},
            **{"out": zeros(3, dtype=I64)},
        },
        "apply_penalties": {
            **{"logits": zeros(2, 9), "token_ids": numbers([1, 2, 2])},
            **{"starts": numbers([0, 1, 3]), "output_starts": numbers([1, 1])},
            **{name: zeros(2, dtype=F32) + 1 for name in ("repetition", "presence", "frequency")},
        },
        "paged_decode": {
            **{"query": zeros(2, 4, 64), "kv_cache": zeros(2, 4, 8, 2, 64)},
            **{"block_table": numbers([[1, 2], [3, 0]]), "seq_lens": numbers([9, 3])},
            **{"out": zeros(2, 4, 64), "workspace": zeros(2 * 2 * 2 * 160, dtype=F32)},
            **{"counters": numbers([0] * 4), "splits": 2, "least_keys": 16},
            **{"scale": 0.125, "window": 0, "soft_cap": 0.0},
        },
        "paged_prefill": {
            **{"query": zeros(3, 4, 64), "kv_cache": zeros(2, 4, 8, 2, 64)},
            **{"block_table": numbers([[1, 2]]), "seq_lens": numbers([9])},
            **{"query_start_loc": numbers([0, 3]), "tile_request": numbers([0])},
            **{"tile_first": numbers([0]), "out": zeros(3, 4, 64)},
            **{"scale": 0.125, "window": 0, "soft_cap": 0.0},
        },
    }


OPERATORS = sorted(
    (
        *("apply_penalties", "copy_blocks", "fused_add_rms_norm", "gelu_tanh_and_mul"),
        *("greedy_sample", "linear", "paged_decode", "paged_prefill", "sample_tokens"),
        *("rms_norm", "rotary_embedding", "rotary_write_kv_cache", "silu_and_mul"),
        "write_kv_cache",
    )
)

BAD = [
    ("rms_norm", "x", lambda: zeros(3, 16)[:, ::2], "x must be contiguous"),
    ("rms_norm", "x", lambda: zeros(3, 8, dtype=torch.float64), "weight must have the dtype"),
    ("rms_norm", "weight", lambda: zeros(7), "weight must have size 8 in dimension 0, not 7"),
    ("rms_norm", "weight", lambda: zeros(8, device="cpu"), "weight must be a CUDA tensor"),
    ("rms_norm", "out", lambda: zeros(2, 8), "out must have size 3 in dimension 0, not 2"),
    ("fused_add_rms_norm", "residual", lambda: zeros(3, 9), "residual must have size 8"),
    ("fused_add_rms_norm", "total", lambda: zeros(3), "total must have 2 dimensions, not 1"),
    ("silu_and_mul", "x", lambda: zeros(3, 7), "x must have an even last dimension, not 7"),
    ("gelu_tanh_and_mul", "out", lambda: zeros(3, 5), "out must have size 4 in dimension 1, not 5"),
    ("linear", "x", lambda: zeros(17, 8), "x must have 16 rows at most, not 17"),
    ("linear", "x", lambda: zeros(3, 12), "the width of x must be a multiple of 8, not 12"),
    ("linear", "x", lambda: zeros(3, 8, dtype=F32), "x must be bfloat16 or float16, not Float"),
    ("linear", "bias", lambda: zeros(4), "bias must have size 5 in dimension 0, not 4"),
    ("rotary_embedding", "cos_sin_cache", lambda: zeros(5, 15), "an even width, not 15"),
    ("rotary_embedding", "cos_sin_cache", lambda: zeros(5, 18), "rotates 18 elements"),
    ("rotary_embedding", "positions", lambda: zeros(3, dtype=F32), "positions must have the dtype"),
    ("rotary_write_kv_cache", "key", lambda: zeros(3, 2, 32)[..., ::2], "key must have contiguous"),
    ("rotary_write_kv_cache", "query_out", lambda: zeros(3, 4, 9), "query_out must have size 16"),
    ("write_kv_cache", "value", lambda: zeros(3, 2, 8), "value must have size 16"),
    ("write_kv_cache", "kv_cache", lambda: zeros(2, 4, 2, 2, 16, dtype=F32), "kv_cache must have"),
    (
        "write_kv_cache",
        "k_scale",
        lambda: zeros(1, dtype=F32),
        "k_scale is given, but kv_cache is not float8_e4m3fn",
    ),
    (
        "write_kv_cache",
        "slot_mapping",
        lambda: zeros(4, dtype=I64),
        "slot_mapping must have size 3",
    ),
    ("copy_blocks", "pairs", lambda: zeros(1, 3, dtype=I64), "pairs must have size 2"),
    ("greedy_sample", "logits", lambda: zeros(3, 0), "logits must have from 1 to"),
    ("sample_tokens", "top_k", lambda: zeros(3, dtype=I64), "top_k must have the dtype"),
    ("sample_tokens", "uniform", lambda: zeros(2, dtype=F32), "uniform must have size 3"),
    ("apply_penalties", "starts", lambda: numbers([0, 1]), "starts must have size 3"),
    ("paged_decode", "query", lambda: zeros(2, 4, 64, dtype=F32), "query must be bfloat16 or"),
    ("paged_decode", "kv_cache", lambda: zeros(2, 4, 8, 3, 64), "no multiple of kv_cache's 3"),
    ("paged_decode", "splits", lambda: 65, "splits must be from 1 to 64, not 65"),
    ("paged_decode", "workspace", lambda: zeros(9, dtype=F32), "workspace must have 1280 elements"),
    ("paged_decode", "counters", lambda: numbers([0]), "counters must have 4 elements, not 1"),
    ("paged_decode", "seq_lens", lambda: numbers([9]), "seq_lens must have size 2"),
    ("paged_prefill", "query", lambda: zeros(3, 3, 64), "out must have size 3"),
    ("paged_prefill", "kv_cache", lambda: zeros(2, 4, 4, 2, 64), r"from 8 on \(here 4\)"),
    ("paged_prefill", "kv_cache", lambda: zeros(2, 4, 8, 3, 64), "no multiple of kv_cache's 3"),
    ("paged_prefill", "block_table", lambda: zeros(1, 2, dtype=I64), "block_table must have the"),
    ("paged_prefill", "tile_first", lambda: numbers([0, 1]), "tile_first must have size 1"),
    ("paged_prefill", "window", lambda: -1, "window must not be negative"),
]


@pytest.mark.parametrize(("op", "argument", "value", "message"), BAD)
def test_bad_arguments_are_named(kernels, op, argument, value, message):
    with pytest.raises(RuntimeError, match=message):
        getattr(kernels, op)(**{**good()[op], argument: value()})


@pytest.mark.parametrize("op", sorted(("linear", "rms_norm", "silu_and_mul", "write_kv_cache")))
def test_nothing_is_no_work(kernels, op):
    empty = {"x": zeros(0, 8), "out": zeros(0, 5 if op == "linear" else 8)}
    if op == "silu_and_mul":
        empty["out"] = zeros(0, 4)
    if op == "write_kv_cache":
        heads = zeros(0, 2, 16)
        empty = {"key": heads, "value": heads, "slot_mapping": zeros(0, dtype=I64)}
    getattr(kernels, op)(**{**good()[op], **empty})
    torch.cuda.synchronize()


@pytest.mark.parametrize("op", OPERATORS)
def test_schema_and_fake(kernels, op):
    checks = ("test_schema", "test_faketensor")
    arguments = good()[op]
    torch.library.opcheck(getattr(kernels, op).default, (), arguments, test_utils=checks)


def test_pageable_memory_is_refused(kernels):
    host, pairs = torch.zeros(2, 4, 2, 2, 16, dtype=BF16), torch.tensor([[1, 1]])
    with pytest.raises(RuntimeError, match="target must be in page-locked memory"):
        kernels.swap_blocks(zeros(2, 4, 2, 2, 16), host, pairs)
    with pytest.raises(RuntimeError, match=r"pairs\[0, 0\] = 4 is not in source, which has 4"):
        kernels.swap_blocks(zeros(2, 4, 2, 2, 16), host.pin_memory(), pairs + 3)
