"""A virtual environment for each peer, in the cache folder, made once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.engines import Engine

PLOT_REQUIREMENTS = ("matplotlib>=3.9",)
_VERSION = (
    "import json, sys; from importlib.metadata import version; "
    "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
)


class Environments:
    """Python interpreters by the names of engines.

    Args:
        folder: where the environments are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def python(self, engine: Engine) -> Path:
        """The engine's interpreter; this process's own, where it needs no environment."""
        return self.at(engine.name) if engine.requirements else Path(sys.executable)

    def at(self, name: str) -> Path:
        """The interpreter of the environment of that name."""
        return self._folder / name / "bin" / "python"

    def make(
        self,
        name: str,
        requirements: Sequence[str],
        unwanted: Sequence[str] = (),
        build: Mapping[str, str] | None = None,
    ) -> Path:
        """Install what is required, unless that was done; returns the interpreter.

        Args:
            name: of the environment.
            requirements: for pip.
            unwanted: distributions to remove afterwards.
            build: environment variables for what is compiled.

        Raises:
            RuntimeError: pip failed; with the last line that it wrote.
        """
        place = self._folder / name
        stamp = place / "installed"
        wanted = hashlib.sha256(json.dumps([requirements, unwanted, build]).encode()).hexdigest()
        if stamp.is_file() and stamp.read_text() == wanted:
            return self.at(name)
        print(f"installing {', '.join(requirements)} into {place}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        self._pip(name, ["install", "--quiet", *requirements], build or {})
        if unwanted:
            self._pip(name, ["uninstall", "--quiet", "--yes", *unwanted], {})
        stamp.write_text(wanted)
        return self.at(name)

    def _pip(self, name: str, words: Sequence[str], variables: Mapping[str, str]) -> None:
        done = subprocess.run(
            [self.at(name), "-m", "pip", *words],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"pip {' '.join(words)}: {_last_line(done.stderr)}")


def versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Of distributions that an interpreter sees.

    Raises:
        RuntimeError: one is not installed.
    """
    done = subprocess.run(
        [python, "-c", _VERSION, *packages], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(_last_line(done.stderr))
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no word"
