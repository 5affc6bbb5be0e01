"""``/v1/completions``: what is asked for is what comes, streamed or not."""

import math

import pytest

PATH = "/v1/completions"
GREEDY = {"temperature": 0, "ignore_eos": True}


@pytest.fixture
def complete(client):
    def run(prompt, **fields):
        answer = client.post(PATH, json={"prompt": prompt, **GREEDY, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return run


@pytest.fixture
def stream(client, events):
    def run(prompt, **fields):
        return events(client, PATH, {"prompt": prompt, **GREEDY, **fields})

    return run


def joined(chunks):
    """The choices that a stream's chunks make together."""
    choices = {}
    for chunk in chunks:
        for part in chunk["choices"]:
            whole = choices.setdefault(
                part["index"], {"text": "", "token_ids": [], "logprobs": None}
            )
            whole["text"] += part["text"]
            whole["token_ids"] += part.get("token_ids") or []
            if part["logprobs"]:
                kept = whole["logprobs"] or {key: [] for key in part["logprobs"]}
                whole["logprobs"] = {k: kept[k] + part["logprobs"][k] for k in kept}
            for key in ("finish_reason", "stop_reason"):
                whole[key] = part[key]
            if "prompt_token_ids" in part:
                whole["prompt_token_ids"] = part["prompt_token_ids"]
    return choices


FORMS = [
    {"prompt": "once upon"},
    {"prompt": ["once", "twice upon a time", "x"], "n": 2},
    {"prompt": [[40, 41, 42], [43]], "echo": True},
    {"prompt": [40, 41, 42], "logprobs": 3},
    {"prompt": "once", "logprobs": 0, "echo": True},
    {"prompt": ["once", "ab"], "logprobs": 2, "echo": True, "n": 2, "seed": 3, "temperature": 1},
    {"prompt": "once", "stop": ["a", "e", "\ufffd"], "max_tokens": 30},
    {"prompt": "once", "echo": True, "max_tokens": 0},
    {"prompt": ["once", "b"], "echo": True, "max_tokens": 0, "logprobs": 1},
    {"prompt": "a 世", "allowed_token_ids": [130, 200, 231, 100, 101], "max_tokens": 25},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: repr(form)[:50])
def test_streamed_or_not_it_is_the_same(complete, stream, form):
    fields = {"max_tokens": 12, "return_token_ids": True, **form}
    whole = complete(**fields)
    parts = joined(stream(**fields))
    assert len(parts) == len(whole["choices"])
    for choice in whole["choices"]:
        part = parts[choice["index"]]
        for key, value in part.items():
            if key != "logprobs" or value is None:
                assert value == choice[key], key
                continue
            assert value["tokens"] == choice["logprobs"]["tokens"]
            assert value["text_offset"] == choice["logprobs"]["text_offset"]
            assert value["token_logprobs"] == pytest.approx(choice["logprobs"]["token_logprobs"])
    used = sum(len(choice["token_ids"]) for choice in whole["choices"])
    assert whole["usage"]["completion_tokens"] == used


def test_the_prompts_are_answered_in_their_order(complete):
    prompts = ["once", "twice", "thrice"]
    together = complete(prompts, max_tokens=6, n=2)
    assert [choice["index"] for choice in together["choices"]] == list(range(6))
    for index, prompt in enumerate(prompts):
        alone = complete(prompt, max_tokens=6)["choices"][0]["text"]
        assert [c["text"] for c in together["choices"][2 * index : 2 * index + 2]] == [alone] * 2
    assert together["usage"]["prompt_tokens"] == sum(map(len, prompts))


@pytest.mark.parametrize("prompt", ["\n1. Carol has 20", [40, 41, 42], ["ab", "cd"], "né世"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_echo_without_output_is_the_prompt(complete, prompt, count):
    answer = complete(prompt, echo=True, max_tokens=0, logprobs=count, return_token_ids=True)
    assert answer["usage"]["completion_tokens"] == 0
    many = isinstance(prompt, list) and isinstance(prompt[0], str)
    for choice, given in zip(answer["choices"], prompt if many else [prompt], strict=True):
        assert choice["finish_reason"] == "length"
        if isinstance(given, str):
            assert choice["text"] == given
        else:
            assert choice["prompt_token_ids"] == given
        scores = choice["logprobs"]
        assert "".join(scores["tokens"]) == choice["text"]
        lengths = {len(scores[name]) for name in scores}
        assert lengths == {len(choice["prompt_token_ids"])}
        assert scores["token_logprobs"][0] is None
        assert scores["top_logprobs"][0] is None
        assert all(score <= 0 for score in scores["token_logprobs"][1:])


@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_logprobs_tell_the_chosen_token_and_the_most_likely_ones(complete, count):
    answer = complete("once", max_tokens=5, logprobs=count, return_token_ids=True)
    scores = answer["choices"][0]["logprobs"]
    assert all(len(scores[name]) == 5 for name in scores)
    for chosen, top in zip(scores["token_logprobs"], scores["top_logprobs"], strict=True):
        assert 1 <= len(top) <= max(1, count)
        assert chosen == max(top.values())  # greedy
    assert complete("once", max_tokens=2)["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": 5, "allowed_token_ids": [40, 41]},
        {"logprobs": 5, "top_k": 1, "temperature": 1, "echo": True},
        {"logprobs": 5, "structured_outputs": {"choice": ["yes", "no"]}, "ignore_eos": False},
    ],
)
def test_every_logprob_is_a_number_that_json_has(complete, fields):
    scores = complete("once", max_tokens=4, **fields)["choices"][0]["logprobs"]
    numbers = [number for number in scores["token_logprobs"] if number is not None]
    numbers += [number for top in scores["top_logprobs"] if top for number in top.values()]
    assert numbers
    assert all(math.isfinite(number) for number in numbers)


@pytest.mark.parametrize(
    ("side", "expected"),
    [(None, [44, 45, 46, 47]), ("left", [44, 45, 46, 47]), ("right", [40, 41, 42, 43])],
)
def test_a_prompt_is_cut_where_it_is_asked_for(complete, side, expected):
    answer = complete(
        list(range(40, 48)),
        truncate_prompt_tokens=4,
        truncation_side=side,
        return_token_ids=True,
        echo=True,
        max_tokens=1,
    )
    assert answer["choices"][0]["prompt_token_ids"] == expected
    assert answer["usage"]["prompt_tokens"] == 4
    alone = complete(expected, echo=True, max_tokens=1)
    assert answer["choices"][0]["text"] == alone["choices"][0]["text"]


def test_the_usage_comes_where_it_is_asked_for(stream):
    last = stream("once", max_tokens=4, stream_options={"include_usage": True})
    assert last[-1]["choices"] == []
    assert last[-1]["usage"]["completion_tokens"] == 4
    assert not any("usage" in chunk for chunk in last[:-1])
    options = {"include_usage": True, "continuous_usage_stats": True}
    always = stream("once", max_tokens=4, stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in always] == [1, 2, 3, 4, 4]
    for options in (None, {}, {"include_usage": False}, {"continuous_usage_stats": True}):
        chunks = stream("once", max_tokens=4, stream_options=options)
        assert not any("usage" in chunk for chunk in chunks)


def test_the_prefix_cache_is_told_of(complete):
    prompt = "a prompt that fills more than one block of the cache, seen before" * 2
    salt = {"cache_salt": "told of"}
    first, second = (complete(prompt, max_tokens=1, **salt)["usage"] for _ in range(2))
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["prompt_tokens_details"]["cached_tokens"] > 100
    other = complete(prompt, max_tokens=1, cache_salt="another")["usage"]
    assert other["prompt_tokens_details"]["cached_tokens"] == 0


def test_a_seed_repeats_and_names_are_answered(complete):
    fields = {"temperature": 1, "max_tokens": 12, "seed": 7}
    first, second = (complete("once", **fields) for _ in range(2))
    assert first["choices"][0]["text"] == second["choices"][0]["text"]
    assert first["id"] != second["id"]
    other = complete("once", **{**fields, "seed": 8})
    assert other["choices"][0]["text"] != first["choices"][0]["text"]
    assert first["model"] == complete("once", model="tiny", max_tokens=1)["model"] == "tiny"


def test_the_context_is_filled_and_then_it_ends(complete):
    answer = complete([40] * 236, max_tokens=10_000)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 256


@pytest.mark.parametrize(
    ("wanted", "check"),
    [
        ({"choice": ["yes", "no"]}, lambda text: text in ("yes", "no")),
        ({"regex": "[0-9]{3}"}, lambda text: len(text) == 3 and text.isdigit()),
        ({"json": {"enum": [1, None]}}, lambda text: text in ("1", "null")),
        ({"grammar": 'root ::= "a" | "b"'}, lambda text: text in ("a", "b")),
    ],
)
@pytest.mark.parametrize("extra", [{}, {"temperature": 1, "seed": 5}])
def test_the_form_that_is_asked_for(complete, wanted, check, extra):
    fields = {"ignore_eos": False, "max_tokens": 30, **extra}
    choice = complete("once", structured_outputs=wanted, **fields)["choices"][0]
    assert check(choice["text"]), choice
    assert choice["finish_reason"] == "stop"


def test_min_tokens_beyond_a_grammars_end_is_no_failure(client):
    body = {
        "prompt": "once",
        "structured_outputs": {"choice": ["yes"]},
        "min_tokens": 20,
        "max_tokens": 40,
    }
    answer = client.post(PATH, json=body)
    if answer.status_code == 200:
        assert answer.json()["choices"][0]["text"] == "yes"
    else:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"]


def test_prompt_logprobs_are_by_token_id(complete):
    choice = complete([40, 41, 42], prompt_logprobs=2, max_tokens=1)["choices"][0]
    first, *rest = choice["prompt_logprobs"]
    assert first is None
    for token, position in zip((41, 42), rest, strict=True):
        assert str(token) in position
        assert set(position[str(token)]) == {"logprob", "rank", "decoded_token"}
