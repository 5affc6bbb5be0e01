"""Stop strings are found wherever they end, and no part of one is shown before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.engine.stop_strings import find_stop, held_back


@pytest.mark.parametrize(
    ("text", "new", "stops", "kept"),
    [
        ("one STOP", 4, ["STOP"], "one "),
        ("one STOP two", 4, ["STOP"], None),
        ("one STOP two", 5, ["STOP"], "one "),
        ("abcabc", 1, ["abc"], "abc"),
        ("xxendyy", 7, ["endy", "xend"], "x"),
        ("nothing", 7, ["zzz"], None),
    ],
)
def test_find(text, new, stops, kept):
    match = find_stop(text, new, stops, include=False)
    assert (None if match is None else text[: match.end]) == kept


def test_the_stop_string_can_be_kept():
    match = find_stop("one STOP!", 5, ["STOP"], include=True)
    assert "one STOP!"[: match.end] == "one STOP"


@pytest.mark.parametrize(
    ("text", "stops", "count"),
    [("a<", ["</s>"], 1), ("a</s", ["</s>"], 3), ("a</x", ["</s>"], 0), ("aab", ["abc", "b!"], 2)],
)
def test_held_back(text, stops, count):
    assert held_back(text, stops) == count


words = st.text(alphabet="ab", max_size=12)


@given(st.lists(words, max_size=6), st.lists(words.filter(bool), min_size=1, max_size=3))
def test_text_that_grows_piece_by_piece_shows_no_part_of_a_stop(pieces, stops):
    whole = "".join(pieces)
    shown, text = "", ""
    ended = None
    for piece in pieces:
        text += piece
        match = find_stop(text, len(piece), stops, include=False) if piece else None
        if match is not None:
            ended = text[: match.end]
            break
        shown = text[: len(text) - held_back(text, stops)]
        assert not any(stop in shown for stop in stops)
    if ended is None:
        assert not any(stop in whole for stop in stops)
    else:
        assert ended.startswith(shown), "what was shown is taken back"
