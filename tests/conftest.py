"""Fixtures for all tests: the real small models, fetched once into a cache folder."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def cache_folder():
    """Where weights are kept, as the Makefile has it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("RUNTIME_CACHE") or Path(base) / "runtime")


def fetched(name, script):
    """The path of a cached model, fetched by a script; skips where it is not to be had."""
    target = cache_folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(target.with_suffix(".lock")):
        if not target.exists():
            spec = importlib.util.spec_from_file_location(script, SCRIPTS / f"{script}.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            try:
                module.fetch(target)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"{name} is not cached and cannot be fetched: {error}")
    return target


@pytest.fixture(scope="session")
def smollm2_path():
    """SmolLM2-135M-Instruct as a Q4_1 GGUF; skips where it is neither cached nor to be had."""
    return fetched("SmolLM2-135M-Instruct.Q4_1.gguf", "fetch_smollm2")


@pytest.fixture(scope="session")
def minilm_path():
    """all-MiniLM-L6-v2's directory; skips where it is neither cached nor to be had."""
    return fetched("all-MiniLM-L6-v2", "fetch_minilm")


@pytest.fixture(scope="session")
def run_runtime():
    """Run the command line in a fresh interpreter: ``run_runtime("plugins") -> completed``."""

    def run(*words, timeout=120, stdin=None, **environment):
        return subprocess.run(
            [sys.executable, "-m", "runtime", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environment},
            input=stdin,
        )

    return run


@pytest.fixture
def own_tests(tmp_path_factory):
    """Install a package into a folder and run its own tests: ``own_tests(path) -> output``.

    ``own_tests(path, "plugins", "--json", VLLM_PLUGINS="a")`` runs the command line beside it
    instead.
    """
    folders = {}

    def run(package, *words, **environment):
        if package not in folders:
            # A copy: building leaves files behind.
            source = shutil.copytree(package, tmp_path_factory.mktemp("package") / "source")
            folders[package] = tmp_path_factory.mktemp("site")
            options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
            command = [sys.executable, "-m", "pip", "install", *options]
            subprocess.run([*command, "--target", folders[package], source], check=True)
        pytest_options = [
            "-q",
            "--import-mode=importlib",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
        ]
        tests = ["pytest", *pytest_options, "--rootdir", package, package / "tests"]
        done = subprocess.run(
            [sys.executable, "-m", *map(str, ["runtime", *words] if words else tests)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folders[package]), **environment},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
