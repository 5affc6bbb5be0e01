"""From the engine's tokens to the user's text: detokenising, stop strings, log-probabilities."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runtime.core.engine.outputs import (
    CompletionOutput,
    Logprob,
    PositionLogprobs,
    RequestOutput,
)
from runtime.core.engine.request import FinishReason
from runtime.core.engine.stop_strings import find_stop, held_back
from runtime.core.messages import EngineOutput, EngineRequest, TokenLogprobs
from runtime.core.sampling.params import OutputKind, SamplingParams
from runtime.core.tokenizer.detokenizer import IncrementalDetokenizer
from runtime.core.tokenizer.interface import Tokenizer


class OutputStream:
    """One output while it grows."""

    def __init__(self, request: EngineRequest, index: int, tokenizer: Tokenizer | None) -> None:
        params = request.params
        self.params = params
        self.index = index
        self.tokenizer = tokenizer
        self.token_ids: list[int] = []
        self.text = ""
        self.logprobs: list[PositionLogprobs] = []
        self.cumulative_logprob = 0.0
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self.error: str | None = None
        self._detokenizer = (
            IncrementalDetokenizer(
                tokenizer,
                request.prompt_token_ids,
                skip_special_tokens=params.skip_special_tokens,
                spaces_between_special_tokens=params.spaces_between_special_tokens,
            )
            if tokenizer is not None and params.detokenize
            else None
        )
        self._eos = frozenset(request.eos_token_ids)
        self._searched = 0
        """Characters that have been searched for stop strings."""
        self._sent_tokens = 0
        self._sent_chars = 0

    def add(self, output: EngineOutput) -> bool:
        """Take in new tokens; returns whether a stop string ended the output here."""
        for position, token_id in enumerate(output.new_token_ids):
            self.token_ids.append(token_id)
            if output.logprobs is not None:
                self._add_logprobs(output.logprobs[position])
            if self._detokenizer is not None and not self._hidden_stop(token_id, output):
                self.text += self._detokenizer.append([token_id])
            if self._find_stop():
                return True
        if output.finish_reason is not None:
            if self._detokenizer is not None:
                self.text += self._detokenizer.finish()
                if self._find_stop():
                    return False
            self.finish_reason = output.finish_reason
            self.stop_reason = output.stop_reason
            self.error = output.error
        return False

    def snapshot(self, kind: OutputKind) -> CompletionOutput:
        """The output so far, or what is new of it."""
        stable = len(self.text)
        if self.finish_reason is None and self.params.stop:
            stable -= held_back(self.text, self.params.stop)
        first_token = first_char = 0
        if kind is OutputKind.DELTA:
            first_token, first_char = self._sent_tokens, self._sent_chars
            self._sent_tokens = len(self.token_ids)
            self._sent_chars = max(stable, first_char)
        wants = self.params.logprobs is not None
        return CompletionOutput(
            index=self.index,
            text=self.text[first_char:stable],
            token_ids=self.token_ids[first_token:],
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            logprobs=self.logprobs[first_token:] if wants else None,
            cumulative_logprob=self.cumulative_logprob if wants else None,
            error=self.error,
        )

    def _hidden_stop(self, token_id: int, output: EngineOutput) -> bool:
        """Whether a token that ended the output is left out of its text."""
        if output.finish_reason != FinishReason.STOP or self.params.include_stop_str_in_output:
            return False
        return token_id == output.stop_reason or (
            output.stop_reason is None and token_id in self._eos
        )

    def _find_stop(self) -> bool:
        stops = self.params.stop
        new = len(self.text) - self._searched
        if not stops or not new:
            return False
        if len(self.token_ids) <= self.params.min_tokens:
            # A stop within the first min_tokens is passed over, not kept for later.
            self._searched = len(self.text)
            return False
        include = self.params.include_stop_str_in_output
        match = find_stop(self.text, new, stops, include=include)
        self._searched = len(self.text)
        if match is None:
            return False
        self.text = self.text[: match.end]
        self.finish_reason, self.stop_reason = FinishReason.STOP.value, match.stop
        return True

    def _add_logprobs(self, entry: TokenLogprobs) -> None:
        self.cumulative_logprob += entry.logprobs[0]
        self.logprobs.append(position_logprobs(entry, self.tokenizer))


def position_logprobs(entry: TokenLogprobs, tokenizer: Tokenizer | None) -> PositionLogprobs:
    """One position's log-probabilities by token id."""
    result: dict[int, Logprob] = {}
    for token_id, logprob, rank in zip(entry.token_ids, entry.logprobs, entry.ranks, strict=True):
        text = tokenizer.token_text(token_id) if tokenizer is not None else None
        result.setdefault(token_id, Logprob(logprob, rank, text))
    return result


