"""Words of a command line and values of YAML become the same values."""

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from runtime.core.entrypoints.cli.values import from_yaml, integer, parse


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("-1", -1),
        ("32k", 32_000),
        ("32K", 32_768),
        ("1m", 1_000_000),
        ("1M", 2**20),
        ("2G", 2**31),
        ("2g", 2_000_000_000),
        ("1T", 2**40),
        ("1.5K", 1536),
        ("25.6k", 25_600),
        ("-1.5k", -1500),
        ("-2K", -2048),
    ],
)
def test_sizes(text, number):
    assert integer(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "1x", "1kk", "0.0001k", "1.1K", "1e3k", "١kk"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="invalid literal|is not whole"):
        integer(text)


WORDS = Literal["auto", "off"]


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int | None, "4k", 4000),
        (int | WORDS | None, "auto", "auto"),
        (int | WORDS | None, "7", 7),
        (float | None, "0.5", 0.5),
        (str | None, "7", "7"),
        (bool, "True", True),
        (WORDS, "off", "off"),
        (Mapping[str, Any] | None, '{"a": 1}', {"a": 1}),
    ],
)
def test_words(hint, text, value):
    assert parse(hint, text) == value
    assert type(parse(hint, text)) is type(value)


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (int | WORDS | None, "x", "'x' is not an integer or 'auto' or 'off'"),
        (float, "x", "'x' is not a number"),
        (WORDS, "x", "'x' is not one of auto, off"),
        (bool, "1", "neither true nor false"),
        (Mapping[str, Any], "[1]", "not a JSON object"),
        (Mapping[str, Any], "{", "not JSON"),
    ],
)
def test_a_refusal_says_what_is_expected(hint, text, expected):
    with pytest.raises(ValueError, match=expected):
        parse(hint, text)


@pytest.mark.parametrize(
    ("hint", "given", "value"),
    [
        (int, 5, 5),
        (int, "4K", 4096),
        (float, 1, 1.0),
        (bool, True, True),
        (str | None, None, None),
        (str, 8, "8"),
        (tuple[str, ...], "a", ("a",)),
        (tuple[str, ...], ["a", 5], ("a", "5")),
        (Mapping[str, Any], {"a": [1]}, {"a": [1]}),
    ],
)
def test_values_of_yaml(hint, given, value):
    assert from_yaml(hint, given) == value
    assert type(from_yaml(hint, given)) is type(value)


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (int, True, "true is not an integer"),
        (int, 1.5, "'1.5' is not an integer"),
        (int, [1], r"\[1\] is not an integer"),
        (bool, "yes", '"yes" is not true or false'),
        (int, None, "'None' is not an integer"),
        (str, {"a": 1}, "is not text"),
    ],
)
def test_values_of_another_type_are_refused(hint, given, expected):
    with pytest.raises(ValueError, match=expected):
        from_yaml(hint, given)
