"""A model in one GGUF file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ModelLoadError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.gguf_architectures import ARCHITECTURES
from runtime.core.loader.gguf_config import ROPE_FACTORS, generation_config, model_config
from runtime.core.loader.gguf_header import GGUFTensor, read_header
from runtime.core.loader.weights import FilePlace, LazyWeight
from runtime.core.quantization.block_formats import BLOCK_FORMATS, BlockFormat

if TYPE_CHECKING:
    from runtime.core.tokenizer.interface import Tokenizer

# Types that are read as they are; bfloat16, which numpy lacks, as its bits.
_PLAIN = {
    GGMLQuantizationType.F64: (np.float64, torch.float64),
    GGMLQuantizationType.F32: (np.float32, torch.float32),
    GGMLQuantizationType.F16: (np.float16, torch.float16),
    GGMLQuantizationType.BF16: (np.int16, torch.bfloat16),
}
# Block formats of the core, by the name of GGUF's type.
_OURS = MappingProxyType({kind.name.upper(): kind for kind in BLOCK_FORMATS.values()})


class GGUFFile(Checkpoint):
    """A GGUF file of an architecture in :data:`ARCHITECTURES`, under transformers' names."""

    def __init__(self, path: Path, *, with_weights: bool = True) -> None:
        self.path = path
        header = read_header(path)
        self.metadata = header.metadata
        factors = header.tensors.get(ROPE_FACTORS)
        values = None if factors is None else GGUFWeight(path, factors, ROPE_FACTORS).read_all()
        self.config = HFConfig(
            model_config(path, header, None if values is None else values.tolist())
        )
        self.generation_config = HFConfig(generation_config(self.metadata))
        self._weights: list[GGUFWeight] = []
        if with_weights:
            tensors = sorted(header.tensors.values(), key=lambda tensor: tensor.offset)
            self._weights = [self._weight(t) for t in tensors if t.name != ROPE_FACTORS]

    def _weight(self, tensor: GGUFTensor) -> GGUFWeight:
        """A tensor under transformers' name; its own where the architecture has no such tensor."""
        architecture = ARCHITECTURES[self.metadata["general.architecture"]]
        name = architecture.tensor_name(tensor.name)
        order = architecture.order_of(tensor.name)
        return GGUFWeight(
            self.path,
            tensor,
            name or tensor.name,
            None if order is None else order(tensor.shape[0], self.config),
        )

    def names(self) -> list[str]:
        """Names of all tensors, as transformers names them."""
        return [weight.name for weight in self._weights]

    def weights(self) -> Iterator[LazyWeight]:
        """All tensors in the order of the file's bytes."""
        yield from self._weights

    def block_formats(self) -> Mapping[str, str]:
        """Formats that the core knows; what is in another is dequantised as it is read."""
        types = {weight.name: weight.tensor.type.name for weight in self._weights}
        return {name: _OURS[kind].name for name, kind in types.items() if kind in _OURS}

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that the metadata describes."""
        from runtime.core.tokenizer.gguf import tokenizer_from_gguf

        return tokenizer_from_gguf(self.path, self.metadata)


class GGUFWeight(LazyWeight):
    """A tensor of a GGUF file, dequantised to float32 where it is quantised.

    ``order`` (int64, rows) says at which stored row each row of the model lies.
    """

    def __init__(
        self, path: Path, tensor: GGUFTensor, name: str, order: torch.Tensor | None = None
    ) -> None:
        self.path = path
        self.tensor = tensor
        self.name = name
        self.shape = tensor.shape
        self.dtype = _PLAIN[tensor.type][1] if tensor.type in _PLAIN else torch.float32
        self._order = None if order is None else order.numpy()
        if tensor.type not in _PLAIN:
            self._check_type()

    def _check_type(self) -> None:
        """Refuse a type that the library cannot dequantise, found out on one block."""
        kind = self.tensor.type
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
        except NotImplementedError:
            raise ModelLoadError(
                f"{self.path}: tensor {self.tensor.name!r} is of type {kind.name}, which the "
                "installed gguf library cannot dequantise"
            ) from None

    @property
    def place(self) -> FilePlace:
        """The stored tensor's bytes."""
        return FilePlace(self.path, self.tensor.offset, self.tensor.nbytes)

    def read_all(self) -> torch.Tensor:
        """The whole tensor."""
        return self.read(0, self.shape[0] if self.shape else 1)

    def read(self, start: int, stop: int) -> torch.Tensor:
        """Rows ``start:stop``: a view of a mapping of the file, or dequantised values.

        Each read maps the file anew, some tens of microseconds: the pages that were read leave
        memory with it, where one mapping for all would hold the whole file in the end.
        """
        kind = self.tensor.type
        stored = self._mapped()
        rows = stored[start:stop] if self._order is None else stored[self._order[start:stop]]
        if kind in _PLAIN:
            values = torch.from_numpy(np.asarray(rows))
            return values.view(torch.bfloat16) if kind is GGMLQuantizationType.BF16 else values
        ours = _OURS.get(kind.name)
        if ours is not None:
            # The library's values, several times sooner.
            return ours.dequantize(torch.from_numpy(np.asarray(rows)))
        return torch.from_numpy(dequantize(rows, kind))

    def read_blocks(self, start: int, stop: int, kind: BlockFormat) -> torch.Tensor:
        """Rows as they are stored, where that is the format; else quantised anew."""
        if self.tensor.type.name != kind.name.upper():
            return super().read_blocks(start, stop, kind)
        stored = self._mapped()
        rows = stored[start:stop] if self._order is None else stored[self._order[start:stop]]
        return torch.from_numpy(np.asarray(rows))

    def _mapped(self) -> np.ndarray:
        """The stored tensor: values, or the blocks of each row as bytes."""
        kind, shape = self.tensor.type, self.shape
        block, block_bytes = GGML_QUANT_SIZES[kind]
        dtype = np.dtype(_PLAIN[kind][0] if kind in _PLAIN else np.uint8)
        if kind not in _PLAIN:
            shape = (*shape[:-1], shape[-1] // block * block_bytes)
        # Copy-on-write, since torch warns of arrays that cannot be written. Nothing writes.
        return np.memmap(self.path, dtype, "c", self.tensor.offset, shape)
