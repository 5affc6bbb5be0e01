"""Activations by the names that configs have."""

import pytest
import torch

from runtime.core.errors import ModelLoadError
from runtime.core.layers.activation import GatedActivation


@pytest.mark.parametrize("name", ["silu", "swish"])
def test_the_first_half_is_the_gate(platform, put, name):
    gate, up = torch.randn(4, 7), torch.randn(4, 7)
    out = GatedActivation(name)(put(torch.cat((gate, up), dim=-1)))
    expected = gate * torch.sigmoid(gate) * up
    torch.testing.assert_close(platform.memory.copy_to_host(out), expected)


def test_an_unknown_one_is_named():
    with pytest.raises(ModelLoadError, match=r"hidden_act='gelu'"):
        GatedActivation("gelu")
