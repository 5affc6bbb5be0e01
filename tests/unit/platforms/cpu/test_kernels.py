"""What the platform does with the kernels' package there, absent or broken."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from runtime.core.errors import ConfigError
from runtime.platforms.cpu import kernels


@pytest.fixture(autouse=True)
def untried():
    """Nothing was tried yet, and what the test tried is forgotten."""
    kernels.why_missing.cache_clear()
    yield
    kernels.why_missing.cache_clear()


@pytest.fixture
def package(monkeypatch):
    """Put a package in the kernels' place, whose load() is given."""

    def put(load):
        monkeypatch.setitem(sys.modules, kernels.PACKAGE, SimpleNamespace(load=load))

    return put


def failing(error):
    def load():
        raise error

    return load


def test_absent_it_says_so_once_and_how_to_install(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, kernels.PACKAGE, None)
    with caplog.at_level(logging.INFO):
        reasons = {kernels.why_missing() for _ in range(3)}
        kernels.use_threads(2)
    assert reasons == {"runtime-kernels-cpu is not installed"}
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "pip install ./kernels_cpu" in record.getMessage()
    assert "slower" in record.getMessage()


def test_there_it_says_what_was_chosen(package, caplog):
    package(lambda: SimpleNamespace(isa="avx2", available_isas=("generic", "avx2")))
    with caplog.at_level(logging.INFO):
        assert kernels.why_missing() is None
    assert "avx2 (of generic, avx2)" in caplog.text


def test_a_library_that_does_not_load_is_a_warning_with_its_cause(package, caplog):
    package(failing(OSError("undefined symbol: f")))
    reason = kernels.why_missing()
    assert "undefined symbol: f" in reason
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_wrong_instruction_set_is_the_users_error(package):
    package(failing(ValueError("VLLM_CPU_ISA='x' cannot be used here; possible: generic")))
    with pytest.raises(ConfigError, match="VLLM_CPU_ISA='x'.*possible: generic"):
        kernels.why_missing()


def test_a_package_that_lacks_something_else_is_no_absent_one(monkeypatch):
    def importing(name):
        raise ModuleNotFoundError("No module named 'other'", name="other")

    monkeypatch.setattr(kernels.importlib, "import_module", importing)
    with pytest.raises(ModuleNotFoundError, match="other"):
        kernels.why_missing()
