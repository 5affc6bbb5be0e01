"""Mistral (Jiang et al. 2023, arXiv:2310.06825): Llama whose attention may have a window."""

from __future__ import annotations

from runtime.core.config.hf_config import HFConfig
from runtime.core.models.llama import LlamaForCausalLM, LlamaModel


class MistralForCausalLM(LlamaForCausalLM):
    """Llama's layers, without biases and with Mistral's defaults."""

    @classmethod
    def read_config(cls, hf: HFConfig) -> HFConfig:
        """Complete the config as transformers' MistralConfig does.

        A key that is absent has Mistral-7B's value; a null says otherwise: no window, and as
        many key heads as query heads.
        """
        values = {"num_key_value_heads": 8, "sliding_window": 4096, **hf}
        return HFConfig({**values, "attention_bias": False, "mlp_bias": False})


class MistralModel(MistralForCausalLM, LlamaModel):
    """The body alone, as checkpoints of embedding models have it."""
