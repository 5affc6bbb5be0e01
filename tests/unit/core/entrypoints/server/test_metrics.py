"""The series of ``/metrics`` and the line in the log: what they count, and what they are called."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import EngineStats
from runtime.core.entrypoints.server import stats_line
from runtime.core.entrypoints.server.metrics import Metrics, one_two_five
from runtime.core.entrypoints.server.stats_line import StatsLine, log_interval
from runtime.core.errors import ConfigError

NAMES = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total"),
    *("prompt_tokens_total", "generation_tokens_total", "request_success_total"),
    *("time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket"),
    *("e2e_request_latency_seconds_bucket", "request_queue_time_seconds_bucket"),
    *("request_prefill_time_seconds_bucket", "request_decode_time_seconds_bucket"),
    *("request_prompt_tokens_bucket", "request_generation_tokens_bucket"),
)
LABELS = {"model_name": "m", "engine": "0"}
FINISHED = FinishedRequest(
    finish_reasons=("stop", "length"),
    num_prompt_tokens=3,
    num_generation_tokens=12,
    e2e_seconds=2.0,
    queue_seconds=0.25,
    prefill_seconds=0.5,
    decode_seconds=1.0,
    max_tokens=10,
    n=2,
)


def samples(metrics, accept="text/plain"):
    """Every sample, by name and labels; none is there twice."""
    text, _ = metrics.text(accept)
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


@pytest.fixture
def metrics():
    return Metrics("m", 2048)


@pytest.fixture
def value(metrics):
    """``value(name, **labels)``: a sample without its prefix."""

    def of(name, **labels):
        return samples(metrics)[f"vllm:{name}", frozenset({**LABELS, **labels}.items())]

    return of


def test_every_series_is_there_before_the_first_request(metrics):
    names = {name for name, _ in samples(metrics)}
    assert {f"vllm:{name}" for name in NAMES} <= names
    reasons = [dict(labels).get("finished_reason") for _, labels in samples(metrics)]
    assert {"stop", "length", "abort", "error"} <= set(reasons)


def test_each_series_has_the_labels_that_dashboards_select_by(metrics):
    for name, labels in samples(metrics):
        if name.startswith("vllm:"):
            assert dict(labels).items() >= LABELS.items(), name


def test_two_servers_in_one_process_do_not_meet(metrics):
    other = Metrics("m", 2048)
    other.record_tokens(5, ())
    assert samples(metrics)["vllm:generation_tokens_total", frozenset(LABELS.items())] == 0


def test_tokens_are_counted_once_each(metrics, value):
    metrics.record_prompt(7, 0.03)
    metrics.record_tokens(1, ())
    metrics.record_step(EngineStats())
    metrics.record_tokens(2, (0.5,))
    metrics.record_step(EngineStats())
    metrics.record_step(EngineStats())
    assert value("prompt_tokens_total") == 7
    assert value("generation_tokens_total") == 3
    assert value("time_to_first_token_seconds_count") == 1
    assert value("time_to_first_token_seconds_sum") == 0.03
    assert value("inter_token_latency_seconds_sum") == 0.5
    assert value("iteration_tokens_total_count") == 2
    assert value("iteration_tokens_total_sum") == 10


def test_the_engine_counts_for_itself(metrics, value):
    metrics.record_step(EngineStats(3, 2, 0.25, 100, 60, 4))
    metrics.record_step(EngineStats(1, 0, 0.5, 110, 64, 5))
    assert value("num_requests_running") == 1
    assert value("num_requests_waiting") == 0
    assert value("kv_cache_usage_perc") == 0.5
    assert value("prefix_cache_queries_total") == 110
    assert value("prefix_cache_hits_total") == 64
    assert value("num_preemptions_total") == 5


def test_an_end_is_counted_for_each_output_and_timed_once(metrics, value):
    metrics.record_finished(FINISHED)
    assert value("request_success_total", finished_reason="stop") == 1
    assert value("request_success_total", finished_reason="length") == 1
    assert value("request_success_total", finished_reason="abort") == 0
    assert value("e2e_request_latency_seconds_sum") == 2.0
    assert value("request_queue_time_seconds_sum") == 0.25
    assert value("request_prefill_time_seconds_sum") == 0.5
    assert value("request_decode_time_seconds_sum") == 1.0
    assert value("request_inference_time_seconds_sum") == 1.5
    assert value("request_prompt_tokens_sum") == 3
    assert value("request_generation_tokens_sum") == 12
    assert value("request_time_per_output_token_seconds_sum") == 0.2
    assert value("request_prompt_tokens_bucket", le="2.0") == 0
    assert value("request_prompt_tokens_bucket", le="5.0") == 1


def test_a_request_that_never_ran_has_no_times(metrics, value):
    metrics.record_finished(FinishedRequest(("abort",), 3, 0, 0.1, None, None, None, None, 1))
    assert value("request_success_total", finished_reason="abort") == 1
    assert value("request_queue_time_seconds_count") == 0
    assert value("request_decode_time_seconds_count") == 0
    assert value("request_params_max_tokens_count") == 0


def test_a_scraper_gets_the_format_that_it_accepts(metrics):
    assert metrics.text("")[1].startswith("text/plain")
    text, kind = metrics.text("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_bounds():
    assert one_two_five(1, 100) == (1, 2, 5, 10, 20, 50, 100)
    assert one_two_five(0.001, 0.05) == (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
    assert one_two_five(1, 1) == (1,)
    assert one_two_five(1, 257)[-1] == 200


def test_the_line_tells_what_came_since_the_last_one(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stats_line.time, "monotonic", lambda: now[0])
    line = StatsLine()
    line.record_prompt(50, 0.1)
    line.record_tokens(25, ())
    line.record_step(EngineStats(2, 1, 0.125, 40, 10, 0))
    now[0] = 110.0
    assert line.line() == (
        "prompt 5.0 tokens/s, generation 2.5 tokens/s, running 2, waiting 1, "
        "KV cache 12.5% in use, prefix cache 25.0% hits"
    )
    line.record_tokens(1, ())
    line.record_step(EngineStats(0, 0, 0.0, 50, 20, 0))
    now[0] = 112.0
    text = line.line()
    assert text.startswith("prompt 0.0 tokens/s, generation 0.5 tokens/s, running 0")
    assert text.endswith("prefix cache 100.0% hits")
    now[0] = 122.0
    assert line.line() is None


def test_the_interval_is_the_environments():
    assert log_interval({}) == 10
    assert log_interval({"VLLM_LOG_STATS_INTERVAL": "2.5"}) == 2.5
    for text in ("x", "0", "-1", "nan"):
        with pytest.raises(ConfigError, match="VLLM_LOG_STATS_INTERVAL"):
            log_interval({"VLLM_LOG_STATS_INTERVAL": text})


def test_the_dashboard_asks_for_series_that_there_are(metrics):
    path = Path(__file__).parents[5] / "examples" / "grafana" / "runtime.json"
    panels = json.loads(path.read_text())["panels"]
    asked = " ".join(
        target["expr"] for panel in panels for target in panel.get("targets", ())
    ) + json.dumps(json.loads(path.read_text())["templating"])
    names = set(re.findall(r"(?:vllm:|process_)\w+", asked))
    assert len(names) > 20
    assert names <= {name for name, _ in samples(metrics)}
    assert len({panel["id"] for panel in panels}) == len(panels)
