"""``LLM``: a model in this process, for offline work."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from tqdm import tqdm

from runtime.core.config.args import EngineArgs
from runtime.core.engine.input_processor import Prompt
from runtime.core.engine.llm_engine import LLMEngine
from runtime.core.engine.outputs import RequestOutput
from runtime.core.entrypoints.beam_search import (
    BeamSearch,
    BeamSearchOutput,
    BeamSearchParams,
    BeamSearchSequence,
    search_together,
)
from runtime.core.errors import ConfigError, RequestError
from runtime.core.messages import TokenLogprobs
from runtime.core.pooling.config import check_generates
from runtime.core.pooling.outputs import (
    EmbeddingRequestOutput,
    PoolingRequestOutput,
    as_embedding,
)
from runtime.core.pooling.params import PoolingParams
from runtime.core.sampling.params import OutputKind, SamplingParams
from runtime.core.tokenizer.interface import Tokenizer

Message = Mapping[str, Any]
"""``{"role": "user", "content": "…"}``."""

T = TypeVar("T")


class LLM:
    """Loads a model and generates from prompts.

    Args:
        model: path of a Hugging Face directory or of a GGUF file.
        kwargs: the fields of :class:`runtime.core.config.args.EngineArgs`.

    Raises:
        RuntimeUserError: the platform, the checkpoint or an argument will not do; the message
            says what to mend.
    """

    def __init__(self, model: str, **kwargs: Any) -> None:
        known = {field.name for field in dataclasses.fields(EngineArgs)}
        unknown = sorted(set(kwargs) - known)
        if unknown:
            raise ConfigError(f"unknown argument {unknown[0]!r}; known: {', '.join(sorted(known))}")
        self.engine = LLMEngine.from_args(EngineArgs(model=str(model), **kwargs))
        self._ids = itertools.count()
        self._inbox: dict[str, deque[RequestOutput]] = {}
        """Outputs that have not been taken yet, by the ids of requests in progress."""

    def get_tokenizer(self) -> Tokenizer:
        """The model's tokenizer; ConfigError under ``skip_tokenizer_init``."""
        if self.engine.tokenizer is None:
            raise ConfigError("the engine has no tokenizer: skip_tokenizer_init is set")
        return self.engine.tokenizer

    def get_default_sampling_params(self) -> SamplingParams:
        """Sampling parameters with the checkpoint's ``generation_config.json`` as defaults."""
        return SamplingParams.from_generation_config(self.engine.config.model.generation)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete prompts, batched together; results are in the order of the prompts.

        Args:
            prompts: a string, ``{"prompt_token_ids": [...]}``, or a list of these.
            sampling_params: one for all prompts, or one for each. Default: the checkpoint's.
            priority: one for each prompt, lower first, under the ``priority`` policy.
            use_tqdm: show a progress bar on stderr.

        Raises:
            RequestError: a prompt or parameter is refused; then none of them is run.
        """
        items = [prompts] if isinstance(prompts, (str, Mapping)) else list(prompts)
        params = _one_each("sampling_params", self._params_or_default(sampling_params), len(items))
        if priority is not None:
            levels: list[int] = _one_each("priority", priority, len(items))
            params = [
                msgspec.structs.replace(own, priority=level)
                for own, level in zip(params, levels, strict=True)
            ]
        params = [msgspec.structs.replace(p, output_kind=OutputKind.FINAL_ONLY) for p in params]
        return self._run(items, params, use_tqdm=use_tqdm)

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        truncate_prompt_tokens: int | None = None,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        use_tqdm: bool = True,
    ) -> list[EmbeddingRequestOutput]:
        """Embed prompts, batched together; results are in the order of the prompts.

        Args:
            prompts: as for :meth:`generate`.
            truncate_prompt_tokens: keep this many first tokens of each; -1 is what the model takes.
            pooling_params: one for all prompts, or one for each.
            use_tqdm: show a progress bar on stderr.

        Raises:
            RequestError: a prompt or parameter is refused; then none of them is run.
        """
        outputs = self.encode(
            prompts,
            pooling_params,
            truncate_prompt_tokens=truncate_prompt_tokens,
            use_tqdm=use_tqdm,
        )
        return [as_embedding(output) for output in outputs]

    def encode(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        pooling_task: str | None = None,
        truncate_prompt_tokens: int | None = None,
        use_tqdm: bool = True,
    ) -> list[PoolingRequestOutput]:
        """As :meth:`embed`, but tensors: with the task ``token_embed`` a row for each token."""
        items = [prompts] if isinstance(prompts, (str, Mapping)) else list(prompts)
        given: dict[str, Any] = {}
        if pooling_task is not None:
            given["task"] = PoolingParams(task=pooling_task).task  # type: ignore[arg-type]
        if truncate_prompt_tokens is not None:
            given["truncate_prompt_tokens"] = truncate_prompt_tokens
        each = _one_each("pooling_params", pooling_params or PoolingParams(), len(items))
        params = [msgspec.structs.replace(own, **given) for own in each]
        ids: list[str] = []
        try:
            for prompt, own in zip(items, params, strict=True):
                request_id = str(next(self._ids))
                self.engine.add_pooling_request(request_id, prompt, own)
                ids.append(request_id)
            done: dict[str, PoolingRequestOutput] = {}
            with tqdm(total=len(ids), desc="Embedding", unit="req", disable=not use_tqdm) as bar:
                while len(done) < len(ids):
                    outputs = self.engine.step_pooling()
                    done.update({output.request_id: output for output in outputs})
                    bar.update(len(outputs))
            return [done[request_id] for request_id in ids]
        finally:
            self.engine.abort_pooling(ids)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        add_generation_prompt: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answer conversations: one list of messages, or a list of such lists."""
        single = not messages or isinstance(messages[0], Mapping)
        conversations: Any = [messages] if single else messages
        prompts = [
            self._chat_prompt(conversation, add_generation_prompt, chat_template_kwargs)
            for conversation in conversations
        ]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None
    ) -> RequestStream:
        """Complete one prompt and give its output at every step, as ``output_kind`` says.

        Several streams may be open at once: their requests are batched together.
        """
        params = sampling_params or self.get_default_sampling_params()
        return RequestStream(self, self._add(prompt, params))

    def stream_chat(
        self, messages: Sequence[Message], sampling_params: SamplingParams | None = None
    ) -> RequestStream:
        """Answer one conversation and give the answer at every step."""
        return self.stream(self._chat_prompt(messages, True, None), sampling_params)

    def beam_search(
        self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams
    ) -> list[BeamSearchOutput]:
        """Search each prompt's most likely outputs, ``params.beam_width`` of them, best first.

        Raises:
            RequestError: a prompt or parameter is refused.
        """
        items = [prompts] if isinstance(prompts, (str, Mapping)) else list(prompts)
        processor, own = self.engine.input_processor, self._beam_step_params(params)
        heads = []
        for prompt in items:
            whole = msgspec.structs.replace(own, max_tokens=params.max_tokens)
            request, _ = processor.process("beam", prompt, whole)
            self._check_beam_room(len(request.prompt_token_ids), params)
            heads.append(request.prompt_token_ids)
        searches = [BeamSearch(params, frozenset(processor.eos_token_ids)) for _ in items]

        def expand(todo: list[tuple[int, tuple[int, ...]]]) -> list[TokenLogprobs]:
            tokens: list[Prompt] = [
                {"prompt_token_ids": [*heads[index], *beam]} for index, beam in todo
            ]
            outputs = self._run(tokens, [own] * len(tokens), use_tqdm=False)
            return [_as_message(output) for output in outputs]

        search_together(searches, expand)
        return [
            BeamSearchOutput(head, [self._with_text(sequence) for sequence in search.best()])
            for head, search in zip(heads, searches, strict=True)
        ]

    def shutdown(self) -> None:
        """Let go of the model and its memory. The object is of no use afterwards."""
        self.engine.shutdown()

    def __enter__(self) -> LLM:
        """Use as a context manager: shuts down at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()

    def _params_or_default(
        self, params: SamplingParams | Sequence[SamplingParams] | None
    ) -> SamplingParams | Sequence[SamplingParams]:
        return self.get_default_sampling_params() if params is None else params

    def _chat_prompt(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        variables: Mapping[str, Any] | None,
    ) -> Prompt:
        check_generates(self.engine.config.model)
        if not messages:
            raise RequestError("messages is empty", "messages")
        tokenizer = self.get_tokenizer()
        text = tokenizer.apply_chat_template(
            messages, add_generation_prompt=add_generation_prompt, **(variables or {})
        )
        # The template writes special tokens itself.
        token_ids = tokenizer.encode(text, add_special_tokens=False)
        return {"prompt": text, "prompt_token_ids": token_ids}

    def _check_beam_room(self, prompt_length: int, params: BeamSearchParams) -> None:
        limit = self.engine.config.model.max_model_len
        if prompt_length + params.max_tokens > limit:
            raise RequestError(
                f"max_tokens={params.max_tokens}: a prompt of {prompt_length} tokens leaves room "
                f"for {limit - prompt_length} (max_model_len={limit})",
                "max_tokens",
            )

    def _beam_step_params(self, params: BeamSearchParams) -> SamplingParams:
        most = self.engine.config.model.max_logprobs
        if 0 <= most < 2 * params.beam_width:
            raise RequestError(
                f"beam_width={params.beam_width} needs max_logprobs of at least "
                f"{2 * params.beam_width}; this engine has {most}",
                "beam_width",
            )
        return SamplingParams(
            temperature=0.0,
            max_tokens=1,
            logprobs=2 * params.beam_width,
            detokenize=False,
            output_kind=OutputKind.FINAL_ONLY,
        )

    def _with_text(self, sequence: BeamSearchSequence) -> BeamSearchSequence:
        if self.engine.tokenizer is None:
            return sequence
        return dataclasses.replace(sequence, text=self.engine.tokenizer.decode(sequence.token_ids))

    def _add(self, prompt: Prompt, params: SamplingParams) -> str:
        request_id = str(next(self._ids))
        self.engine.add_request(request_id, prompt, params)
        self._inbox[request_id] = deque()
        return request_id

    def _step(self) -> list[str]:
        """Run a step; returns the ids of requests that have new outputs to take."""
        moved = []
        for output in self.engine.step():
            self._inbox[output.request_id].append(output)
            moved.append(output.request_id)
        return moved

    def _drop(self, request_ids: Sequence[str]) -> None:
        """Forget requests, ending those that are not finished."""
        self.engine.abort(request_ids)
        for request_id in request_ids:
            self._inbox.pop(request_id, None)

    def _run(
        self, prompts: Sequence[Prompt], params: Sequence[SamplingParams], *, use_tqdm: bool
    ) -> list[RequestOutput]:
        ids: list[str] = []
        try:
            for prompt, own in zip(prompts, params, strict=True):
                ids.append(self._add(prompt, own))
            with tqdm(total=len(ids), desc="Generating", unit="req", disable=not use_tqdm) as bar:
                return self._collect(ids, bar)
        finally:
            self._drop(ids)

    def _collect(self, ids: Sequence[str], bar: tqdm[Any]) -> list[RequestOutput]:
        """The final output of each request, in order."""
        done: dict[str, RequestOutput] = {}
        pending, tokens = set(ids), 0
        while pending:
            for request_id in pending.intersection(self._step()):
                pending.discard(request_id)
                done[request_id] = output = self._inbox[request_id].pop()
                tokens += sum(len(one.token_ids) for one in output.outputs)
                rate = tokens / max(bar.format_dict["elapsed"], 1e-9)
                bar.set_postfix_str(f"{rate:.1f} tok/s", refresh=False)
                bar.update()
        return [done[request_id] for request_id in ids]


class RequestStream(Iterator[RequestOutput]):
    """A request's outputs as they come; closing it, or letting go of it, ends the request."""

    def __init__(self, llm: LLM, request_id: str) -> None:
        self._llm = llm
        self._request_id = request_id
        self._open = True

    def __next__(self) -> RequestOutput:
        """The next output; runs steps until there is one."""
        inbox = self._llm._inbox.get(self._request_id) if self._open else None
        if inbox is None:
            raise StopIteration
        while not inbox:
            self._llm._step()
        output = inbox.popleft()
        if output.finished:
            self.close()
        return output

    def close(self) -> None:
        """End the request, if it has not ended, and free its KV blocks."""
        if self._open:
            self._open = False
            self._llm._drop([self._request_id])

    def __del__(self) -> None:
        """Close."""
        self.close()


def _as_message(output: RequestOutput) -> TokenLogprobs:
    """A one-token output's log-probabilities, as the engine gave them."""
    positions = output.outputs[0].logprobs
    assert positions is not None
    chosen = output.outputs[0].token_ids[0]
    entries = sorted(positions[0].items(), key=lambda item: item[1].rank)
    return TokenLogprobs(
        [chosen, *(token for token, _ in entries)],
        [positions[0][chosen].logprob, *(entry.logprob for _, entry in entries)],
        [positions[0][chosen].rank, *(entry.rank for _, entry in entries)],
    )


def _one_each(name: str, values: T | Sequence[T], count: int) -> list[T]:
    """The values, one for each prompt."""
    if not isinstance(values, Sequence):
        return [values] * count
    if len(values) != count:
        raise RequestError(f"{name} has {len(values)} entries for {count} prompts", name)
    return list(values)
