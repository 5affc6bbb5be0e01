"""The chat template that an operator gives."""

from __future__ import annotations

from pathlib import Path

from runtime.core.errors import ConfigError


def read_chat_template(given: str | None) -> str | None:
    """The template's text from a file, from the text itself, or a name of the model's own ones.

    Raises:
        ConfigError: a file that is named does not exist or is not text.
    """
    if given is None or "{" in given or "\n" in given:
        return given
    path = Path(given)
    if not path.is_file():
        if path.suffix or "/" in given:
            raise ConfigError(f"--chat-template {given!r}: there is no such file")
        return given
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--chat-template {given!r} cannot be read: {error}") from error
