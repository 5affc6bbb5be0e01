"""Results as a picture. Needs matplotlib.

Usage: ``python -m benchmarks.peers.plot RESULTS.json PICTURE.svg``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from benchmarks.peers.engines import OURS
from benchmarks.peers.report import name, number
from benchmarks.peers.results import Median, load, medians
from benchmarks.peers.workloads import FIGURES, WORKLOADS, Figure

_COLUMNS = 2
_OURS, _PEERS = "#c2410c", "#94a3b8"


def draw(document: dict[str, Any], target: Path) -> None:
    """One panel a figure, one bar an engine with its weights, the range across its end."""
    panels = [(figure, medians(document["records"], figure)) for figure in FIGURES]
    panels = [(figure, found) for figure, found in panels if found]
    rows = -(-len(panels) // _COLUMNS)
    most = max(len(found) for _, found in panels)
    mpl.rcParams.update({"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 8})
    picture = Picture(figsize=(5.2 * _COLUMNS, rows * (0.9 + 0.2 * most)), layout="constrained")
    axes = picture.subplots(rows, _COLUMNS, squeeze=False).flat
    for axis, (figure, found) in zip(axes, panels, strict=False):
        bars(axis, figure, found)
    for axis in list(axes)[len(panels) :]:
        axis.set_axis_off()
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(target, metadata={"Date": None})


def bars(axis: Axes, figure: Figure, found: Sequence[Median]) -> None:
    """One panel, the best on top."""
    ordered = sorted(found, key=lambda median: median.value, reverse=not figure.higher_is_better)
    values = [median.value for median in ordered]
    spread = [
        [median.value - median.lowest for median in ordered],
        [median.highest - median.value for median in ordered],
    ]
    drawn = axis.barh(
        [name(median.engine, median.precision) for median in ordered],
        values,
        xerr=spread,
        color=[_OURS if median.engine == OURS else _PEERS for median in ordered],
        error_kw={"linewidth": 0.8},
    )
    axis.bar_label(drawn, [number(value) for value in values], padding=3)
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)
    better = "more" if figure.higher_is_better else "less"
    title = WORKLOADS[figure.workload].title
    axis.set_title(f"({figure.workload}) {title}\n{figure.title}; {better} is better", fontsize=8)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(load(Path(sys.argv[1])), Path(sys.argv[2]))
