"""Medians, comparisons and tables from hand-made records."""

import json

import pytest

from benchmarks.peers import results
from benchmarks.peers.report import markdown, number, table
from benchmarks.peers.results import compare, failures, medians
from benchmarks.peers.workloads import FIGURES

DECODE = next(figure for figure in FIGURES if figure.key == "decode_tok_s")
TTFT = next(figure for figure in FIGURES if figure.key == "ttft_s")


def record(number, engine, precision, workload="a", **fields):
    return {
        "round": number,
        "engine": engine,
        "precision": precision,
        "workload": workload,
        "foreign_cpu_share": 0.01 * number,
        **fields,
    }


@pytest.fixture
def records():
    speeds = {
        ("runtime", "float32"): (30.0, 10.0, 20.0),
        ("llama.cpp", "float32"): (16.0, 15.0, 90.0),
        ("transformers", "float32"): (8.0, 9.0, 7.0),
        ("runtime", "q8_0"): (60.0, 50.0),
        ("openvino", "q8_0"): (80.0, 70.0, 100.0),
    }
    found = [
        record(index, *name, decode_tok_s=speed, ttft_s=1 / speed)
        for name, values in speeds.items()
        for index, speed in enumerate(values)
    ]
    found.append(record(2, "runtime", "q8_0", error="RuntimeError: a | b"))
    found.append(record(0, "runtime", "float32", "b", output_tok_s=1.0))
    return found


def test_medians_are_over_the_rounds_that_ran(records):
    found = {(one.engine, one.precision): one for one in medians(records, DECODE)}
    ours = found["runtime", "float32"]
    assert (ours.value, ours.lowest, ours.highest, ours.rounds) == (20.0, 10.0, 30.0, 3)
    assert (ours.group, found["openvino", "q8_0"].group) == ("float32", "8-bit")
    assert (found["runtime", "q8_0"].value, found["runtime", "q8_0"].rounds) == (55.0, 2)
    assert found["llama.cpp", "float32"].value == 16.0


def test_medians_are_in_the_unit_that_is_shown(records):
    found = {(one.engine, one.precision): one for one in medians(records, TTFT)}
    assert found["runtime", "float32"].value == pytest.approx(50.0)


def test_ours_is_beside_the_best_peer_of_each_group_and_of_all(records):
    rows = {row.group: row for row in compare(medians(records, DECODE), DECODE)}
    assert list(rows) == ["float32", "8-bit", "any"]
    assert rows["float32"].peer.engine == "llama.cpp"
    assert rows["float32"].ratio == pytest.approx(20 / 16)
    assert rows["8-bit"].ratio == pytest.approx(55 / 80)
    assert (rows["any"].ours.precision, rows["any"].peer.engine) == ("q8_0", "openvino")


def test_a_ratio_above_one_is_better_where_less_is_better(records):
    rows = {row.group: row for row in compare(medians(records, TTFT), TTFT)}
    assert rows["float32"].ratio == pytest.approx(20 / 16)
    assert rows["8-bit"].ratio < 1


def test_a_group_without_a_peer_is_not_compared(records):
    ours = [one for one in records if one["engine"] == "runtime"]
    assert compare(medians(ours, DECODE), DECODE) == []


def test_a_table_has_the_best_first(records):
    lines = table(medians(records, DECODE), DECODE).splitlines()
    assert lines[0] == "| engine | decode, tok/s | range | rounds |"
    assert lines[2] == "| OpenVINO GenAI q8_0 | 80.0 | 70.0 – 100 | 3 |"
    assert lines[-1].startswith("| transformers float32 | 8.00 |")
    best = table(medians(records, TTFT), TTFT).splitlines()[2]
    assert best.startswith("| OpenVINO GenAI q8_0 | 12.5 |")


def test_the_report_has_every_figure_and_what_did_not_run(records):
    document = {
        "date": "2026-12-01T10:00:00+00:00",
        "host": {"processor": "A processor"},
        "threads": 2,
        "versions": {"runtime": "0.1.0", "llama.cpp": "0.3.36"},
        "failed_installs": {"vllm": "No module named 'vllm'"},
        "ceilings": [
            {"read_bytes_s": 1.55e10, "gemm_float32_flop_s": 1.2e11, "gemm_bfloat16_flop_s": 3e10}
        ],
        "records": records,
    }
    text = markdown(document)
    assert "A processor, 2 threads. It reads 15.5 GB/s\nand multiplies" in text
    assert "runtime 0.1.0, llama.cpp 0.3.36." in text
    assert (
        "| (a) | decode, tok/s | float32 | 20.0 (float32) | 16.0 (llama.cpp float32) | 1.25 |"
        in text
    )
    assert "## (b) 32 requests at once" in text
    assert "| 3 | runtime q8_0 | a | RuntimeError: a \\| b |" in text
    assert "| - | vLLM (CPU) | - | not installed: No module named 'vllm' |" in text
    assert [one["round"] for one in failures(records)] == [2]


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (100, "100"), (99.94, "99.9"), (9.876, "9.88")]
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_results_file_is_read_as_it_was_written(tmp_path, records):
    path = tmp_path / "new" / "results.json"
    results.save(path, {"records": records})
    assert results.load(path)["records"] == records
    assert json.loads(path.read_text()) == {"records": records}
    assert [one.name for one in path.parent.iterdir()] == ["results.json"]
    assert results.key_of(records[0]) == (0, "runtime", "float32", "a")
