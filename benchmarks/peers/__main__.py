"""``python -m benchmarks.peers``: install the peers, make their weights, measure, report."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers import child, plan, results
from benchmarks.peers.engines import BY_NAME, ENGINES, Engine
from benchmarks.peers.environments import PLOT_REQUIREMENTS, Environments, versions
from benchmarks.peers.report import markdown
from benchmarks.peers.workloads import WORKLOADS
from runtime.core.entrypoints.bench.report import host_facts
from scripts.fetch_smollm2 import fetch

STEPS = ("prepare", "run", "report")
SOURCE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
RESULTS = child.ROOT / "benchmarks" / "results" / "peers-cpu.json"


def main() -> int:
    """Do the steps that are asked for."""
    args = parse(sys.argv[1:])
    # Ended as an interruption does, with the child that runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # Inherited by every child: engines that count the cores by themselves find as many.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    setting = child.Setting(
        weights=args.cache / "peers" / "weights",
        source=args.cache / SOURCE_NAME,
        logs=args.cache / "peers" / "logs",
        threads=args.threads,
        timeout=args.timeout,
    )
    environments = Environments(args.cache / "peers" / "venvs")
    engines = [BY_NAME[name] for name in args.engines]
    if "prepare" in args.steps:
        prepare(engines, environments, setting)
    if "run" in args.steps:
        if args.results.exists() and not args.resume:
            sys.exit(f"{args.results} is there: --resume goes on with it, --results names another")
        run(args, engines, environments, setting)
    if "report" in args.steps:
        report(args, environments)
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("RUNTIME_CACHE") or home / "runtime")
    names = [engine.name for engine in ENGINES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--engines", nargs="+", choices=names, default=names)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--precisions", nargs="+", metavar="NAME", help="Default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--everything", action="store_true", help="Also what the plan leaves out to save time"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument(
        "--resume", action="store_true", help="Measure what the file lacks, and what failed in it"
    )
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", help="Write the report there, too, as peers.svg/.md"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--timeout", type=float, default=600, help="Seconds that a process may take a workload"
    )
    parser.add_argument("--cache", type=Path, default=cache, metavar="FOLDER")
    return parser.parse_args(words)


def prepare(engines: Sequence[Engine], environments: Environments, setting: child.Setting) -> None:
    """Environments and weights, as far as they are missing. What cannot be installed is told."""
    if not setting.source.exists():
        fetch(setting.source)
    # The derived weights are made with transformers, whether or not it is measured.
    maker = BY_NAME["transformers"]
    for engine in [maker, *(engine for engine in engines if engine is not maker)]:
        if engine.requirements:
            try:
                environments.make(engine.name, engine.requirements, engine.unwanted, engine.build)
            except RuntimeError as error:
                print(f"{engine.name}: {error}", file=sys.stderr)
    words = ["-m", "benchmarks.peers.derive", setting.source, setting.weights]
    subprocess.run([environments.python(maker), *words], cwd=child.ROOT, check=True)


def run(
    args: argparse.Namespace,
    engines: Sequence[Engine],
    environments: Environments,
    setting: child.Setting,
) -> None:
    """Measure what is missing; the file is written after every process."""
    document = results.load(args.results) if args.resume and args.results.exists() else None
    if document is None:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
            "threads": args.threads,
            "versions": {},
            "failed_installs": {},
            "ceilings": [],
            "records": [],
        }
    document["records"] = [one for one in document["records"] if "error" not in one]
    installed = record_versions(document, engines, environments)
    todo = list(
        plan.tasks(
            installed,
            rounds=args.rounds,
            wanted=args.workloads,
            precisions=args.precisions,
            everything=args.everything,
            done={results.key_of(one) for one in document["records"]},
        )
    )
    begin, number = time.perf_counter(), None
    for index, task in enumerate(todo):
        if task.round != number:
            number = task.round
            document["ceilings"].append(ceilings(args.threads))
        records = child.run_task(task, environments.python(task.engine), setting)
        document["records"] += records
        results.save(args.results, document)
        seconds = time.perf_counter() - begin
        for record in records:
            print(f"[{index + 1}/{len(todo)}, {seconds:.0f} s] {line(record)}", file=sys.stderr)


def record_versions(
    document: dict[str, Any], engines: Sequence[Engine], environments: Environments
) -> list[Engine]:
    """Note each engine's version; those that are not installed are noted as failed and left out."""
    installed = []
    for engine in engines:
        assert engine.package is not None
        try:
            found = versions(environments.python(engine), [engine.package])
        except (RuntimeError, OSError) as error:
            document["failed_installs"][engine.name] = str(error)
            print(f"{engine.name} is not installed: {error}", file=sys.stderr)
            continue
        document["failed_installs"].pop(engine.name, None)
        document["versions"][engine.name] = found[engine.package]
        installed.append(engine)
    return installed


def ceilings(threads: int) -> dict[str, float]:
    """What the machine can do now."""
    words = [sys.executable, "-m", "benchmarks.peers.ceilings", str(threads)]
    done = subprocess.run(words, cwd=child.ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def line(record: results.Record) -> str:
    """One record in short."""
    keys = ("decode_tok_s", "ttft_s", "output_tok_s", "prefill_tok_s", "wall_s", "first_token_s")
    figures = [f"{key} {record[key]:.3g}" for key in keys if key in record]
    told = record.get("error") or ", ".join(figures)
    where = f"({record['workload']}) {record['engine']} {record['precision']}"
    return f"{where}: {told}; others took {100 * record['foreign_cpu_share']:.0f} %"


def report(args: argparse.Namespace, environments: Environments) -> None:
    """Tables and a picture beside the results, and in the documentation if asked."""
    text = markdown(results.load(args.results))
    python = environments.make("plot", PLOT_REQUIREMENTS)
    targets = [args.results.with_suffix("")]
    if args.docs is not None:
        targets.append(args.docs / "peers-results")
    for target in targets:
        picture = target.with_suffix(".svg")
        words = ["-m", "benchmarks.peers.plot", args.results.resolve(), picture.resolve()]
        subprocess.run([python, *words], cwd=child.ROOT, check=True)
        head, _, rest = text.partition("\n## ")
        target.with_suffix(".md").write_text(f"{head}\n![All figures]({picture.name})\n\n## {rest}")


if __name__ == "__main__":
    sys.exit(main())
