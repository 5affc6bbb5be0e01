"""What a request may ask of pooling."""

import msgspec
import pytest

from runtime.core.errors import RequestError
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.pooling.params import Pooling, PoolingParams, PoolingTask, PoolingType, Vectors
from runtime.core.sampling.params import SamplingParams


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"task": "classify"}, "task"),
        ({"task": 5}, "task"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"dimensions": 1.0}, "dimensions"),
        ({"dimensions": 2**31}, "dimensions"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": "9"}, "truncate_prompt_tokens"),
        ({"normalize": 1}, "normalize"),
        ({"priority": None}, "priority"),
        ({"priority": 2**31}, "priority"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(given, param):
    with pytest.raises(RequestError, match=param) as caught:
        PoolingParams(**given)
    assert caught.value.param == param


def test_a_task_is_known_by_its_name():
    assert PoolingParams(task="token_embed").task is PoolingTask.TOKEN_EMBED
    assert PoolingParams().task is PoolingTask.EMBED


@pytest.mark.parametrize("kind", PoolingType)
def test_only_the_last_token_leaves_the_others_to_the_cache(kind):
    assert Pooling(kind, True).reads_all_positions == (kind is not PoolingType.LAST)


def test_requests_and_results_cross_a_process_boundary():
    request = EngineRequest(
        "a",
        [1, 2],
        SamplingParams(max_tokens=0),
        [],
        1.5,
        pooling=Pooling(PoolingType.MEAN, True, 3),
    )
    output = EngineOutput("a", [], "stop", pooled=Vectors([2], b"\0\0\x80?\0\0\0@"))
    for message in (request, output):
        data = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.decode(data, type=type(message)) == message
