"""A folder with an installed distribution of faulty platforms."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
METADATA = "Metadata-Version: 2.1\nName: acme-faulty\nVersion: 1.0\n"
PLATFORMS = ("ops", "attention", "memory", "graphs", "group", "loading")


@pytest.fixture(scope="session")
def faulty_site(tmp_path_factory):
    """The folder, to be put on PYTHONPATH."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("faulty_platforms.py", "faulty_parts.py"):
        shutil.copy(HERE / name, folder)
    info = folder / "acme_faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    points = {f"faulty-{name}": f"register_{name}_platform" for name in PLATFORMS}
    points["sound"] = "register_sound_platform"
    lines = [f"{name} = faulty_platforms:{function}" for name, function in points.items()]
    text = "\n".join(["[runtime.platform_plugins]", *lines, ""])
    (info / "entry_points.txt").write_text(text)
    return folder


@pytest.fixture
def run_pytest(faulty_site, tmp_path):
    """Run pytest where the faulty platforms are installed: ``run_pytest(*words) -> completed``."""

    def run(*words):
        path = os.pathsep.join(filter(None, [str(faulty_site), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=240,
        )

    return run
