"""What a model's embeddings may be cut to."""

import pytest

from runtime.core.errors import RequestError
from runtime.core.pooling.config import PoolingConfig
from runtime.core.pooling.inputs import resolve
from runtime.core.pooling.params import PoolingParams, PoolingType


def config(matryoshka=None, **given):
    return PoolingConfig(PoolingType.MEAN, True, 16, True, matryoshka=matryoshka, **given)


@pytest.mark.parametrize(
    ("sizes", "taken", "refused"),
    [
        (None, [16], [1, 8, 15, 17]),
        ((), [1, 8, 15, 16], [17, 1000]),
        ((4, 8), [4, 8, 16], [1, 5, 15, 17]),
    ],
)
def test_dimensions_that_the_model_was_trained_for(sizes, taken, refused):
    for wanted in taken:
        assert resolve(PoolingParams(dimensions=wanted), config(sizes)).dimensions == wanted
    for wanted in refused:
        with pytest.raises(RequestError, match=f"dimensions={wanted}") as caught:
            resolve(PoolingParams(dimensions=wanted), config(sizes))
        assert caught.value.param == "dimensions"


def test_a_request_has_the_models_pooling_where_it_names_none():
    assert resolve(PoolingParams(), config()).type is PoolingType.MEAN
    assert resolve(PoolingParams(), config()).normalize
    own = resolve(PoolingParams(task="token_embed", normalize=False), config())
    assert (own.type, own.normalize) == (PoolingType.ALL, False)
