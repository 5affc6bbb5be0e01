"""Figures from hand-made times."""

import numpy as np
import pytest

from runtime.core.entrypoints.bench.metrics import (
    Metric,
    RequestRecord,
    distribution,
    parse_metrics,
    parse_percentiles,
    percentile,
    summarise,
)
from runtime.core.errors import ConfigError


def record(sent, arrivals, finished, tokens, prompt=10, error=None):
    return RequestRecord(sent, prompt, list(arrivals), finished, tokens, "", error)


def test_the_metrics_of_a_request():
    one = record(10.0, [10.5, 10.6, 10.9], 11.0, 3)
    assert one.samples(Metric.TTFT) == pytest.approx([0.5])
    assert one.samples(Metric.TPOT) == pytest.approx([0.2])
    assert one.samples(Metric.ITL) == pytest.approx([0.1, 0.3])
    assert one.samples(Metric.E2EL) == pytest.approx([1.0])


def test_a_piece_of_several_tokens_counts_in_the_mean_of_tokens():
    one = record(0.0, [1.0, 2.0], 2.0, 5)
    assert one.samples(Metric.TPOT) == pytest.approx([0.25])
    assert one.samples(Metric.ITL) == pytest.approx([1.0])


def test_one_token_has_no_time_between_tokens():
    one = record(0.0, [1.0], 1.0, 1)
    assert one.samples(Metric.TPOT) == one.samples(Metric.ITL) == []
    assert record(0.0, [], 1.0, 0).samples(Metric.TTFT) == []


@pytest.mark.parametrize("count", [1, 2, 5, 100])
@pytest.mark.parametrize("percent", [0, 1, 50, 90, 99, 99.9, 100])
def test_percentiles_are_those_of_numpy(count, percent):
    values = np.random.default_rng(count).exponential(size=count)
    assert percentile(values.tolist(), percent) == pytest.approx(np.percentile(values, percent))


def test_a_distribution_by_hand():
    assert distribution([0.001, 0.002, 0.003, 0.006], [75, 99.9], "ttft") == pytest.approx(
        {
            "mean_ttft_ms": 3.0,
            "median_ttft_ms": 2.5,
            "std_ttft_ms": 3.5**0.5,
            "p75_ttft_ms": 3.75,
            "p99.9_ttft_ms": 5.991,
        }
    )
    assert distribution([], [99], "ttft") == {}


def test_a_summary_by_hand():
    records = [
        record(0.0, [0.1, 0.2, 0.3], 0.3, 3, prompt=7),
        record(0.0, [9.0], 9.0, 1, prompt=100, error="HTTP 500: no"),
        record(1.0, [1.3, 1.5, 1.7, 1.9], 2.0, 4, prompt=9),
        record(1.0, [], 9.0, 0, error="later"),
    ]
    result = summarise(records, 2.0, [Metric.TTFT, Metric.ITL], [100.0])
    expected = {
        "duration_s": 2.0,
        "completed": 2,
        "failed": 2,
        "total_input_tokens": 16,
        "total_output_tokens": 7,
        "request_throughput": 1.0,
        "output_throughput": 3.5,
        "total_token_throughput": 11.5,
        "mean_ttft_ms": 200.0,
        "median_ttft_ms": 200.0,
        "std_ttft_ms": 100.0,
        "p100_ttft_ms": 300.0,
        "mean_itl_ms": 160.0,
        "median_itl_ms": 200.0,
        "p100_itl_ms": 200.0,
    }
    assert result.pop("first_error") == "HTTP 500: no"
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert set(result) - set(expected) == {"std_itl_ms"}


def test_lists_on_the_command_line():
    assert parse_metrics(" ttft, e2el,") == [Metric.TTFT, Metric.E2EL]
    assert parse_percentiles("50, 99.9") == [50.0, 99.9]
    with pytest.raises(ConfigError, match="percentile_metrics='ttft,x'.*known: ttft, tpot, itl"):
        parse_metrics("ttft,x")
    for text in ("a", "101", "-1", "nan"):
        with pytest.raises(ConfigError, match=f"metric_percentiles='{text}'"):
            parse_percentiles(text)
