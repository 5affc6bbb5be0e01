"""A made-up machine's file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Lay out files by path below a root, and return the root."""

    def lay_out(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return lay_out
