"""A line of throughput and load in the log, while there is work."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence

from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import EngineStats
from runtime.core.errors import ConfigError

logger = logging.getLogger(__name__)

INTERVAL_VARIABLE = "VLLM_LOG_STATS_INTERVAL"
_DEFAULT_SECONDS = 10.0


def log_interval(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds between two lines: VLLM_LOG_STATS_INTERVAL's, else 10.

    Raises:
        ConfigError: the variable is no positive number.
    """
    text = environ.get(INTERVAL_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"{INTERVAL_VARIABLE}={text!r} must be a number of seconds above 0")
    return seconds


class StatsLine:
    """A ``StatLogger`` that logs what has come since its last line."""

    def __init__(self) -> None:
        self._stats = self._last_stats = EngineStats()
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._since = time.monotonic()

    def record_step(self, stats: EngineStats) -> None:
        """A step is done."""
        self._stats = stats

    def record_prompt(self, num_tokens: int, _time_to_first_token: float) -> None:
        """A prompt was computed."""
        self._prompt_tokens += num_tokens

    def record_tokens(self, count: int, _inter_token_seconds: Sequence[float]) -> None:
        """Tokens were generated."""
        self._generation_tokens += count

    def record_finished(self, request: FinishedRequest) -> None:
        """A request has ended."""

    async def run(self, interval: float) -> None:
        """Log a line every ``interval`` seconds, until cancelled; none where nothing happened."""
        while True:
            await asyncio.sleep(interval)
            line = self.line()
            if line is not None:
                logger.info("%s", line)

    def line(self) -> str | None:
        """What has come since the last line; None where nothing did and nothing runs."""
        now, stats = time.monotonic(), self._stats
        seconds = max(now - self._since, 1e-6)
        prompt, generation = self._prompt_tokens, self._generation_tokens
        queries = stats.prefix_cache_queries - self._last_stats.prefix_cache_queries
        hits = stats.prefix_cache_hits - self._last_stats.prefix_cache_hits
        self._since, self._last_stats = now, stats
        self._prompt_tokens = self._generation_tokens = 0
        if not (prompt or generation or stats.num_running or stats.num_waiting):
            return None
        return (
            f"prompt {prompt / seconds:.1f} tokens/s, generation {generation / seconds:.1f} "
            f"tokens/s, running {stats.num_running}, waiting {stats.num_waiting}, KV cache "
            f"{stats.kv_cache_usage:.1%} in use, prefix cache {hits / max(queries, 1):.1%} hits"
        )
