"""A run of the suite on one platform: what it is asked for, its records and its report."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import RuntimeUserError
from runtime.core.platform.interface import Platform
from runtime.core.platform.select import select_platform
from runtime.core.testing import report as reports
from runtime.core.testing.records import Record, Result

SUITE = "runtime.core.testing.suite."
_SESSION = pytest.StashKey["Conformance"]()


def conformance(config: pytest.Config) -> Conformance:
    """The session's conformance run; UsageError where ``--runtime-platform`` is not given."""
    found = config.stash.get(_SESSION, None)
    if found is None:
        raise pytest.UsageError("the conformance suite needs --runtime-platform NAME")
    return found


class Conformance:
    """The plugin object of a run with ``--runtime-platform``."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        """Select the platform and have it serve its ops, as an engine would.

        Raises:
            pytest.UsageError: it is not installed or cannot run here, or there is no such op.
        """
        self.records: list[Record] = []
        self.op: str | None = config.getoption("runtime_op")
        self.perf: bool = bool(config.getoption("runtime_perf"))
        self._markdown: str | None = config.getoption("runtime_markdown")
        self._support: str | None = config.getoption("runtime_support")
        seed: int | None = config.getoption("runtime_seed")
        self.seed = secrets.randbits(31) if seed is None else seed
        """Seed of all random inputs of the run."""
        try:
            if self._support is not None:
                reports.read_support(Path(self._support))
            self.platform: Platform = select_platform(name).platform
            self._prepare()
        except RuntimeUserError as error:
            raise pytest.UsageError(str(error)) from error
        config.stash[_SESSION] = self

    def _prepare(self) -> None:
        from runtime.core.ops.registry import get_op, resolve_ops

        if self.op is not None:
            get_op(self.op)
        self.platform.load_ops()
        resolve_ops(self.platform)

    def pytest_report_header(self) -> str:
        """The platform and the seed, at the top of the output."""
        return f"runtime platform: {self.platform.name}, seed {self.seed}"

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep only what concerns ``--runtime-op``."""
        if self.op is None:
            return
        kept = [item for item in items if params_of(item).get("op") == self.op]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the case's record on the report, which may travel to another process."""
        report = yield
        if _is_ours(item) and (report.when == "call" or not report.passed):
            vars(report)["conformance"] = _record(item, report, call).to_plain()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a record."""
        plain = getattr(report, "conformance", None)
        if plain is not None:
            self.records.append(Record.from_plain(plain))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the report, and write those that are asked for."""
        if hasattr(config, "workerinput") or not self.records:
            return
        name, records = self.platform.name, sorted_records(self.records)
        as_markdown = self._markdown == "-"
        terminalreporter.section(f"conformance of platform {name}")
        text = reports.markdown(name, records) if as_markdown else reports.text(name, records)
        terminalreporter.write_line(text)
        if self._markdown is not None and not as_markdown:
            Path(self._markdown).write_text(reports.markdown(name, records) + "\n", "utf-8")
        if self._support is not None:
            reports.update_support(Path(self._support), name, records)


def sorted_records(records: Iterable[Record]) -> list[Record]:
    """In the suite's own order, whatever order several processes ran them in."""
    return sorted(records, key=lambda r: (r.part, bool(r.params), r.title, *r.params.values()))


def params_of(item: pytest.Item) -> dict[str, str]:
    """A test's parameters by name, as words."""
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else {k: word(v) for k, v in callspec.params.items()}


def word(value: Any) -> str:
    """A parameter as the report has it: its ``name`` where it has one."""
    return str(getattr(value, "name", value))


def _is_ours(item: pytest.Item) -> bool:
    module = getattr(item, "module", None)
    return module is not None and module.__name__.startswith(SUITE)


def _record(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> Record:
    function: Any = getattr(item, "function", None)
    result = {
        "passed": Result.PASS,
        "failed": Result.FAIL,
        "skipped": Result.UNSUPPORTED,
    }[report.outcome]
    return Record(
        part=function.__module__.removeprefix(SUITE).removeprefix("test_"),
        title=(function.__doc__ or function.__name__).splitlines()[0].rstrip("."),
        params=params_of(item),
        result=result,
        reason="" if call.excinfo is None else _reason(call.excinfo.value),
        measured={name: str(value) for name, value in _properties(report.user_properties)},
    )


def _properties(properties: Sequence[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in properties if isinstance(value, str)]


def _reason(error: BaseException) -> str:
    """The first line of an exception, with its type where that tells more than ``assert`` does."""
    line = next(iter(str(error).strip().splitlines()), "")
    plain = isinstance(error, (AssertionError, pytest.skip.Exception, pytest.fail.Exception))
    return line if plain and line else f"{type(error).__name__}: {line}".rstrip(": ")
