"""Sizes given in environment variables."""

from __future__ import annotations

import pytest

from runtime.core.errors import ConfigError
from runtime.core.platform.environment import gib_from_environment


@pytest.mark.parametrize(("text", "size"), [("1", 2**30), (" 0.5 ", 2**29), ("1e-3", 1073741)])
def test_a_size_in_gib(text, size):
    assert gib_from_environment({"SIZE": text}, "SIZE") == size


@pytest.mark.parametrize("environ", [{}, {"SIZE": ""}, {"SIZE": "  "}])
def test_unset_is_no_size(environ):
    assert gib_from_environment(environ, "SIZE") is None


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "4GB", "four"])
def test_what_is_no_size_is_named(text):
    with pytest.raises(ConfigError, match=f"SIZE='{text}'"):
        gib_from_environment({"SIZE": text}, "SIZE")
