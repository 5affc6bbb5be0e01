"""Whatever a request may hold survives the way to the engine's process."""

import msgspec
import pytest

from runtime.core.engine.children import split
from runtime.core.engine.wire import (
    AbortRequests,
    AddRequests,
    Command,
    EngineFailed,
    EngineReady,
    EngineStats,
    EngineStep,
    Report,
    Shutdown,
)
from runtime.core.errors import RequestError
from runtime.core.messages import EngineOutput, EngineRequest, TokenLogprobs
from runtime.core.sampling.params import OutputKind, SamplingParams
from runtime.core.structured_output.params import StructuredOutputs


def request(**params):
    return EngineRequest("r", [1, 2], SamplingParams(**params), [2], 1.5, "salt", [[3, 4]])


def carried(message, kind):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kind)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"seed": 2**64 - 1, "n": 1, "max_tokens": None},
        {"seed": -(2**63), "stop": ["a", "b"], "stop_token_ids": [7], "bad_words": ["x"]},
        {"logit_bias": {5: -100.0}, "allowed_token_ids": [5, 6], "logprobs": 3},
        {"extra_args": {"a": [1, {"b": None}]}, "output_kind": OutputKind.DELTA},
        {"structured_outputs": StructuredOutputs(json={"type": "object"})},
        {"structured_outputs": StructuredOutputs(choice=["yes", "no"])},
        {"top_k": 2**31 - 1, "max_tokens": 2**31 - 1},
    ],
)
def test_requests_arrive_as_they_were_sent(params):
    sent = AddRequests([request(**params)])
    assert carried(sent, Command) == sent


@pytest.mark.parametrize("command", [AbortRequests(["a"]), Shutdown()])
def test_other_commands_keep_their_kind(command):
    assert carried(command, Command) == command


@pytest.mark.parametrize(
    "report",
    [
        EngineReady(8, 8, "KV cache"),
        EngineFailed("no", True),
        EngineStep(
            [EngineOutput("r", [1], "stop", "text", [TokenLogprobs([1], [-9999.0], [1])])],
            EngineStats(1, 2, 0.5, 3, 4, 5),
        ),
        EngineStep([EngineOutput("r", [1], "stop", 7)], EngineStats()),
    ],
)
def test_reports_arrive_as_they_were_sent(report):
    assert carried(report, Report) == report


@pytest.mark.parametrize("name", ["top_k", "max_tokens"])
def test_a_number_that_the_engine_cannot_hold_is_refused(name):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{name: 2**31})
    assert caught.value.param == name


def test_one_prompt_with_several_outputs_is_several_requests():
    first, second = split(request(n=2, seed=2**64 - 1, prompt_logprobs=1))
    assert first.request_id != second.request_id
    assert (first.params.seed, second.params.seed) == (2**64 - 1, 0)
    assert (first.params.prompt_logprobs, second.params.prompt_logprobs) == (1, None)
    assert first.params.n == second.params.n == 1
