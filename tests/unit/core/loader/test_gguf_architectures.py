import gguf
import pytest
import torch

from runtime.core.loader.gguf_architectures import ARCHITECTURES, interleaved_rows


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_tensor_names_agree_with_the_library(name):
    architecture = ARCHITECTURES[name]
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == name)
    names = gguf.get_tensor_name_map(kind, 3)
    for stem in architecture.tensors:
        ours = architecture.tensor_name(f"{stem.format(2)}.weight")
        assert names.get_name(ours, try_suffixes=(".weight",)) == f"{stem.format(2)}.weight"


def test_names_that_the_table_lacks():
    llama = ARCHITECTURES["llama"]
    assert llama.tensor_name("blk.0.attn_q.bias") == "model.layers.0.self_attn.q_proj.bias"
    assert llama.tensor_name("blk.12.nothing.weight") is None
    assert llama.tensor_name("blk.0.attn_q.scale") is None
    assert llama.tensor_name("output") is None


def test_order_of_interleaved_rows():
    order = interleaved_rows("heads")(12, {"heads": 2})
    assert order.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert torch.equal(order.sort().values, torch.arange(12))


def test_only_query_and_key_are_reordered():
    llama = ARCHITECTURES["llama"]
    names = [f"blk.7.{stem}.weight" for stem in ("attn_q", "attn_k", "attn_v", "attn_output")]
    assert [llama.order_of(name) is not None for name in names] == [True, True, False, False]
    assert llama.order_of("blk.7.attn_q.bias") is not None
