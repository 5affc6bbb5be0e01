"""Prometheus series of one server, with the names that vLLM's dashboards know.

One registry a server, and nothing in the library's global one: two servers in one process do not
meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from runtime.core.engine.request import FinishReason
from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import EngineStats

PREFIX = "vllm:"
_LABELS = ("model_name", "engine")
_ENGINE = "0"
"""There is one."""


def one_two_five(low: float, high: float) -> tuple[float, ...]:
    """Bounds 1, 2, 5, 10, 20, … times ``low`` up to ``high``."""
    bounds: list[float] = []
    scale = low
    while scale <= high * (1 + 1e-9):
        bounds += [float(f"{scale * step:.6g}") for step in (1, 2, 5) if scale * step <= high]
        scale *= 10
    return tuple(bounds)


SECONDS = one_two_five(0.001, 2000)
TOKEN_SECONDS = one_two_five(0.0005, 50)

HISTOGRAMS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("From a request's arrival to its first token", SECONDS),
    "inter_token_latency_seconds": ("From one token to the next", TOKEN_SECONDS),
    "request_time_per_output_token_seconds": (
        "Mean time from one token to the next of a request",
        TOKEN_SECONDS,
    ),
    "e2e_request_latency_seconds": ("From a request's arrival to its end", SECONDS),
    "request_queue_time_seconds": ("From a request's arrival to its first step", SECONDS),
    "request_prefill_time_seconds": ("From a request's first step to its first token", SECONDS),
    "request_decode_time_seconds": ("From a request's first token to its last", SECONDS),
    "request_inference_time_seconds": ("From a request's first step to its last token", SECONDS),
}
"""Help and bounds of the times."""

COUNTS: Mapping[str, str] = {
    "request_prompt_tokens": "Tokens of a request's prompt",
    "request_generation_tokens": "Tokens that a request generated",
    "request_params_n": "Outputs that a request asked for",
    "request_params_max_tokens": "Tokens that a request may generate",
    "iteration_tokens_total": "Tokens of prompts and outputs that one step gave",
}
"""Help of the sizes, whose bounds depend on the model."""


class Metrics:
    """Counts what an engine does: a ``StatLogger``, and what ``/metrics`` shows of it.

    Args:
        model_name: the label ``model_name`` of every series.
        max_model_len: most tokens of a request, which bounds the histograms of sizes.
    """

    def __init__(self, model_name: str, max_model_len: int) -> None:
        self.registry = CollectorRegistry()
        values = (model_name, _ENGINE)
        sizes = one_two_five(1, max(max_model_len, 1))
        bounds = {name: (text, sizes) for name, text in COUNTS.items()}
        self._histograms = {
            name: Histogram(
                PREFIX + name, text, _LABELS, buckets=steps, registry=self.registry
            ).labels(*values)
            for name, (text, steps) in {**HISTOGRAMS, **bounds}.items()
        }
        self._prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts", values)
        self._generation_tokens = self._counter(
            "generation_tokens", "Tokens that were generated", values
        )
        success = Counter(
            f"{PREFIX}request_success",
            "Outputs that ended, by why",
            (*_LABELS, "finished_reason"),
            registry=self.registry,
        )
        # Every reason has its series from the beginning: rates need a first value.
        self._finished = {reason: success.labels(*values, reason.value) for reason in FinishReason}
        self._engine = _EngineCollector(values)
        self.registry.register(self._engine)
        ProcessCollector(registry=self.registry)
        self._step_tokens = 0

    def record_step(self, stats: EngineStats) -> None:
        """A step is done."""
        self._engine.stats = stats
        if self._step_tokens:
            self._histograms["iteration_tokens_total"].observe(self._step_tokens)
            self._step_tokens = 0

    def record_prompt(self, num_tokens: int, time_to_first_token: float) -> None:
        """A prompt was computed; seconds since the request arrived."""
        self._prompt_tokens.inc(num_tokens)
        self._step_tokens += num_tokens
        self._histograms["time_to_first_token_seconds"].observe(time_to_first_token)

    def record_tokens(self, count: int, inter_token_seconds: Sequence[float]) -> None:
        """Tokens were generated."""
        self._generation_tokens.inc(count)
        self._step_tokens += count
        for seconds in inter_token_seconds:
            self._histograms["inter_token_latency_seconds"].observe(seconds)

    def record_finished(self, request: FinishedRequest) -> None:
        """A request has ended, for whatever reason."""
        for reason in request.finish_reasons:
            self._finished[FinishReason(reason)].inc()
        self._observe("request_prompt_tokens", request.num_prompt_tokens)
        self._observe("request_generation_tokens", request.num_generation_tokens)
        self._observe("request_params_n", request.n)
        self._observe("request_params_max_tokens", request.max_tokens)
        self._observe("e2e_request_latency_seconds", request.e2e_seconds)
        self._observe("request_queue_time_seconds", request.queue_seconds)
        self._observe("request_prefill_time_seconds", request.prefill_seconds)
        decode = request.decode_seconds
        self._observe("request_decode_time_seconds", decode)
        if request.prefill_seconds is not None and decode is not None:
            self._observe("request_inference_time_seconds", request.prefill_seconds + decode)
        # Outputs of one request are generated side by side.
        gaps = request.num_generation_tokens / request.n - 1
        if decode is not None and gaps > 0:
            self._observe("request_time_per_output_token_seconds", decode / gaps)

    async def expose(self, accept: str) -> tuple[bytes, str]:
        """The series as text, and its content type, in the format that a scraper accepts."""
        return self.text(accept)

    def text(self, accept: str) -> tuple[bytes, str]:
        """The same, at once."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _observe(self, name: str, value: float | None) -> None:
        if value is not None:
            self._histograms[name].observe(value)

    def _counter(self, name: str, text: str, values: Sequence[str]) -> Counter:
        return Counter(PREFIX + name, text, _LABELS, registry=self.registry).labels(*values)


class _EngineCollector(Collector):
    """The engine's own gauges and counters, as its last step told them."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values
        self.stats = EngineStats()

    def collect(self) -> Iterator[Metric]:
        """The series now."""
        stats = self.stats
        gauges = (
            ("num_requests_running", "Requests that run", stats.num_running),
            ("num_requests_waiting", "Requests that wait to run", stats.num_waiting),
            ("kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1", stats.kv_cache_usage),
        )
        counters = (
            ("prefix_cache_queries", "Prompt tokens looked up", stats.prefix_cache_queries),
            ("prefix_cache_hits", "Prompt tokens found in the KV cache", stats.prefix_cache_hits),
            ("num_preemptions", "Requests that gave their KV blocks up", stats.num_preemptions),
        )
        for name, text, value in gauges:
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=_LABELS)
            gauge.add_metric(self._values, value)
            yield gauge
        for name, text, value in counters:
            counter = CounterMetricFamily(PREFIX + name, text, labels=_LABELS)
            counter.add_metric(self._values, value)
            yield counter
