"""What was asked and what was answered, in the log of those who switch that on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core.engine.outputs import CompletionOutput
from runtime.core.entrypoints.server.args import ServerArgs

logger = logging.getLogger(__name__)


class RequestLog:
    """The prompt log and the output log; each is off unless its flag is set."""

    def __init__(self, args: ServerArgs) -> None:
        self.prompts = args.enable_log_requests
        self.outputs = args.enable_log_outputs
        self._limit = args.max_log_len

    def log_prompt(self, request_id: str, prompt: str | Mapping[str, Any], params: object) -> None:
        """Log a request that is about to run: its text, or the fields that it is made of."""
        if self.prompts:
            shown = dict(prompt) if isinstance(prompt, Mapping) else prompt
            logger.info("request %s: prompt %s, %s", request_id, self._short(shown), params)

    def log_output(self, request_id: str, outputs: Sequence[CompletionOutput]) -> None:
        """Log what a request gave, whole."""
        if not self.outputs:
            return
        for one in outputs:
            logger.info(
                "request %s: output %d %s, %d tokens, finish_reason %s",
                request_id,
                one.index,
                self._short(one.text or list(one.token_ids)),
                len(one.token_ids),
                one.finish_reason,
            )

    def _short(self, value: Any) -> str:
        """A value in one line, its texts and lists cut to the limit."""
        if isinstance(value, dict):
            return ", ".join(f"{key}={self._short(item)}" for key, item in value.items())
        if self._limit is not None and isinstance(value, str | list):
            rest = len(value) - self._limit
            return f"{value[: self._limit]!r}" + (f"… ({rest} more)" if rest > 0 else "")
        return repr(value)
