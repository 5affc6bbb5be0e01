"""From the times of single requests to the figures of a benchmark.

The names are the field's: TTFT is the time to the first token, TPOT the mean time of each further
token of a request, ITL the time between two pieces of a stream, E2EL the whole request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from runtime.core.errors import ConfigError


class Metric(StrEnum):
    """What percentiles are told of."""

    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    E2EL = "e2el"


TITLES: Mapping[Metric, str] = {
    Metric.TTFT: "Time to first token",
    Metric.TPOT: "Time per output token (after the first)",
    Metric.ITL: "Inter-token latency",
    Metric.E2EL: "End-to-end latency",
}


@dataclass
class RequestRecord:
    """What became of one request. Times are in seconds, on a clock that only goes forward."""

    sent: float
    """When it was sent."""
    prompt_tokens: int
    arrivals: list[float] = field(default_factory=list)
    """When each piece of output came."""
    finished: float = 0.0
    """When the stream ended."""
    output_tokens: int = 0
    text: str = ""
    error: str | None = None
    """Why it failed; None where it did not."""

    def samples(self, metric: Metric) -> list[float]:
        """The request's own values of a metric; none where it has no such thing."""
        if not self.arrivals:
            return []
        match metric:
            case Metric.TTFT:
                return [self.arrivals[0] - self.sent]
            case Metric.TPOT:
                if self.output_tokens < 2:
                    return []
                return [(self.arrivals[-1] - self.arrivals[0]) / (self.output_tokens - 1)]
            case Metric.ITL:
                pairs = zip(self.arrivals[1:], self.arrivals, strict=False)
                return [later - earlier for later, earlier in pairs]
            case Metric.E2EL:
                return [self.finished - self.sent]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of the values lie, between neighbours by proportion.

    Definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), numpy's
    default.
    """
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def distribution(
    values: Sequence[float], percents: Iterable[float], prefix: str
) -> dict[str, float]:
    """Mean, median, standard deviation and percentiles in milliseconds, of values in seconds.

    Keys are ``mean_ttft_ms``, ``p99_ttft_ms`` and so on; none where there are no values.
    """
    if not values:
        return {}
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    rows = {"mean": mean, "median": percentile(values, 50), "std": spread}
    rows |= {f"p{percent:g}": percentile(values, percent) for percent in percents}
    return {f"{name}_{prefix}_ms": 1000 * value for name, value in rows.items()}


def summarise(
    records: Sequence[RequestRecord],
    duration: float,
    metrics: Iterable[Metric],
    percents: Sequence[float],
) -> dict[str, float | int | str | None]:
    """The figures of a run of ``duration`` seconds; requests that failed count as failed only."""
    good = [record for record in records if record.error is None]
    failed = [record for record in records if record.error is not None]
    inputs = sum(record.prompt_tokens for record in good)
    outputs = sum(record.output_tokens for record in good)
    result: dict[str, float | int | str | None] = {
        "duration_s": duration,
        "completed": len(good),
        "failed": len(failed),
        "first_error": failed[0].error if failed else None,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(good) / duration,
        "output_throughput": outputs / duration,
        "total_token_throughput": (inputs + outputs) / duration,
    }
    for metric in metrics:
        values = [value for record in good for value in record.samples(metric)]
        result |= distribution(values, percents, metric.value)
    return result


def parse_metrics(text: str) -> list[Metric]:
    """Metrics from a comma-separated list. ConfigError where one is unknown."""
    known = ", ".join(Metric)
    try:
        return [Metric(word.strip()) for word in text.split(",") if word.strip()]
    except ValueError as error:
        raise ConfigError(f"percentile_metrics={text!r}: {error}; known: {known}") from error


def parse_percentiles(text: str) -> list[float]:
    """Percentiles from a comma-separated list. ConfigError where one is no number in [0, 100]."""
    try:
        percents = [float(word) for word in text.split(",") if word.strip()]
    except ValueError as error:
        raise ConfigError(f"metric_percentiles={text!r}: {error}") from error
    for percent in percents:
        if not 0 <= percent <= 100:
            raise ConfigError(f"metric_percentiles={text!r}: {percent:g} is not in [0, 100]")
    return percents
