"""What is measured in which order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.engines import Engine, Precision
from benchmarks.peers.workloads import WORKLOADS

Key = tuple[int, str, str, str]
"""Round, engine, precision and workload: what a record is of."""


@dataclass(frozen=True)
class Task:
    """One process."""

    round: int
    engine: Engine
    precision: Precision
    workloads: str
    """Letters."""

    def record_keys(self) -> list[Key]:
        """Of the records that it gives."""
        return [
            (self.round, self.engine.name, self.precision.name, letter) for letter in self.workloads
        ]


def letters(
    engine: Engine, precision: Precision, wanted: Collection[str], *, everything: bool
) -> str:
    """Workloads to measure of a precision of an engine, as letters in order."""
    planned = engine.workloads if everything else precision.plan
    return "".join(letter for letter in WORKLOADS if letter in planned and letter in wanted)


def tasks(
    engines: Sequence[Engine],
    *,
    rounds: int,
    wanted: Collection[str],
    precisions: Collection[str] | None = None,
    everything: bool = False,
    done: Collection[Key] = (),
) -> Iterator[Task]:
    """Processes in order: in each round one workload after the other, in each all engines in turn.

    The engine that begins changes from round to round, so that none is always the first after
    another workload. An engine that does its workloads together does so where the first of them is.

    Args:
        engines: which.
        rounds: how often everything is measured.
        wanted: letters of workloads.
        precisions: names of those to measure; None: all.
        everything: also what the plan leaves out.
        done: records that there are already.
    """
    for number in range(rounds):
        shift = number % len(engines) if engines else 0
        turn = [*engines[shift:], *engines[:shift]]
        begun = set()
        for letter in WORKLOADS:
            for engine, precision in _interleaved(turn):
                if precisions is not None and precision.name not in precisions:
                    continue
                todo = letters(engine, precision, wanted, everything=everything)
                if letter not in todo:
                    continue
                own = letter
                if engine.together and letter != "e":
                    if (engine.name, precision.name) in begun:
                        continue
                    begun.add((engine.name, precision.name))
                    own = todo.replace("e", "")
                left = "".join(
                    it for it in own if (number, engine.name, precision.name, it) not in done
                )
                if left:
                    yield Task(number, engine, precision, left)


def _interleaved(engines: Sequence[Engine]) -> Iterator[tuple[Engine, Precision]]:
    """Every engine's first precision, then every engine's second, and so on."""
    most = max((len(engine.precisions) for engine in engines), default=0)
    for index in range(most):
        for engine in engines:
            if index < len(engine.precisions):
                yield engine, engine.precisions[index]
