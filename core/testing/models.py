"""Tiny random models, made with transformers, and what transformers generates from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

MODELS: Mapping[str, Mapping[str, Any]] = {
    "llama": {"tie_word_embeddings": False},
    "mistral": {"sliding_window": 12},
}
"""By transformers' model type: what differs from the shape that they share."""
SHAPE: Mapping[str, Any] = {
    "vocab_size": 257,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    # Wide enough for logits that differ, so that rounding does not choose another token.
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PROMPT_LENGTHS = (1, 2, 7, 16, 17, 33, 50)
NEAR_TIE = 1e-3
"""Logits this close may be taken for one another: sums of float32 in another order differ."""


def random_prompts(lengths: Sequence[int] = PROMPT_LENGTHS) -> list[list[int]]:
    """Token ids of several lengths, the same in every run."""
    generator = torch.Generator().manual_seed(11)
    return [torch.randint(3, 257, (n,), generator=generator).tolist() for n in lengths]


class TinyModel:
    """A checkpoint in a folder, and transformers' own model of it in float32 on the host."""

    def __init__(self, transformers: Any, kind: str, folder: Path) -> None:
        """Make a model with transformers, which the caller imports.

        Args:
            transformers: the package.
            kind: a key of :data:`MODELS`.
            folder: an empty folder for the checkpoint.
        """
        config = transformers.AutoConfig.for_model(kind, **SHAPE, **MODELS[kind])
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.float32, attn_implementation="eager"
            )
        self.path = folder
        self.model = model.eval()
        self.model.save_pretrained(folder)

    @torch.inference_mode()
    def first_difference(self, prompt: Sequence[int], tokens: Sequence[int]) -> str | None:
        """Where tokens are not the most likely ones after a prompt, in words; None: nowhere.

        All positions are predicted at once, given the tokens themselves; so a near tie, where
        either token is right, disturbs nothing behind it.
        """
        ids = torch.tensor([[*prompt, *tokens]])
        logits = self.model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        own = torch.tensor(list(tokens))[:, None]
        behind = logits.max(-1).values - logits.gather(-1, own)[:, 0]
        wrong = (behind > NEAR_TIE).nonzero()
        if not len(wrong):
            return None
        place = int(wrong[0])
        return (
            f"token {place + 1} after a prompt of {len(prompt)} is {tokens[place]}, transformers "
            f"has {int(logits[place].argmax())}, whose logit is {float(behind[place]):.3g} higher"
        )


class TinyBody:
    """A checkpoint without a head in a folder, and transformers' own model of it on the host."""

    def __init__(self, transformers: Any, kind: str, folder: Path, positions: int) -> None:
        """Make a random model with transformers, which the caller imports.

        Args:
            transformers: the package.
            kind: transformers' model type.
            folder: an empty folder for the checkpoint.
            positions: the longest prompt.
        """
        shape = {**SHAPE, "max_position_embeddings": positions}
        config = transformers.AutoConfig.for_model(kind, **shape)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = transformers.AutoModel.from_config(
                config, dtype=torch.float32, attn_implementation="eager"
            )
        self.path = folder
        self.model = model.eval()
        self.model.save_pretrained(folder)

    @torch.inference_mode()
    def hidden_states(self, prompt: Sequence[int]) -> torch.Tensor:
        """Last hidden states [T, hidden_size] of a prompt's tokens."""
        states: torch.Tensor = self.model(torch.tensor([list(prompt)])).last_hidden_state[0]
        return states
