"""The source distribution and the wheel made from it hold what they should, and work."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def call(*words, cwd, **environment):
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    ).stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Built from a copy of the checkout that has the files git knows, as a release is."""
    folder = tmp_path_factory.mktemp("source")
    names = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, folder / name
        if source.exists() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    out = tmp_path_factory.mktemp("sdist")
    call(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", out, cwd=folder)
    (path,) = out.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """Built from the source distribution alone."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    out = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, cwd=source)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """Python of a venv with the wheel; its dependencies are those of this interpreter."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(
        call(
            python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
        ).strip()
    )
    # Only this interpreter's folder, not its .pth files: they would bring the checkout back.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"runtime", "runtime-0.1.0.dist-info"}
    folders = {
        f"runtime/{path.relative_to(ROOT).as_posix()}"
        for folder in ("core", "plugins", "platforms")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {
        "runtime/core/engine/core.py",
        "runtime/plugins/hookspecs.py",
        "runtime/platforms/null/platform.py",
    } <= folders
    package = {f"runtime/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    assert {name for name in names if name.startswith("runtime/")} == folders | package


def test_an_installed_wheel_runs(fresh, tiny_model, tmp_path):
    where = call(fresh, "-c", "import runtime; print(runtime.__file__)", cwd=tmp_path)
    assert str(fresh.parents[1]) in where
    runtime = fresh.parent / "runtime"
    assert call(runtime, "--version", cwd=tmp_path) == "runtime 0.1.0\n"
    plugins = json.loads(call(runtime, "plugins", "--json", cwd=tmp_path))
    states = {plugin["name"]: plugin["state"] for plugin in plugins}
    assert (states["cpu"], states["null"]) == ("selected", "available")
    call(runtime, "new-model", "quartz", cwd=tmp_path)
    assert (tmp_path / "quartz" / "pyproject.toml").exists()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt_token_ids": [3, 4, 5]}\n')
    out = call(
        *(runtime, "generate", tiny_model("llama"), "--skip-tokenizer-init"),
        *("--prompt-file", prompts, "--max-tokens", 4, "--temperature", 0, "--json"),
        cwd=tmp_path,
    )
    assert len(json.loads(out)["outputs"][0]["token_ids"]) == 4
