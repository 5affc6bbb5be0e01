"""The sources, parsed once, for the tests that read them."""

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file, by its path under the repository's root."""

    path: Path

    @property
    def name(self):
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self):
        """The name by which it is imported."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(["runtime", *(part for part in parts if part != "__init__")])

    @cached_property
    def text(self):
        return self.path.read_text()

    @cached_property
    def tree(self):
        return ast.parse(self.text)


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def sources():
    """Python files below folders: ``sources("core", "plugins") -> [Source]``, never empty."""
    made = {}

    def of(*folders):
        found = []
        for folder in folders:
            if folder not in made:
                made[folder] = [Source(path) for path in sorted((ROOT / folder).rglob("*.py"))]
                assert made[folder], f"no sources in {folder}"
            found += made[folder]
        return found

    return of