class RequestTracker:
    """A user's request: its outputs, and what of them has been told."""

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        children: Sequence[EngineRequest],
        tokenizer: Tokenizer | None,
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.first = children[0]
        # The engine's own list stays out of users' hands; all outputs share this one.
        self._prompt_token_ids = list(self.first.prompt_token_ids)
        self.tokenizer = tokenizer
        self.streams = {
            child.request_id: OutputStream(child, index, tokenizer)
            for index, child in enumerate(children)
        }
        self.unfinished = set(self.streams)
        self.num_cached_tokens = 0
        self.num_preemptions = 0
        self.prompt_logprobs: list[PositionLogprobs | None] = [None]
        self.first_token_time: float | None = None

    def add(self, output: EngineOutput) -> bool:
        """Take in one child's output; returns whether the engine must end that child."""
        stream = self.streams[output.request_id]
        if stream.index == 0:
            self.num_cached_tokens = output.num_cached_tokens
            for entry in output.prompt_logprobs or ():
                self.prompt_logprobs.append(position_logprobs(entry, self.tokenizer))
        self.num_preemptions = max(self.num_preemptions, output.num_preemptions)
        if output.new_token_ids and self.first_token_time is None:
            self.first_token_time = time.time()
        stopped = stream.add(output)
        if stream.finish_reason is not None:
            self.unfinished.discard(output.request_id)
        return stopped and output.finish_reason is None

    def abort(self) -> list[str]:
        """End what is unfinished; returns the engine's ids of it."""
        ids = sorted(self.unfinished)
        for request_id in ids:
            self.streams[request_id].finish_reason = FinishReason.ABORT.value
        self.unfinished.clear()
        return ids

    @property
    def finished(self) -> bool:
        """Whether all outputs have ended."""
        return not self.unfinished

    @property
    def params(self) -> SamplingParams:
        """What the user asked for."""
        return self.first.params

    def all_outputs(self) -> list[CompletionOutput]:
        """Everything so far, whatever has been told of it."""
        return [stream.snapshot(OutputKind.CUMULATIVE) for stream in self.streams.values()]

    def output(self) -> RequestOutput | None:
        """What there is to tell the user now; None where there is nothing."""
        kind = self.params.output_kind
        if kind is OutputKind.FINAL_ONLY and not self.finished:
            return None
        metrics = {"arrival_time": self.first.arrival_time}
        if self.first_token_time is not None:
            metrics["first_token_time"] = self.first_token_time
        if self.finished:
            metrics["finished_time"] = time.time()
        asked = self.params.prompt_logprobs is not None
        return RequestOutput(
            request_id=self.request_id,
            prompt=self.prompt,
            prompt_token_ids=self._prompt_token_ids,
            outputs=[stream.snapshot(kind) for stream in self.streams.values()],
            finished=self.finished,
            num_cached_tokens=self.num_cached_tokens,
            num_preemptions=self.num_preemptions,
            prompt_logprobs=list(self.prompt_logprobs) if asked else None,
            metrics=metrics,
        )
