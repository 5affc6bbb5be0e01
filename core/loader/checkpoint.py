"""The interface of a checkpoint, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.core.config.hf_config import HFConfig

if TYPE_CHECKING:
    from runtime.core.loader.weights import LazyWeight
    from runtime.core.tokenizer.interface import Tokenizer


class Checkpoint(ABC):
    """A model on disk. Opening one reads its headers and checks them; weights stay on disk."""

    path: Path
    config: HFConfig
    """Under transformers' names, also where the file has others."""
    generation_config: HFConfig
    """Empty where the checkpoint has none."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of all tensors, as transformers names them."""

    @abstractmethod
    def weights(self) -> Iterator[LazyWeight]:
        """All tensors in the order in which reading them is fastest."""

    def block_formats(self) -> Mapping[str, str]:
        """Block format of each tensor that is stored in one; see ``core/quantization``.

        Default: none is.
        """
        return {}

    @abstractmethod
    def load_tokenizer(self) -> Tokenizer:
        """The checkpoint's own tokenizer; ModelLoadError naming what was looked for if none."""
