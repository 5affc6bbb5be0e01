"""Layers whose weights are blocks of few bits, in the platform's scheme or the core's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
import torch

from runtime.core.config.quantization import QuantizationConfig
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.layers.embedding import VocabEmbedding
from runtime.core.layers.linear import MergedLinear
from runtime.core.platform.interface import Platform
from runtime.core.quantization.block_formats import BLOCK_FORMATS, BlockRows
from runtime.core.testing.blocks import random_rows
from runtime.core.testing.session import conformance
from runtime.core.testing.tensors import to_device

COLUMNS = 512
OUTPUTS = MappingProxyType({"gate": 33, "up": 50})
ROWS = (1, 3, 40)

MOST = 0.02
"""Relative error of a product: a scheme may round its inputs to eight bits in small blocks."""

PAIRS = [(name, name) for name in BLOCK_FORMATS] + [("q4_K", "q6_K"), ("q8_0", None)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each dtype of the platform."""
    if "dtype" in metafunc.fixturenames:
        platform = conformance(metafunc.config).platform
        metafunc.parametrize("dtype", platform.capabilities.dtypes)


def _fill(
    layer: MergedLinear | VocabEmbedding, platform: Platform, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Random weights; returns what they mean, float64 by name."""
    meant: dict[str, torch.Tensor] = {}
    for name, place in layer.checkpoint_tensors().items():
        if isinstance(place, BlockRows):
            data = random_rows(place.kind, *place.shape, generator)
            platform.memory.copy_to_device(data, place.data)
            meant[name] = place.kind.dequantize(data).double()
        else:
            values = torch.randn(tuple(place.shape), generator=generator) * COLUMNS**-0.5
            values = values.to(place.dtype)
            platform.memory.copy_to_device(values, place)
            meant[name] = values.double()
    platform.devices.synchronize(0)
    layer.process_weights_after_loading()
    return meant


def _quantised(
    config: RuntimeConfig, dtype: str, formats: Mapping[str, str | None]
) -> RuntimeConfig:
    quantization = QuantizationConfig({n: kind for n, kind in formats.items() if kind is not None})
    model = replace(config.model, dtype=getattr(torch, dtype), quantization=quantization)
    return replace(config, model=model)


def _relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("formats", PAIRS, ids=lambda pair: "-".join(map(str, pair)))
def test_linear(
    platform: Platform,
    device: torch.device,
    config: RuntimeConfig,
    generator: torch.Generator,
    dtype: str,
    formats: tuple[str, str | None],
) -> None:
    """A merged layer multiplies by what its blocks mean, few rows and many."""
    names = [f"mlp.{name}.weight" for name in OUTPUTS]
    quantised = _quantised(config, dtype, dict(zip(names, formats, strict=True)))
    layer = MergedLinear(COLUMNS, OUTPUTS, bias=True, config=quantised, prefix="mlp.gate_up")
    meant = _fill(layer, platform, generator)
    weight = torch.cat([meant[name] for name in names])
    bias = torch.cat([meant[f"mlp.{name}.bias"] for name in OUTPUTS])
    for rows in ROWS:
        x = torch.randn(rows, COLUMNS, generator=generator).to(getattr(torch, dtype))
        got = platform.memory.copy_to_host(layer(to_device(platform, x)))
        off = _relative(got, x.double() @ weight.T + bias)
        assert off < MOST, f"{rows} rows of {dtype} by {formats} are off by {off:.2g}, above {MOST}"


@pytest.mark.parametrize("kind", BLOCK_FORMATS)
def test_embedding(
    platform: Platform,
    device: torch.device,
    config: RuntimeConfig,
    generator: torch.Generator,
    dtype: str,
    kind: str,
) -> None:
    """A table of blocks gives rows rounded to the dtype, and multiplies as a tied head."""
    quantised = _quantised(config, dtype, {"embed.weight": kind})
    table = VocabEmbedding(67, COLUMNS, config=quantised, prefix="embed")
    meant = _fill(table, platform, generator)["embed.weight"]
    ids = torch.tensor([66, 0, 13, 13], dtype=torch.int32)
    rows = platform.memory.copy_to_host(table(to_device(platform, ids)))
    torch.testing.assert_close(rows.float(), meant[ids].to(getattr(torch, dtype)).float())
    x = torch.randn(2, COLUMNS, generator=generator).to(getattr(torch, dtype))
    logits = platform.memory.copy_to_host(table.attend(to_device(platform, x)))
    off = _relative(logits, x.double() @ meant.T)
    assert off < MOST, f"logits of {dtype} by {kind} are off by {off:.2g}, above {MOST}"
