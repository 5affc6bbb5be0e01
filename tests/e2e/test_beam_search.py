"""Beam search finds what transformers' finds."""

import pytest

from runtime.core.entrypoints.beam_search import BeamSearchParams
from runtime.core.errors import RequestError

ENDS = [2, *range(50, 59)]


def until_end(row):
    """A row without the padding that transformers puts behind an end of sequence."""
    ends = [index for index, token in enumerate(row) if token in ENDS]
    return row[: ends[0] + 1] if ends else row


@pytest.fixture(scope="module")
def llm(tiny_model, load):
    return load(tiny_model("llama"))


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, -0.5])
def test_equals_transformers(width, length_penalty, llm, tiny_model, reference, ragged):
    prompts = ragged[1:5]
    expected = reference(
        tiny_model("llama"),
        prompts,
        12,
        num_beams=width,
        num_return_sequences=width,
        length_penalty=length_penalty,
        eos_token_id=ENDS,
    )
    llm.engine.input_processor.eos_token_ids = ENDS
    outputs = llm.beam_search(
        [{"prompt_token_ids": p} for p in prompts],
        BeamSearchParams(width, 12, length_penalty=length_penalty),
    )
    for output, rows in zip(outputs, expected, strict=True):
        rows = [rows] if width == 1 else rows
        assert [s.token_ids for s in output.sequences] == [until_end(row) for row in rows]


def test_ignoring_end_of_sequence_every_beam_has_all_its_tokens(llm, ragged):
    (output,) = llm.beam_search(
        {"prompt_token_ids": ragged[3]}, BeamSearchParams(3, 9, ignore_eos=True)
    )
    assert [len(s.token_ids) for s in output.sequences] == [9, 9, 9]
    scores = [s.score for s in output.sequences]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("params", "param"),
    [((11, 4), "beam_width"), ((2, 250), "max_tokens")],
)
def test_what_cannot_be_searched_is_refused(llm, ragged, params, param):
    with pytest.raises(RequestError) as caught:
        llm.beam_search({"prompt_token_ids": ragged[3]}, BeamSearchParams(*params))
    assert caught.value.param == param


@pytest.mark.parametrize("bad", [(0, 4), (2, 0), (True, 4)])
def test_numbers_are_checked(bad):
    with pytest.raises(RequestError, match="positive integer"):
        BeamSearchParams(*bad)
