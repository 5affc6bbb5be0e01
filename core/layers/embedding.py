"""Token embedding and the head that gives logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.layers.linear import Linear


class VocabEmbedding(nn.Module):
    """A vector for each token."""

    def __init__(
        self, vocab_size: int, hidden_size: int, *, config: RuntimeConfig, prefix: str
    ) -> None:
        super().__init__()
        self.prefix = prefix
        shape = (vocab_size, hidden_size)
        values = torch.empty(shape, dtype=config.model.dtype, device=config.device())
        self.weight = nn.Parameter(values, requires_grad=False)

    def checkpoint_tensors(self) -> dict[str, torch.Tensor]:
        """The table."""
        return {f"{self.prefix}.weight": self.weight.detach()}

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Ids [T] to vectors [T, hidden_size]."""
        return F.embedding(input_ids, self.weight)

    def attend(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size] of a head that is tied to this table."""
        logits: torch.Tensor = ops.linear(hidden, self.weight, None)
        return logits


class LMHead(nn.Module):
    """Logits from hidden states: by the embedding's table where the two are tied."""

    def __init__(
        self,
        embedding: VocabEmbedding,
        *,
        tied: bool,
        config: RuntimeConfig,
        prefix: str,
    ) -> None:
        super().__init__()
        vocab_size, hidden_size = embedding.weight.shape
        self.own: Linear | None = None
        if not tied:
            self.own = Linear(hidden_size, vocab_size, bias=False, config=config, prefix=prefix)
        # Not a submodule of this layer: its parameters are the model's already.
        self._table = (embedding,)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[N, hidden_size] to [N, vocab_size]."""
        logits: torch.Tensor
        if self.own is not None:
            logits = self.own(hidden)
        else:
            logits = self._table[0].attend(hidden)
        return logits
