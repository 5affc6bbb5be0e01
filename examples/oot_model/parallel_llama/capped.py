"""An override of the native Llama: its logits are capped softly, as in Gemma 2."""

from __future__ import annotations

import torch

from runtime.core.models.llama import LlamaForCausalLM


class CappedLlamaForCausalLM(LlamaForCausalLM):
    """``cap * tanh(logits / cap)`` where the config has ``final_logit_softcapping``."""

    def __init__(self, *, config, prefix: str = "") -> None:
        super().__init__(config=config, prefix=prefix)
        self.cap = config.model.hf.get("final_logit_softcapping")

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size], all within the cap."""
        logits = super().compute_logits(hidden)
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)
