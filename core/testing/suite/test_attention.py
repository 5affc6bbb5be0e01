"""Every attention backend against the op's reference in float64, over ragged batches."""

from __future__ import annotations

import dataclasses
import itertools
import pkgutil
from typing import Any

import pytest
import torch

from runtime.core import ops
from runtime.core.attention.interface import AttentionBackend, GraphSupport
from runtime.core.attention.native import NativeBackend
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.platform.interface import Platform
from runtime.core.testing.attention import Trial
from runtime.core.testing.batches import BATCHES, Layer, Piece
from runtime.core.testing.comparison import worst
from runtime.core.testing.session import conformance

SHAPES = ((4, 4, 64), (9, 3, 64), (4, 1, 80), (8, 2, 128), (1, 1, 24), (2, 2, 256))
LAYERS = (
    *(Layer(heads, kv_heads, size) for heads, kv_heads, size in SHAPES),
    *(
        Layer(4, 2, 32, block_size, window=window, cap=cap)
        for block_size in (1, 8, 16, 32)
        for window, cap in ((None, None), (9, None), (1, None), (16, 5.0))
    ),
)
"""In the first dtype that a backend takes; one more layer is tried in each of the others."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each backend of the platform, with each layer where the test takes one."""
    if "backend" not in metafunc.fixturenames:
        return
    platform = conformance(metafunc.config).platform
    backends = _backends(platform)
    if "layer" in metafunc.fixturenames:
        cases = [(b, layer) for b in backends for layer in _layers(platform, b)]
        ids = [f"{backend.name}-{layer.name}" for backend, layer in cases]
        metafunc.parametrize(("backend", "layer"), cases, ids=ids)
    else:
        metafunc.parametrize("backend", backends, ids=[backend.name for backend in backends])


def _backends(platform: Platform) -> list[type[AttentionBackend]]:
    """Those that can be imported; another test fails on the others."""
    found: list[type[AttentionBackend]] = []
    for name in platform.policy.attention_backends():
        try:
            backend = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError):
            continue
        if isinstance(backend, type) and issubclass(backend, AttentionBackend):
            found.append(backend)
    return list(dict.fromkeys([*found, NativeBackend]))


def _dtypes(platform: Platform) -> list[str]:
    """What the platform runs and the op has a tolerance for; float32 first, it shows most."""
    known = {str(d).removeprefix("torch.") for d in ops.paged_attention.definition.tolerance}
    names = [name for name in platform.capabilities.dtypes if name in known]
    return sorted(names, key=lambda name: name != "float32")


def _layers(platform: Platform, backend: type[AttentionBackend]) -> list[Layer]:
    own = platform.capabilities.kv_block_size
    dtypes = _dtypes(platform)
    usual = Layer(9, 3, 64, own)
    taken = [d for d in dtypes if not _reasons(platform, backend, _in(usual, d))]
    first = (taken or dtypes)[0]
    layers = [*(_in(layer, first) for layer in LAYERS), *(_in(usual, d) for d in dtypes)]
    return list(dict.fromkeys(layers))


def _in(layer: Layer, dtype: str) -> Layer:
    return dataclasses.replace(layer, dtype=dtype)


def _reasons(platform: Platform, backend: type[AttentionBackend], layer: Layer) -> list[str]:
    """Why a layer cannot be had: the platform's limits, then the backend's own reasons."""
    caps = platform.capabilities
    if caps.max_head_size is not None and layer.head_size > caps.max_head_size:
        return [f"the platform serves heads up to {caps.max_head_size}"]
    if caps.kv_block_sizes is not None and layer.block_size not in caps.kv_block_sizes:
        return [f"the platform serves block sizes {', '.join(map(str, caps.kv_block_sizes))}"]
    return backend.reasons_against(layer.spec)


def _require(platform: Platform, backend: type[AttentionBackend], layer: Layer) -> None:
    reasons = _reasons(platform, backend, layer)
    if reasons:
        pytest.skip("; ".join(reasons))


@pytest.fixture
def trial(
    platform: Platform, backend: type[AttentionBackend], config: RuntimeConfig, seed: int
) -> Any:
    """Make a trial of a layer: ``trial(layer, lengths)``; skips with the reasons against it."""

    def make(layer: Layer, lengths: list[int], **kwargs: Any) -> Trial:
        reasons = _reasons(platform, backend, layer)
        if reasons:
            pytest.skip("; ".join(reasons))
        return Trial(config, backend, layer, lengths, seed, **kwargs)

    return make


@torch.inference_mode()
def test_agreement(layer: Layer, trial: Any, record_property: Any) -> None:
    """Agrees with the reference over ragged batches with permuted blocks."""
    found = []
    for name, requests in BATCHES.items():
        own = trial(layer, [computed + new for computed, new in requests])
        before = [Piece(r, 0, computed) for r, (computed, _) in enumerate(requests) if computed]
        if before:
            own.step(before)
        pieces = [Piece(r, done, done + new) for r, (done, new) in enumerate(requests)]
        found.append(own.compare(own.step(pieces), name))
    record_property("max error", str(worst(found)))


def _usual(platform: Platform, backend: type[AttentionBackend], window: int | None) -> Layer:
    """A small layer in a dtype and a block size that the backend takes."""
    layer = Layer(4, 2, 64, platform.capabilities.kv_block_size, window=window)
    choices = [_in(layer, dtype) for dtype in _dtypes(platform)]
    return next((own for own in choices if not _reasons(platform, backend, own)), choices[0])


@pytest.mark.parametrize("window", [None, 7])
@torch.inference_mode()
def test_decode_is_prefill(
    platform: Platform, backend: type[AttentionBackend], window: int | None, trial: Any
) -> None:
    """Gives the same last token in one step as in several."""
    layer = _usual(platform, backend, window)
    for name, cuts in {
        "a prefill": (0, 50),
        "a prefill and a decode": (0, 49, 50),
        "two chunks and a decode": (0, 19, 49, 50),
        "only decodes": tuple(range(51)),
    }.items():
        own = trial(layer, [50])
        for start, stop in itertools.pairwise(cuts):
            step = own.step([Piece(0, start, stop)])
        own.compare(step.last_row(), f"token 50 by {name}")


@torch.inference_mode()
def test_padded_rows(platform: Platform, backend: type[AttentionBackend], trial: Any) -> None:
    """Is not disturbed by padding, whose own rows are numbers."""
    own = trial(_usual(platform, backend, None), [20, 33, 9])
    own.step([Piece(r, 0, length - 1) for r, length in enumerate(own.lengths)])
    step = own.step([Piece(r, n - 1, n) for r, n in enumerate(own.lengths)], padding=5)
    own.compare(step.rows(0, 3), "the rows before padding")
    padded = platform.memory.copy_to_host(step.got[3:])
    assert padded.isfinite().all(), f"{own.title}: padding rows hold no numbers"


@torch.inference_mode()
def test_graph_replay(platform: Platform, backend: type[AttentionBackend], trial: Any) -> None:
    """Gives each decode batch's own result when a captured graph is replayed."""
    if platform.graphs is None:
        pytest.skip("the platform captures no graphs")
    if backend.graph_support < GraphSupport.UNIFORM_SINGLE_TOKEN_DECODE:
        pytest.skip("the backend says that it cannot be captured")
    own = trial(_usual(platform, backend, None), [40, 25, 70])
    own.step([Piece(r, 0, length - 2) for r, length in enumerate(own.lengths)])
    replay = own.capture(3)
    for back in (2, 1):
        pieces = [Piece(r, n - back, n - back + 1) for r, n in enumerate(own.lengths)]
        own.compare(replay(pieces), f"replay {3 - back}")
