"""Running one task in a process, and what comes of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.peers.drivers.common import Job
from benchmarks.peers.plan import Task

ROOT = Path(__file__).parents[2]
Record = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What all tasks of a run have in common."""

    weights: Path
    """Folder of derived files."""
    source: Path
    """The GGUF file that they are made from."""
    logs: Path
    threads: int
    timeout: float
    """Seconds that a workload may take."""


def job_of(task: Task, setting: Setting) -> Job:
    """What the driver is told. Each round has prompts of its own."""
    places = {"weights": setting.weights, "source": setting.source}
    options = {name: text.format(**places) for name, text in task.precision.options.items()}
    return Job(task.engine.name, task.workloads, options, setting.threads, task.round)


def run_task(task: Task, python: Path, setting: Setting) -> list[Record]:
    """Run a task; one record for each of its workloads, with what went wrong if anything did."""
    job = job_of(task, setting)
    words = [str(python), "-m", f"benchmarks.peers.drivers.{task.engine.driver}"]
    place = {"environment": python.parents[1]}
    own = {key: value.format(**place) for key, value in task.engine.variables.items()}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **own}
    setting.logs.mkdir(parents=True, exist_ok=True)
    log = setting.logs / f"{task.engine.name}-{task.precision.name}-{task.workloads}.log"
    before = _busy()
    with log.open("w+") as errors:
        begin = time.perf_counter()
        lines, status = _talk(
            words,
            json.dumps(asdict(job)),
            errors,
            environment,
            setting.timeout * len(job.workloads),
        )
        elapsed = time.perf_counter() - begin
        errors.seek(0)
        told = errors.read().strip().splitlines()
    share = foreign_share(before, _busy(), elapsed)
    found, failure = read_results(lines, status, told[-1] if told else "no word")
    return [
        {
            "round": task.round,
            "engine": task.engine.name,
            "precision": task.precision.name,
            "workload": letter,
            **(found.get(letter) or {"error": failure}),
            "process_s": elapsed,
            "foreign_cpu_share": share,
        }
        for letter in task.workloads
    ]


def read_results(
    lines: list[tuple[float, str]], status: int | None, last_word: str
) -> tuple[dict[str, Record], str]:
    """Figures by workload from a driver's lines, and the reason for those that are missing.

    Args:
        lines: each with the seconds from the start of the process until it came.
        status: the exit status; None where it ran out of time.
        last_word: the last line of the engine's own output.
    """
    found: dict[str, Record] = {}
    failure = f"exit status {status}: {last_word}"
    if status is None:
        failure = f"ran out of time: {last_word}"
    for seconds, line in lines:
        result = json.loads(line)
        if "error" in result:
            failure = result["error"]
            continue
        letter = result.pop("workload")
        if letter == "e":
            result["first_token_s"] = seconds
        found[letter] = result
    return found, failure


def _talk(
    words: list[str], question: str, errors: Any, environment: Mapping[str, str], timeout: float
) -> tuple[list[tuple[float, str]], int | None]:
    """Lines of a process, each with its time, and the exit status; None where it took too long."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _kill(process)

    timer = threading.Timer(timeout, expire)
    timer.start()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        try:
            process.stdin.write(question)
            process.stdin.close()
        except BrokenPipeError:
            pass  # Its exit status and its log say why.
        lines = [(time.perf_counter() - begin, line) for line in process.stdout]
        status = process.wait()
    finally:
        timer.cancel()
        _kill(process)
        process.wait()
    return lines, None if expired.is_set() else status


def _kill(process: subprocess.Popen[str]) -> None:
    """End whatever is left of a process and of those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _busy() -> tuple[float, float]:
    """Processor seconds spent so far: by everything, and by ended children of this process."""
    times, own = psutil.cpu_times(), os.times()
    every = times.user + times.nice + times.system + times.irq + times.softirq
    return every, own.children_user + own.children_system


def foreign_share(before: tuple[float, float], after: tuple[float, float], elapsed: float) -> float:
    """The part of the machine's processor time that others took: above a few percent it was busy.

    Args:
        before: seconds spent by everything, and by our children.
        after: the same, later.
        elapsed: seconds between them.
    """
    every, own = (later - earlier for later, earlier in zip(after, before, strict=True))
    return max(0.0, every - own) / (elapsed * (os.cpu_count() or 1))
