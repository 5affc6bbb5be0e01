"""An mkdocs hook: the site's first page is the repository's README."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

README = Path(__file__).parents[1] / "README.md"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add ``index.md``, with links as the site has them."""
    text = LINK.sub(_link, README.read_text(encoding="utf-8"))
    files.append(File.generated(config, "index.md", content=text))
    return files


def _link(match: re.Match[str]) -> str:
    """A link into docs/ is one of the site's; of other files only the name is kept."""
    text, target = match.groups()
    if target.startswith("docs/"):
        return f"[{text}]({target.removeprefix('docs/')})"
    return f"{text} (`{target}`)" if text != target else f"`{target}`"
