"""What the drivers share: a job comes in as JSON, each engine does it, figures go out as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.workloads import WORKLOADS, Workload

_WARM_UP = Workload("warm-up", "", 1, 0, 128, 4)
_SEED_OF_WARM_UP = -1
_CHECKED_TOKENS = 16


@dataclass(frozen=True)
class Job:
    """What one process is asked to do."""

    engine: str
    workloads: str
    """Letters."""
    options: dict[str, str]
    threads: int
    seed: int
    """Of the prompts."""


@dataclass(frozen=True)
class Stream:
    """One request, timed."""

    ttft_s: float
    """From sending it to its first token."""
    decode_s: float
    """From its first token to its last."""
    tokens: list[int]


class Driver(Protocol):
    """An engine with its model loaded."""

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One request alone."""

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """Requests all at once; the number of tokens that each got."""

    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """Requests that have their first tokens in common, in the way the engine does best."""


def serve(load: Callable[[Job], Driver]) -> None:
    """Do the job that standard input holds; one line of JSON for each result on standard output.

    What the engine prints goes to standard error.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1) as results:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        job = Job(**json.load(sys.stdin))
        try:
            driver = load(job)
            if job.workloads != "e":
                prompt = _WARM_UP.prompts(_SEED_OF_WARM_UP)[0]
                driver.stream(prompt, _WARM_UP.output)
            for letter in job.workloads:
                found = measure(driver, WORKLOADS[letter], job.seed)
                found["peak_rss_bytes"] = peak_rss()
                print(json.dumps({"workload": letter, **found}), file=results)
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())
            print(json.dumps({"error": told}), file=results)
            raise


def measure(driver: Driver, workload: Workload, seed: int) -> dict[str, Any]:
    """The figures of a workload."""
    prompts = workload.prompts(seed)
    if workload.requests == 1:
        stream = driver.stream(prompts[0], workload.output)
        check([len(stream.tokens)], workload)
        return figures_of_stream(stream, workload)
    if workload.shared:
        rest = [prompt[:16] for prompt in workload.prompts(_SEED_OF_WARM_UP)]
        driver.shared(rest, 8, 2)
        start = time.perf_counter()
        counts = driver.shared(prompts, workload.shared, workload.output)
    else:
        driver.batch([prompt[:16] for prompt in workload.prompts(_SEED_OF_WARM_UP)], 2)
        start = time.perf_counter()
        counts = driver.batch(prompts, workload.output)
    wall = time.perf_counter() - start
    check(counts, workload)
    return {"wall_s": wall, "output_tok_s": sum(counts) / wall}


def figures_of_stream(stream: Stream, workload: Workload) -> dict[str, Any]:
    """Of one request alone."""
    found: dict[str, Any] = {
        "ttft_s": stream.ttft_s,
        "prefill_tok_s": (workload.shared + workload.own) / stream.ttft_s,
        "tokens": stream.tokens[:_CHECKED_TOKENS],
    }
    if workload.output > 1:
        found["decode_tok_s"] = (workload.output - 1) / stream.decode_s
    return found


def check(counts: Sequence[int], workload: Workload) -> None:
    """RuntimeError where an output has another length: its time would say nothing."""
    if list(counts) != [workload.output] * workload.requests:
        raise RuntimeError(
            f"workload {workload.letter}: outputs of {sorted(set(counts))} tokens in "
            f"{len(counts)} requests, not of {workload.output} in {workload.requests}"
        )


def peak_rss() -> int:
    """Most bytes that this process had in memory, since it is what it is.

    Not getrusage's, which begins with what the parent had.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("/proc/self/status has no VmHWM")
