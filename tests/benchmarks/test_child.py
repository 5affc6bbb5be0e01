"""Drivers' lines become records, and what fails is recorded with its reason."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers.child import Setting, foreign_share, job_of, read_results, run_task
from benchmarks.peers.drivers.common import Stream, check, figures_of_stream
from benchmarks.peers.engines import BY_NAME, OURS
from benchmarks.peers.plan import Task
from benchmarks.peers.workloads import WORKLOADS


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, tmp_path / "source.gguf", tmp_path / "logs", threads=2, timeout=60)


def task(workloads, precision="q4_1", **changes):
    engine = replace(BY_NAME[OURS], **changes)
    (own,) = (one for one in engine.precisions if one.name == precision)
    return Task(1, engine, own, workloads)


def test_results_are_kept_by_workload():
    lines = [(1.0, '{"workload": "a", "ttft_s": 0.5}'), (9.5, '{"workload": "e", "ttft_s": 0.1}')]
    found, _ = read_results(lines, 0, "bye")
    assert found == {"a": {"ttft_s": 0.5}, "e": {"ttft_s": 0.1, "first_token_s": 9.5}}


@pytest.mark.parametrize(
    ("lines", "status", "reason"),
    [
        ([(1.0, '{"error": "ValueError: no"}')], 1, "ValueError: no"),
        ([], -11, "exit status -11: last word"),
        ([], None, "ran out of time: last word"),
    ],
)
def test_a_failure_has_its_reason(lines, status, reason):
    assert read_results(lines, status, "last word") == ({}, reason)


def test_what_came_before_a_failure_is_kept():
    lines = [(1.0, '{"workload": "a", "ttft_s": 0.5}'), (2.0, '{"error": "MemoryError: b"}')]
    found, reason = read_results(lines, 1, "")
    assert list(found) == ["a"]
    assert reason == "MemoryError: b"


def test_a_job_has_the_paths_and_the_rounds_prompts(setting):
    job = job_of(task("ab", "float32"), setting)
    assert job.options["model"] == str(setting.weights / "hf-float32")
    assert (job.workloads, job.seed, job.threads) == ("ab", 1, 2)
    assert job_of(task("a"), setting).options == {"model": str(setting.source)}


def test_an_engine_that_fails_is_recorded(setting):
    records = run_task(task("ab"), Path(sys.executable), setting)
    assert [record["workload"] for record in records] == ["a", "b"]
    for record in records:
        assert record["round"] == 1
        assert "no such path" in record["error"]
        assert record["process_s"] > 0
        assert 0 <= record["foreign_cpu_share"] <= 1


def test_a_driver_that_is_not_there_is_recorded(setting):
    (record,) = run_task(task("a", driver="nobody"), Path(sys.executable), setting)
    assert "exit status 1" in record["error"]
    assert "nobody" in record["error"]


def test_a_driver_that_takes_too_long_is_ended(setting):
    (record,) = run_task(task("a"), Path(sys.executable), replace(setting, timeout=0.05))
    assert record["error"].startswith("ran out of time")


@pytest.mark.weights
def test_ours_is_measured_from_the_start_of_its_process(setting, smollm2_path):
    (record,) = run_task(task("e"), Path(sys.executable), replace(setting, source=smollm2_path))
    assert "error" not in record, record
    assert 0 < record["ttft_s"] < record["first_token_s"] <= record["process_s"]
    assert record["peak_rss_bytes"] > 90e6
    assert len(record["tokens"]) == 1


def test_foreign_work_is_what_is_not_ours():
    cores = os.cpu_count()
    assert foreign_share((100.0, 10.0), (100.0 + cores, 10.0 + cores / 4), 1.0) == 0.75
    assert foreign_share((100.0, 10.0), (101.0, 11.5), 1.0) == 0.0


def test_figures_of_a_stream():
    found = figures_of_stream(Stream(0.5, 12.7, list(range(128))), WORKLOADS["a"])
    assert found["ttft_s"] == 0.5
    assert found["decode_tok_s"] == pytest.approx(10.0)
    assert found["prefill_tok_s"] == 256.0
    assert found["tokens"] == list(range(16))
    assert "decode_tok_s" not in figures_of_stream(Stream(0.5, 0.0, [1]), WORKLOADS["e"])


def test_outputs_of_another_length_are_refused():
    check([128] * 32, WORKLOADS["b"])
    for counts in ([128] * 31, [128] * 31 + [127]):
        with pytest.raises(RuntimeError, match="workload b: outputs of"):
            check(counts, WORKLOADS["b"])
