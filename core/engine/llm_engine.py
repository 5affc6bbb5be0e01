"""The engine with its two ends: prompts in, outputs out, all in the calling process."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from runtime.core.config.args import EngineArgs
from runtime.core.engine.children import split
from runtime.core.engine.core import EngineCore
from runtime.core.engine.input_processor import InputProcessor, Prompt
from runtime.core.engine.output_processor import RequestTracker
from runtime.core.engine.outputs import RequestOutput
from runtime.core.engine.resolved import ResolvedEngine
from runtime.core.errors import RequestError
from runtime.core.ops.registry import resolve_ops
from runtime.core.pooling.inputs import PoolingInputProcessor
from runtime.core.pooling.outputs import PoolingRequestOutput
from runtime.core.pooling.params import PoolingParams
from runtime.core.pooling.requests import PendingPooling
from runtime.core.sampling.params import SamplingParams
from runtime.core.tokenizer.interface import Tokenizer

logger = logging.getLogger(__name__)


class LLMEngine:
    """Add requests, step until they are finished."""

    def __init__(self, core: EngineCore, tokenizer: Tokenizer | None) -> None:
        self.core = core
        self.config = core.config
        self.tokenizer = tokenizer
        self.input_processor = InputProcessor(
            core.config, tokenizer, core.scheduler.kv_cache.fits_ever
        )
        self.pooling_inputs = PoolingInputProcessor(core.config, tokenizer, self.input_processor)
        self._pooling = PendingPooling()
        self._trackers: dict[str, RequestTracker] = {}
        self._parent_of: dict[str, str] = {}

    @classmethod
    def from_args(cls, args: EngineArgs) -> LLMEngine:
        """Choose the platform, open the checkpoint, load the model.

        Raises:
            RuntimeUserError: says in one line what to mend; nothing is left half-loaded.
        """
        engine = ResolvedEngine.from_args(args)
        tokenizer = engine.tokenizer()
        engine.config.platform.load_ops()
        resolve_ops(engine.config.platform)
        core = EngineCore(
            engine.config, engine.checkpoint, lower_max_model_len=engine.lower_max_model_len
        )
        return cls(core, tokenizer)

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether a step has anything to do."""
        return bool(self._trackers) or len(self._pooling) > 0

    def add_request(self, request_id: str, prompt: Prompt, params: SamplingParams) -> None:
        """Queue a request.

        Raises:
            RequestError: it is refused; nothing else changes.
        """
        if request_id in self._trackers:
            raise RequestError(f"request_id={request_id!r} is already in use", "request_id")
        request, text = self.input_processor.process(request_id, prompt, params)
        children = split(request)
        tracker = RequestTracker(request_id, text, children, self.tokenizer)
        self._trackers[request_id] = tracker
        for child in children:
            self._parent_of[child.request_id] = request_id
            self.core.add_request(child)

    def add_pooling_request(self, request_id: str, prompt: Prompt, params: PoolingParams) -> None:
        """Queue a request for an embedding, which :meth:`step_pooling` gives.

        Raises:
            RequestError: it is refused; nothing else changes.
        """
        request, _ = self.pooling_inputs.process(request_id, prompt, params)
        self._pooling.add(request)
        self.core.add_request(request)

    def step_pooling(self) -> list[PoolingRequestOutput]:
        """Run one step of an engine that pools; returns what is done."""
        results = [self._pooling.take(output) for output in self.core.step()]
        return [result for result in results if result is not None]

    def abort_pooling(self, request_ids: Iterable[str]) -> None:
        """End requests for embeddings at once. Unknown ids are passed over."""
        self.core.abort([name for name in request_ids if self._pooling.drop(name)])

    def abort(self, request_ids: Iterable[str]) -> list[RequestOutput]:
        """End requests at once; returns their last outputs. Unknown ids are passed over."""
        outputs = []
        for request_id in request_ids:
            tracker = self._trackers.get(request_id)
            if tracker is None:
                continue
            self.core.abort(tracker.abort())
            outputs.append(self._retire(tracker))
        return [output for output in outputs if output is not None]

    def step(self) -> list[RequestOutput]:
        """Run one step; returns what there is to tell of each request that moved."""
        moved: dict[str, RequestTracker] = {}
        for output in self.core.step():
            tracker = self._trackers[self._parent_of[output.request_id]]
            if tracker.add(output):
                self.core.abort([output.request_id])
            moved[tracker.request_id] = tracker
        results = []
        for tracker in moved.values():
            result = self._retire(tracker) if tracker.finished else tracker.output()
            if result is not None:
                results.append(result)
        return results

    def shutdown(self) -> None:
        """Let go of the model and its memory."""
        self.input_processor.shutdown()
        self.core.shutdown()

    def _retire(self, tracker: RequestTracker) -> RequestOutput | None:
        for child_id in tracker.streams:
            del self._parent_of[child_id]
        del self._trackers[tracker.request_id]
        return tracker.output()
