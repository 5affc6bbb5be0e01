"""A request's stream between the engine's process and its caller."""

from runtime.core.engine.async_llm import RequestStream
from runtime.core.engine.output_processor import RequestTracker
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.sampling.params import SamplingParams


class Letters:
    """Token 0 is a, 1 is b, …"""

    eos_token_id = 26
    vocab_size = 27
    byte_ids = special_ids = frozenset()

    def decode(self, token_ids, *, skip_special_tokens=True):
        return "".join(chr(97 + token) for token in token_ids)


class Counter:
    """A ``StatLogger`` that counts tokens."""

    tokens = 0

    def record_prompt(self, *_): ...

    def record_tokens(self, count, _seconds):
        self.tokens += count


def test_what_the_engine_gives_after_a_stop_string_is_nobodys():
    params = SamplingParams(stop=["c"], n=1)
    children = [EngineRequest(f"r#{i}", [1], params, [26], 0.0) for i in range(2)]
    tracker = RequestTracker("r", None, children, Letters())
    stream, counter = RequestStream(None, tracker, params), Counter()

    def give(child, token):
        return stream.add(EngineOutput(f"r#{child}", [token]), [counter])

    assert [give(0, 1), give(0, 2)] == [False, True]
    # The abort is under way, and the other output still grows.
    assert give(0, 4) is False
    assert give(1, 1) is False
    stopped, other = tracker.output().outputs
    assert (stopped.text, stopped.token_ids, stopped.finish_reason) == ("b", [1, 2], "stop")
    assert other.token_ids == [1]
    assert counter.tokens == 3
