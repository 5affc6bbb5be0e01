"""The norm layer equals transformers', with and without a residual."""

import pytest
import torch

from runtime.core.layers.norm import RMSNorm

transformers = pytest.importorskip("transformers")
from transformers.models.llama.modeling_llama import LlamaRMSNorm  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equals_transformers_bit_for_bit(platform, config, put, fill, dtype):
    layer = RMSNorm(80, 1e-5, config=config(dtype), prefix="model.norm")
    values = fill(layer)
    theirs = LlamaRMSNorm(80, 1e-5)
    theirs.weight = torch.nn.Parameter(values["model.norm.weight"], requires_grad=False)
    x, residual = torch.randn(5, 80).to(dtype) * 3, torch.randn(5, 80).to(dtype)
    normed, kept = layer(put(x), None)
    to_host = platform.memory.copy_to_host
    assert torch.equal(to_host(normed), theirs(x))
    assert torch.equal(to_host(kept), x)
    normed, kept = layer(put(x), put(residual))
    assert torch.equal(to_host(normed), theirs(x + residual))
    assert torch.equal(to_host(kept), x + residual)
