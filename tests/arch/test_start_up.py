"""What is typed often starts at once."""

import resource
import subprocess
import sys

import pytest

SECONDS = 0.3
TRIES = 5
HEAVY = ("torch", "transformers", "numpy", "tokenizers", "gguf", "safetensors")

COMMANDS = {
    "import": ["-c", "import runtime"],
    "help": ["-m", "runtime", "--help"],
    "version": ["-m", "runtime", "--version"],
}

# Runs at exit, so that it sees what a command imported however the command ends.
REPORT = f"""
import atexit, sys
atexit.register(lambda: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr))
"""
RUN_COMMAND = "import runpy; runpy.run_module('runtime', run_name='__main__', alter_sys=True)"


@pytest.mark.parametrize("name", COMMANDS)
def test_it_takes_less_than_it_may(name, tmp_path):
    best = float("inf")
    for _ in range(TRIES):
        started = children_seconds()
        subprocess.run(
            [sys.executable, *COMMANDS[name]], check=True, capture_output=True, cwd=tmp_path
        )
        best = min(best, children_seconds() - started)
    assert best < SECONDS


def children_seconds():
    """Processor time of ended children: other work on the machine does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("name", COMMANDS)
def test_it_imports_nothing_heavy(name, tmp_path):
    kind, code, *words = COMMANDS[name]
    done = subprocess.run(
        [sys.executable, "-c", REPORT + (code if kind == "-c" else RUN_COMMAND), *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == "[]\n"
