"""The token table, and a head that is its own or the table's."""

import pytest
import torch

from runtime.core.layers.embedding import LMHead, VocabEmbedding


@pytest.fixture
def make(config):
    def build(tied):
        embedding = VocabEmbedding(11, 6, config=config(), prefix="model.embed_tokens")
        return embedding, LMHead(embedding, tied=tied, config=config(), prefix="lm_head")

    return build


def test_ids_become_rows(platform, make, put, fill):
    embedding, _ = make(tied=True)
    table = fill(embedding)["model.embed_tokens.weight"]
    ids = torch.tensor([3, 0, 10, 3], dtype=torch.int32)
    out = platform.memory.copy_to_host(embedding(put(ids)))
    assert torch.equal(out, table[[3, 0, 10, 3]])


def names(module):
    found = {}
    for part in module.modules():
        if hasattr(part, "checkpoint_tensors"):
            found |= {name: tuple(view.shape) for name, view in part.checkpoint_tensors().items()}
    return found


def test_a_tied_head_owns_no_weights_and_multiplies_by_the_table(platform, make, put, fill):
    embedding, head = make(tied=True)
    table = fill(embedding)["model.embed_tokens.weight"]
    assert names(head) == {}
    assert list(head.parameters()) == []
    hidden = torch.randn(3, 6)
    got = platform.memory.copy_to_host(head(put(hidden)))
    torch.testing.assert_close(got, hidden @ table.T)


def test_an_untied_head_has_its_own(platform, make, put, fill):
    embedding, head = make(tied=False)
    fill(embedding)
    assert names(head) == {"lm_head.weight": (11, 6)}
    weight = fill(head.own)["lm_head.weight"]
    hidden = torch.randn(3, 6)
    got = platform.memory.copy_to_host(head(put(hidden)))
    torch.testing.assert_close(got, hidden @ weight.T)
