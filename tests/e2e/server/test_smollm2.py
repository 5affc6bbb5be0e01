"""The server over SmolLM2's real weights: the same text as in process, and forms that hold."""

import json

import pytest

from runtime import LLM, SamplingParams

pytestmark = [pytest.mark.weights, pytest.mark.xdist_group("smollm2")]

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def engine(smollm2_path, live_engine):
    engine = live_engine(smollm2_path, max_model_len=1024)
    yield engine
    engine.close()


@pytest.fixture
def ask(engine):
    def run(path=CHAT, **body):
        answer = engine.client().post(path, json={"temperature": 0, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return run


def test_the_text_is_the_one_that_llm_gives(smollm2_path, ask):
    params = SamplingParams(temperature=0, max_tokens=40)
    options = {"dtype": "float32", "max_num_seqs": 8, "max_model_len": 1024, "platform": "cpu"}
    with LLM(str(smollm2_path), use_tqdm_on_load=False, **options) as llm:
        chat = llm.chat([QUESTION], params, use_tqdm=False)[0].outputs[0]
        text = llm.generate("The sea is", params, use_tqdm=False)[0].outputs[0]
    answer = ask(messages=QUESTION, max_tokens=40)["choices"][0]
    assert answer["message"]["content"] == chat.text
    assert answer["finish_reason"] == chat.finish_reason
    answer = ask("/v1/completions", prompt="The sea is", max_tokens=40)["choices"][0]
    assert answer["text"] == text.text


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"type": "array", "maxItems": 2}, {"type": ["number", "null"]}]
)
def test_a_loose_schema_gives_a_value_that_is_whole_or_says_that_it_was_cut(ask, schema):
    form = {"type": "json_schema", "json_schema": {"name": "any", "schema": schema}}
    choice = ask(messages=QUESTION, response_format=form, max_tokens=80)["choices"][0]
    if choice["finish_reason"] == "stop":
        json.loads(choice["message"]["content"])
    else:
        assert choice["finish_reason"] == "length"


def test_a_schema_that_says_nothing_is_refused(engine):
    form = {"type": "json_schema", "json_schema": {"name": "any", "schema": {}}}
    answer = engine.client().post(CHAT, json={"messages": QUESTION, "response_format": form})
    assert answer.status_code == 400
    assert "{}" in answer.json()["error"]["message"]


def test_an_object_on_request(ask):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "sure": {"type": "boolean"}},
        "required": ["city", "sure"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    choice = ask(messages=QUESTION, response_format=form, max_tokens=80)["choices"][0]
    assert choice["finish_reason"] == "stop"
    value = json.loads(choice["message"]["content"])
    assert set(value) == {"city", "sure"}


def test_a_conversation_goes_on_with_its_last_words(ask):
    messages = [*QUESTION, {"role": "assistant", "content": "The capital of France is"}]
    answer = ask(messages=messages, continue_final_message=True, max_tokens=3)["choices"][0]
    assert answer["message"]["content"].strip().startswith("Paris")


def test_a_tool_is_called_with_what_the_question_names(ask):
    tool = {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo", "Paris"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    answer = ask(
        messages=[{"role": "user", "content": "What is the weather in Oslo today?"}],
        tools=[{"type": "function", "function": tool}],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=60,
    )["choices"][0]
    (call,) = answer["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"])["city"] in ("Rome", "Oslo", "Paris")
