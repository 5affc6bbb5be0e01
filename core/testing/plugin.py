"""The pytest plugin. Without ``--runtime-platform`` it adds options and does nothing else.

Importing this module is cheap, since every run of pytest on the installation does.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

OPTIONS = ("op", "seed", "perf", "markdown", "support")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("runtime", "conformance of a platform of runtime")
    group.addoption(
        "--runtime-platform",
        metavar="NAME",
        help="run the conformance suite, or the tests given, on this installed platform",
    )
    group.addoption(
        "--runtime-op", metavar="NAME", help="run only this op's cases of the conformance suite"
    )
    group.addoption(
        "--runtime-seed",
        metavar="N",
        type=int,
        help="seed of the random inputs; default: a new one each time",
    )
    group.addoption(
        "--runtime-perf",
        action="store_true",
        default=None,
        help="time each op's providers against its reference",
    )
    group.addoption(
        "--runtime-markdown",
        metavar="FILE",
        help="write the report as Markdown; - prints it instead of the text table",
    )
    group.addoption(
        "--runtime-support",
        metavar="FILE",
        help="write the platform's section of a support document, which has no measured numbers",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the platform, and the suite where no test is given."""
    name = config.getoption("runtime_platform")
    if name is None:
        for option in OPTIONS:
            if config.getoption(f"runtime_{option}") is not None:
                raise pytest.UsageError(f"--runtime-{option} needs --runtime-platform NAME")
        return
    from runtime.core.testing.session import Conformance

    config.pluginmanager.register(Conformance(config, name), "runtime-conformance-session")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.addinivalue_line("python_files", "test_*.py")
        config.args[:] = [str(suite_folder())]


def suite_folder() -> Path:
    """Where the suite's modules are."""
    spec = importlib.util.find_spec("runtime.core.testing.suite")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])
