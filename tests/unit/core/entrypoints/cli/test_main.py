"""The command line where torch cannot be imported."""

import pytest


@pytest.fixture
def broken_torch(site):
    """A site where importing torch raises as it does without the device's libraries."""
    site.module("torch", "raise OSError('libacme.so.12: cannot open shared object file')\n")
    return site


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("generate", "--help")])
def test_help_and_version_need_no_torch(broken_torch, words):
    done = broken_torch.run(*words)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith(("runtime ", "usage: runtime"))


@pytest.mark.parametrize(
    "words", [("generate", "nowhere", "--prompt", "x"), ("chat", "nowhere"), ("ops",)]
)
def test_a_command_that_computes_says_in_one_line_that_torch_is_broken(broken_torch, words):
    done = broken_torch.run(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "runtime: error: importing torch failed: OSError: libacme.so.12: cannot open shared object "
        "file; runtime collect-env shows what is installed"
    )
    assert "Traceback" not in done.stderr


def test_an_error_that_is_not_torchs_keeps_its_traceback(site):
    site.module("torch", "__version__ = '9'\n")
    done = site.run("ops")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "importing torch failed" not in done.stderr
