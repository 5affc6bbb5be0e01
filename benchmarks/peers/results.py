"""The results file, and the figures that come of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.engines import BY_NAME, OURS
from benchmarks.peers.plan import Key
from benchmarks.peers.workloads import Figure

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Median:
    """One figure of one precision of an engine, in the unit that is shown."""

    engine: str
    precision: str
    group: str
    value: float
    lowest: float
    highest: float
    rounds: int


@dataclass(frozen=True)
class Comparison:
    """Our best of a group beside the best peer's."""

    group: str
    ours: Median
    peer: Median
    ratio: float
    """How many times as good ours is: above 1 ours is better, whichever way the figure runs."""


def key_of(record: Record) -> Key:
    """What a record is of."""
    return record["round"], record["engine"], record["precision"], record["workload"]


def load(path: Path) -> dict[str, Any]:
    """A results file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def save(path: Path, document: Mapping[str, Any]) -> None:
    """Write a results file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def medians(records: Iterable[Record], figure: Figure) -> list[Median]:
    """Medians over the rounds, in the order of the records; failed ones have none."""
    values: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record["workload"] == figure.workload and figure.key in record:
            name = record["engine"], record["precision"]
            values.setdefault(name, []).append(record[figure.key] * figure.scale)
    return [
        Median(
            engine,
            precision,
            _group(engine, precision),
            statistics.median(found),
            min(found),
            max(found),
            len(found),
        )
        for (engine, precision), found in values.items()
    ]


def compare(found: Sequence[Median], figure: Figure) -> list[Comparison]:
    """Ours beside the best peer's: in each group that has both, and last among all."""
    groups = list(dict.fromkeys(median.group for median in found))
    rows = []
    for group in [*groups, "any"]:
        inside = [median for median in found if group in (median.group, "any")]
        ours = [median for median in inside if median.engine == OURS]
        peers = [median for median in inside if median.engine != OURS]
        if ours and peers:
            pick = max if figure.higher_is_better else min
            own, peer = (pick(side, key=lambda median: median.value) for side in (ours, peers))
            ratio = own.value / peer.value if figure.higher_is_better else peer.value / own.value
            rows.append(Comparison(group, own, peer, ratio))
    return rows


def failures(records: Iterable[Record]) -> list[Record]:
    """Records of what did not run."""
    return [record for record in records if "error" in record]


def _group(engine: str, precision: str) -> str:
    (group,) = (it.group for it in BY_NAME[engine].precisions if it.name == precision)
    return group
