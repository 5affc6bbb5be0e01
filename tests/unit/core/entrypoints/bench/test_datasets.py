"""Datasets give as many requests as asked, of the lengths asked."""

import json
from collections import Counter

import pytest

from runtime.core.entrypoints.bench.datasets import sample_requests
from runtime.core.entrypoints.bench.prompts import TokenPrompts
from runtime.core.errors import ConfigError

MAKER = TokenPrompts(1000)


def lengths(requests):
    return [(len(request.prompt.token_ids), request.output_len) for request in requests]


def test_random_requests_have_the_exact_lengths(dataset_args):
    args = dataset_args(
        *("--num-prompts", 5, "--num-warmups", 2),
        *("--random-input-len", 33, "--random-output-len", 7),
    )
    warmups, requests = sample_requests(args, MAKER, None)
    assert lengths(warmups) == [(33, 7)] * 2
    assert lengths(requests) == [(33, 7)] * 5
    assert len({request.prompt.token_ids for request in warmups + requests}) == 7


def test_the_general_lengths_win_and_are_recorded(dataset_args):
    args = dataset_args("--num-prompts", 2, "--input-len", 5, "--output-len", 3)
    assert lengths(sample_requests(args, MAKER, None)[1]) == [(5, 3)] * 2
    assert (args.random_input_len, args.random_output_len) == (5, 3)


def test_lengths_vary_within_the_ratio(dataset_args):
    args = dataset_args(
        "--num-prompts", 300, "--input-len", 10, "--output-len", 20, "--random-range-ratio", 0.25
    )
    inputs, outputs = zip(*lengths(sample_requests(args, MAKER, None)[1]), strict=True)
    assert set(inputs) == set(range(8, 13))
    assert set(outputs) == set(range(15, 26))


def test_random_prefixes_are_the_same_in_all(dataset_args):
    args = dataset_args("--num-prompts", 3, "--input-len", 4, "--random-prefix-len", 6)
    prompts = [r.prompt.token_ids for r in sample_requests(args, MAKER, None)[1]]
    assert {len(prompt) for prompt in prompts} == {10}
    assert len({prompt[:6] for prompt in prompts}) == 1
    assert len(set(prompts)) == 3


def test_the_seed_settles_the_requests(dataset_args):
    def made(seed):
        args = dataset_args("--num-prompts", 3, "--input-len", 8, seed=seed)
        return sample_requests(args, MAKER, None)[1]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_prefixes_repeat_evenly(dataset_args):
    args = dataset_args(
        *("--dataset-name", "prefix_repetition", "--num-prompts", 11, "--num-warmups", 0),
        *("--prefix-repetition-prefix-len", 20, "--prefix-repetition-suffix-len", 5),
        *("--prefix-repetition-num-prefixes", 3, "--prefix-repetition-output-len", 9),
    )
    requests = sample_requests(args, MAKER, None)[1]
    assert lengths(requests) == [(25, 9)] * 11
    counts = Counter(request.prompt.token_ids[:20] for request in requests)
    assert sorted(counts.values()) == [3, 4, 4]
    assert len({request.prompt.token_ids for request in requests}) == 11


@pytest.fixture
def conversations(tmp_path):
    def write(content):
        path = tmp_path / "conversations.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def entry(*texts):
    return {"id": "x", "conversations": [{"from": "human", "value": text} for text in texts]}


def sharegpt(dataset_args, path, *words):
    return dataset_args("--dataset-name", "sharegpt", "--dataset-path", path, *words)


def test_conversations_give_prompts_and_lengths(dataset_args, conversations, word_tokenizer):
    path = conversations(
        [
            entry(" ab cd ef gh", " ab cd ef gh ij", " a third turn is not used"),
            entry(" aa bb cc dd ee ff", " ab" * 12),
            entry(" ab", " ab cd ef gh"),  # too short a prompt
            entry(" ab cd ef gh", " ab"),  # too short an answer
            entry(" ab" * 1025, " ab cd ef gh"),  # too long a prompt
            entry(" ab" * 1000, " ab" * 1100),  # too long together
            entry("no answer"),
            entry(),
        ]
    )
    args = sharegpt(dataset_args, path, "--num-prompts", 1, "--num-warmups", 1)
    warmups, requests = sample_requests(args, MAKER, word_tokenizer(bos=True))
    assert sorted(lengths(warmups + requests)) == [(5, 5), (7, 12)]
    texts = {request.prompt.text for request in warmups + requests}
    assert texts == {" ab cd ef gh", " aa bb cc dd ee ff"}


def test_a_length_of_outputs_replaces_the_answers(dataset_args, conversations, word_tokenizer):
    path = conversations([entry(" ab cd ef gh", " ab")])
    for flag in ("--output-len", "--sharegpt-output-len"):
        args = sharegpt(dataset_args, path, "--num-prompts", 1, "--num-warmups", 0, flag, 50)
        assert lengths(sample_requests(args, MAKER, word_tokenizer())[1]) == [(4, 50)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON: "),
        ({"a": 1}, "not a JSON array of conversations"),
        ([entry("a", "b"), 3], "entry 1 has no list 'conversations'"),
        ([entry("a", "b"), entry("a", "b"), {"items": []}], "entry 2 has no list 'conversations'"),
        ([{"conversations": "hello"}], "entry 0 has no list 'conversations'"),
        ([entry("a", 7)], "entry 0: turn 1 has no text 'value'"),
        ([entry("a", "b"), {"conversations": ["hi"]}], "entry 1: turn 0 has no text 'value'"),
        ([entry("a", "b")], "has 0 usable conversations; 3 are asked for: lower --num-prompts"),
    ],
)
def test_a_bad_file_is_one_line_with_the_entry(
    dataset_args, conversations, word_tokenizer, content, words
):
    path = conversations(content)
    args = sharegpt(dataset_args, path, "--num-prompts", 2)
    with pytest.raises(ConfigError) as caught:
        sample_requests(args, MAKER, word_tokenizer())
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--num-prompts", 0), "num_prompts=0 must be at least 1"),
        (("--num-warmups", -1), "num_warmups=-1 must be at least 0"),
        (("--input-len", 0), "random_input_len=0 must be at least 1"),
        (("--random-output-len", 0), "random_output_len=0 must be at least 1"),
        (("--random-prefix-len", -2), "random_prefix_len=-2 must be at least 0"),
        (("--random-range-ratio", 1.0), "random_range_ratio=1.0 must be at least 0 and below 1"),
        (
            ("--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", 0),
            "prefix_repetition_num_prefixes=0 must be at least 1",
        ),
        (("--dataset-name", "prefix_repetition", "--input-len", 4), "input_len is not for the"),
        (("--dataset-name", "sharegpt"), "needs a tokenizer"),
    ],
)
def test_values_out_of_range_are_refused(dataset_args, words, message):
    with pytest.raises(ConfigError, match=message):
        sample_requests(dataset_args(*words), MAKER, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the sharegpt dataset needs its file"),
        (("--dataset-path", "/nowhere.json"), "--dataset-path /nowhere.json: .*No such file"),
        (("--input-len", 3), "input_len is not for the sharegpt dataset"),
        (("--output-len", 0), "output_len=0 must be at least 1"),
    ],
)
def test_a_sharegpt_dataset_says_what_it_lacks(dataset_args, word_tokenizer, words, message):
    args = dataset_args("--dataset-name", "sharegpt", *words)
    with pytest.raises(ConfigError, match=message):
        sample_requests(args, MAKER, word_tokenizer())
