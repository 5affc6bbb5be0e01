"""Environment variables as they may be shown."""

import pytest

from runtime.core.entrypoints.cli.secrets import shown


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "HF_TOKEN", "X_PASSWD", "my_secret", "X_AUTH"])
def test_secrets_are_hidden_by_their_names(name):
    assert shown(name, "s3cret") == "(hidden)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://user:pass@host/x", "https://(hidden)@host/x"),
        ("https://user@host", "https://(hidden)@host"),
        ("a=http://u:p@h;b=redis://:p@ss@i", "a=http://(hidden)@h;b=redis://(hidden)@i"),
        ("https://host/path@v2", "https://host/path@v2"),
        ("me@example.org", "me@example.org"),
        ("0-3,8", "0-3,8"),
    ],
)
def test_credentials_in_urls_are_hidden(value, expected):
    assert shown("HF_ENDPOINT", value) == expected
