"""The suite on a platform, as its author runs it: in a process of its own."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def run_suite():
    """Run pytest with the plugin: ``run_suite("--runtime-platform", "null") -> completed``."""

    def run(*words, cwd, **environment):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
            cwd=cwd,
            # One thread: the suite is many small computations, and other tests run beside it.
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=280,
        )

    return run
