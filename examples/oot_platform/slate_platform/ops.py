"""Implementations of ops, and the layout of linear layers. Importing this registers the ops."""

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import register_provider
from runtime.core.quantization.scheme import DenseScheme


@register_provider(
    "rms_norm", provider="slate", device_type="cpu", supports=lambda x, *_: x.shape[-1] % 8 == 0
)
def rms_norm(x, weight, eps):
    """The reference's meaning, by torch's own function."""
    return F.rms_norm(x.float(), (x.shape[-1],), eps=eps).to(x.dtype) * weight


@register_provider("silu_and_mul", provider="slate", device_type="cpu")
def silu_and_mul(x):
    """Overrides the op by its name."""
    gate, up = x.chunk(2, dim=-1)
    return (gate.float() * torch.sigmoid(gate.float())).to(x.dtype) * up


class TransposedScheme(DenseScheme):
    """Keeps weights as [in_features, out_features] once they are loaded."""

    def after_loading(self, layer):
        turned = layer.weight.t().contiguous()
        layer.weight = torch.nn.Parameter(turned, requires_grad=False)

    def apply(self, layer, x, bias):
        out = x @ layer.weight
        return out if bias is None else out + bias
