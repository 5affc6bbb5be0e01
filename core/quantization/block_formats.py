"""Block formats of weights: how many bytes a block has, what they mean, how values become blocks.

A row of a weight is a sequence of blocks of consecutive elements, each with its own scale; the
formats are GGUF's (``q4_0`` … ``q6_K``, see the GGUF documentation of ggml), stored as there.
``int8`` has one scale for the row: a float32, then a signed byte for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from runtime.core.errors import ModelLoadError

_INT8_MOST = 127


@dataclass(frozen=True)
class BlockFormat:
    """One format."""

    name: str
    block: int
    """Elements of a block; 0 where a row is one."""
    block_bytes: int
    """Bytes of a block; for a row that is one, without its elements."""
    values: Callable[[torch.Tensor], torch.Tensor]
    """Blocks [..., block_bytes] uint8 to their elements [..., block] float32."""

    def fits(self, columns: int) -> bool:
        """Whether rows of so many elements are whole blocks."""
        return self.block == 0 or columns % self.block == 0

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of so many elements."""
        if self.block == 0:
            return self.block_bytes + columns
        return columns // self.block * self.block_bytes

    def dequantize(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [N, row_bytes] uint8 to values [N, columns] float32, on their device."""
        if self.block == 0:
            return self.values(rows)
        return self.values(_split(rows, -1, self.block_bytes)).flatten(-2)

    def quantize(self, values: torch.Tensor) -> torch.Tensor:
        """Host values [N, columns] to rows [N, row_bytes] uint8.

        Raises:
            ModelLoadError: no library here makes blocks of this format.
        """
        if self.block == 0:
            return _to_int8(values.float())
        # Here, since most users quantise nothing.
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import quantize

        try:
            rows = quantize(values.float().numpy(), GGMLQuantizationType[self.name.upper()])
        except NotImplementedError:
            raise ModelLoadError(
                f"weights cannot be quantized to {self.name} here, only read from a GGUF file that "
                f"has it; choose one of {', '.join(LOADABLE)}"
            ) from None
        return torch.from_numpy(rows)


@dataclass(frozen=True)
class BlockRows:
    """Rows of a weight in a block format, as a place that a checkpoint's tensor fills."""

    data: torch.Tensor
    """uint8 [rows, row_bytes]."""
    kind: BlockFormat
    columns: int
    """Elements of a row."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the values: rows and columns."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return self.data.nbytes

    def detach(self) -> BlockRows:
        """The same, as tensors have it."""
        return self


def _to_int8(values: torch.Tensor) -> torch.Tensor:
    scale = values.abs().amax(-1, keepdim=True) / _INT8_MOST
    whole = torch.round(values / scale.where(scale > 0, 1.0)).to(torch.int8)
    return torch.cat((scale.contiguous().view(torch.uint8), whole.view(torch.uint8)), dim=-1)


def _from_int8(rows: torch.Tensor) -> torch.Tensor:
    scale = rows[..., :4].contiguous().view(torch.float32)
    return rows[..., 4:].view(torch.int8).float() * scale


def _split(values: torch.Tensor, outer: int, inner: int) -> torch.Tensor:
    """The last dimension as two; one of them may be -1."""
    return values.view(*values.shape[:-1], outer, inner)


def _half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """The float16 at that byte, [..., 1] float32."""
    return blocks[..., at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(data: torch.Tensor) -> torch.Tensor:
    """Low nibbles of all bytes, then the high ones."""
    return torch.cat((data & 15, data >> 4), dim=-1)


def _bits(data: torch.Tensor, count: int) -> torch.Tensor:
    """Fields of ``count`` bits, lowest first: [..., n] to [..., n, 8 / count]."""
    shifts = torch.arange(0, 8, count, device=data.device, dtype=torch.uint8)
    return (data[..., None] >> shifts) & ((1 << count) - 1)


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[..., 2:]).float() - 8)


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * _nibbles(blocks[..., 4:]).float() + _half(blocks, 2)


def _five_bits(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """Four bytes of fifth bits, then sixteen of nibbles."""
    fifth = _bits(blocks[..., at : at + 4], 1).flatten(-2)
    return (_nibbles(blocks[..., at + 4 :]) | (fifth << 4)).float()


def _q5_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * (_five_bits(blocks, 2) - 16)


def _q5_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * _five_bits(blocks, 4) + _half(blocks, 2)


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * blocks[..., 2:].contiguous().view(torch.int8).float()


def _k_factors(data: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight six-bit factors and minima from twelve bytes, each [..., 8, 1] float32."""
    low, high, rest = data[..., 0:4], data[..., 4:8], data[..., 8:12]
    factors = torch.cat((low & 63, (rest & 15) | ((low >> 6) << 4)), dim=-1)
    minima = torch.cat((high & 63, (rest >> 4) | ((high >> 6) << 4)), dim=-1)
    return factors.float()[..., None], minima.float()[..., None]


def _k_values(blocks: torch.Tensor, quants: torch.Tensor) -> torch.Tensor:
    """Two-level blocks with minima; quants [..., 8, 32]."""
    factors, minima = _k_factors(blocks[..., 4:16])
    d, m = _half(blocks, 0)[..., None], _half(blocks, 2)[..., None]
    return (d * factors * quants.float() - m * minima).flatten(-2)


def _q4_k(blocks: torch.Tensor) -> torch.Tensor:
    nibbles = _nibbles(_split(blocks[..., 16:], 4, 32))
    return _k_values(blocks, _split(nibbles, 2, 32).flatten(-3, -2))


def _q5_k(blocks: torch.Tensor) -> torch.Tensor:
    nibbles = _nibbles(_split(blocks[..., 48:], 4, 32))
    fifth = _bits(blocks[..., 16:48], 1).transpose(-1, -2)
    quants = _split(nibbles, 2, 32).flatten(-3, -2) | (fifth << 4)
    return _k_values(blocks, quants)


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    # For each half of the block: 64 bytes of nibbles, 32 of the two bits above them.
    low = _nibbles(_split(blocks[..., :128], 2, 64))
    high = _bits(_split(blocks[..., 128:192], 2, 32), 2).transpose(-1, -2).flatten(-2)
    quants = _split((low | (high << 4)).flatten(-2), 16, 16).float() - 32
    factors = blocks[..., 192:208].contiguous().view(torch.int8).float()[..., None]
    values: torch.Tensor = _half(blocks, 208)[..., None] * factors * quants
    return values.flatten(-2)


BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        item.name: item
        for item in (
            BlockFormat("q4_0", 32, 18, _q4_0),
            BlockFormat("q4_1", 32, 20, _q4_1),
            BlockFormat("q5_0", 32, 22, _q5_0),
            BlockFormat("q5_1", 32, 24, _q5_1),
            BlockFormat("q8_0", 32, 34, _q8_0),
            BlockFormat("q4_K", 256, 144, _q4_k),
            BlockFormat("q5_K", 256, 176, _q5_k),
            BlockFormat("q6_K", 256, 210, _q6_k),
            BlockFormat("int8", 0, 4, _from_int8),
        )
    }
)
"""All formats by name."""

LOADABLE = ("int8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
"""Those that plain weights can be brought into while they load."""
