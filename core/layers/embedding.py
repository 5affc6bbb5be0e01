"""Token embedding and the head that gives logits."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.layers.linear import Linear
from runtime.core.quantization.block_formats import BlockRows
from runtime.core.quantization.scheme import WeightOwner, embedding_scheme_for


def _for_vocabulary(config: RuntimeConfig) -> RuntimeConfig:
    """The configuration of embedding and head."""
    quantization = config.model.quantization
    if quantization is None:
        return config
    model = replace(config.model, quantization=quantization.for_vocabulary())
    return replace(config, model=model)


class VocabEmbedding(WeightOwner):
    """A vector for each token."""

    def __init__(
        self, vocab_size: int, hidden_size: int, *, config: RuntimeConfig, prefix: str
    ) -> None:
        super().__init__()
        self.prefix = prefix
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.scheme = embedding_scheme_for(_for_vocabulary(config), prefix)
        self.scheme.create(self, vocab_size, hidden_size)

    def parts(self) -> dict[str, int]:
        """The table."""
        return {f"{self.prefix}.weight": self.vocab_size}

    def checkpoint_tensors(self) -> dict[str, torch.Tensor | BlockRows]:
        """The table."""
        views = self.scheme.rows(self, 0, self.vocab_size)
        return {f"{self.prefix}.{suffix}": view for suffix, view in views.items()}

    def process_weights_after_loading(self) -> None:
        """Let the scheme pack what was loaded."""
        self.scheme.after_loading(self)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Ids [T] to vectors [T, hidden_size]."""
        return self.scheme.gather(self, input_ids)

    def attend(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size] of a head that is tied to this table."""
        return self.scheme.apply(self, hidden, None)


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
        self.own: Linear | None = None
        if not tied:
            self.own = Linear(
                embedding.hidden_size,
                embedding.vocab_size,
                bias=False,
                config=_for_vocabulary(config),
                prefix=prefix,
            )
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
