"""Rotary embedding with its scalings: which frequencies, and the table of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from runtime.core import ops
from runtime.core.attention.layer import Rotation
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError


@dataclass(frozen=True)
class RopeParameters:
    """What a config says of rotary embedding, from either of transformers' two spellings."""

    rope_type: str
    theta: float
    rotary_dim: int
    """Elements of a head that are rotated."""
    max_positions: int
    scaling: Mapping[str, Any]

    @classmethod
    def from_config(cls, hf: HFConfig, head_size: int) -> RopeParameters:
        """Read ``rope_parameters``, or ``rope_theta`` and ``rope_scaling``."""
        scaling = dict(hf.get("rope_parameters") or hf.get("rope_scaling") or {})
        rope_type = scaling.get("rope_type") or scaling.get("type") or "default"
        partial = scaling.get("partial_rotary_factor", hf.get("partial_rotary_factor", 1.0))
        return cls(
            rope_type=str(rope_type),
            theta=float(scaling.get("rope_theta") or hf.get("rope_theta", 10000.0)),
            rotary_dim=int(head_size * partial),
            max_positions=int(hf.get("max_position_embeddings", 2048)),
            scaling=scaling,
        )

    @property
    def original_positions(self) -> int:
        """Positions before the scaling."""
        return int(self.scaling.get("original_max_position_embeddings") or self.max_positions)

    def need(self, key: str) -> Any:
        """A value that the scaling cannot do without."""
        try:
            return self.scaling[key]
        except KeyError:
            raise ModelLoadError(
                f"rope scaling {self.rope_type!r} lacks {key!r} in the model's config"
            ) from None


Frequencies = tuple[torch.Tensor, float]
"""Inverse frequencies [rotary_dim / 2] float32, and the factor on cosines and sines."""


def _default(rope: RopeParameters) -> torch.Tensor:
    exponents = torch.arange(0, rope.rotary_dim, 2, dtype=torch.int64).float() / rope.rotary_dim
    return 1.0 / (rope.theta**exponents)


def _plain(rope: RopeParameters, length: int) -> Frequencies:
    """Su et al. 2021, arXiv:2104.09864."""
    return _default(rope), 1.0


def _linear(rope: RopeParameters, length: int) -> Frequencies:
    """Position interpolation: Chen et al. 2023, arXiv:2306.15595."""
    return _default(rope) / float(rope.need("factor")), 1.0


def _dynamic(rope: RopeParameters, length: int) -> Frequencies:
    """NTK-aware scaling of the base, for sequences of up to ``length`` tokens.

    transformers changes the base as a sequence grows; cached keys would then be of several
    bases, so here the base is that of ``length`` for all. Up to the original length the two agree.
    """
    factor, dim = float(rope.need("factor")), rope.rotary_dim
    original = rope.max_positions
    ratio = factor * max(length, original) / original - (factor - 1)
    theta = rope.theta * ratio ** (dim / (dim - 2))
    return 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim)), 1.0


def _yarn(rope: RopeParameters, length: int) -> Frequencies:
    """YaRN: Peng et al. 2023, arXiv:2309.00071."""
    dim, theta = rope.rotary_dim, rope.theta
    original = rope.original_positions
    factor = float(rope.scaling.get("factor") or rope.max_positions / original)
    fast, slow = rope.scaling.get("beta_fast") or 32, rope.scaling.get("beta_slow") or 1

    def dimension(rotations: float) -> float:
        angle = original / (rotations * 2 * math.pi)
        return dim * math.log(angle) / (2 * math.log(theta))

    low, high = dimension(fast), dimension(slow)
    if rope.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high = high + 0.001 if low == high else high
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    base = theta ** (torch.arange(0, dim, 2).float() / dim)
    kept = 1 - ramp
    inverse = (1.0 / (factor * base)) * (1 - kept) + (1.0 / base) * kept
    return inverse, _yarn_attention(rope.scaling, factor)


def _yarn_attention(scaling: Mapping[str, Any], factor: float) -> float:
    given = scaling.get("attention_factor")
    if given is not None:
        return float(given)

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    mscale, all_dims = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if mscale and all_dims:
        return scale(float(mscale)) / scale(float(all_dims))
    return scale(1.0)


def _longrope(rope: RopeParameters, length: int) -> Frequencies:
    """LongRoPE: Ding et al. 2024, arXiv:2402.13753; the long factors past the original length.

    As with ``_dynamic``, ``length`` decides for all sequences, where transformers looks at each.
    """
    original = rope.original_positions
    factor = float(rope.scaling.get("factor") or 1.0)
    if rope.scaling.get("original_max_position_embeddings"):
        factor = rope.max_positions / original
    chosen = rope.need("long_factor" if length > original else "short_factor")
    attention = rope.scaling.get("attention_factor")
    if attention is None:
        stretch = math.log(factor) / math.log(original) if factor > 1.0 else 0.0
        attention = math.sqrt(1 + stretch)
    exponents = torch.arange(0, rope.rotary_dim, 2, dtype=torch.int64).float() / rope.rotary_dim
    return 1.0 / (torch.tensor(chosen, dtype=torch.float32) * rope.theta**exponents), attention


def _llama3(rope: RopeParameters, length: int) -> Frequencies:
    """Llama 3.1 (Grattafiori et al. 2024, arXiv:2407.21783): long wavelengths are stretched."""
    factor = float(rope.need("factor"))
    low, high = float(rope.need("low_freq_factor")), float(rope.need("high_freq_factor"))
    original = float(rope.need("original_max_position_embeddings"))
    inverse = _default(rope)
    wavelength = 2 * math.pi / inverse
    smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)
    stretched = (1 - smooth) * inverse / factor + smooth * inverse
    scaled = torch.where(wavelength > original / low, inverse / factor, stretched)
    return torch.where(wavelength < original / high, inverse, scaled), 1.0


ROPE_TYPES: Mapping[str, Callable[[RopeParameters, int], Frequencies]] = {
    "default": _plain,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}


def rope_frequencies(rope: RopeParameters, length: int) -> Frequencies:
    """Inverse frequencies and attention factor for sequences of up to ``length`` tokens."""
    try:
        compute = ROPE_TYPES[rope.rope_type]
    except KeyError:
        raise ModelLoadError(
            f"rope scaling {rope.rope_type!r} is unknown (known: {', '.join(ROPE_TYPES)})"
        ) from None
    return compute(rope, length)


class RotaryEmbedding(nn.Module):
    """Rotates queries and keys; one table serves all layers of a model."""

    def __init__(self, head_size: int, *, config: RuntimeConfig) -> None:
        super().__init__()
        length = config.model.max_model_len
        rope = RopeParameters.from_config(config.model.hf, head_size)
        inverse, factor = rope_frequencies(rope, length)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
        table = torch.cat((angles.cos() * factor, angles.sin() * factor), dim=-1)
        table = table.to(config.model.dtype)
        cache = torch.empty(table.shape, dtype=table.dtype, device=config.device())
        config.platform.memory.copy_to_device(table, cache)
        self.register_buffer("cos_sin_cache", cache, persistent=False)

    def rotation(self, positions: torch.Tensor) -> Rotation:
        """What the attention layer turns tokens at those positions [T] int64 by."""
        cache = self.cos_sin_cache
        assert isinstance(cache, torch.Tensor)
        return Rotation(positions, cache)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotated query [T, H, D] and key [T, K, D]; positions [T] int64."""
        query, key = ops.rotary_embedding(query, key, positions, self.cos_sin_cache)
        return query, key
