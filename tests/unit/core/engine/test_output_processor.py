"""Outputs as users see them: so far, new or final; several of one request; log-probabilities."""

import pytest

from runtime.core.engine.output_processor import RequestTracker
from runtime.core.messages import EngineOutput, EngineRequest, TokenLogprobs
from runtime.core.sampling.params import OutputKind, SamplingParams


class Letters:
    """Token 0 is a, 1 is b, …; 26 ends the text and is special."""

    eos_token_id = 26
    vocab_size = 27
    byte_ids = frozenset()

    def decode(self, token_ids, *, skip_special_tokens=True):
        special = "" if skip_special_tokens else "$"
        return "".join(chr(97 + t) if t < 26 else special for t in token_ids)

    def token_text(self, token_id):
        return self.decode([token_id], skip_special_tokens=False)

    @property
    def special_ids(self):
        return frozenset({26})


def tracker(n=1, **params):
    children = [
        EngineRequest(f"r#{i}", [1, 2], SamplingParams(**params), [26], 0.0) for i in range(n)
    ]
    return RequestTracker("r", "bc", children, Letters())


def give(tracked, token, child=0, **fields):
    return tracked.add(EngineOutput(f"r#{child}", [token], **fields))


def test_cumulative_and_delta():
    whole, delta = tracker(), tracker(output_kind=OutputKind.DELTA)
    for token in (7, 8):
        for tracked in (whole, delta):
            give(tracked, token)
            one = tracked.output().outputs[0]
            expected = ("hi"[: token - 6], [7, 8][: token - 6]) if tracked is whole else None
            if expected:
                assert (one.text, one.token_ids) == expected
            else:
                assert (one.text, one.token_ids) == ("hi"[token - 7], [token])


def test_final_only_says_nothing_before_the_end():
    tracked = tracker(output_kind=OutputKind.FINAL_ONLY)
    give(tracked, 7)
    assert tracked.output() is None
    give(tracked, 26, finish_reason="stop")
    output = tracked.output()
    assert output.finished
    assert output.outputs[0].text == "h"
    assert output.outputs[0].token_ids == [7, 26]
    assert output.outputs[0].finish_reason == "stop"


def test_a_stop_string_ends_the_request_and_no_part_of_it_is_shown():
    tracked = tracker(stop=["cd"], output_kind=OutputKind.DELTA)
    shown = ""
    for token, ends in ((1, False), (2, False), (4, False), (2, False), (3, True)):
        assert give(tracked, token) == ends
        shown += tracked.output().outputs[0].text
        assert not shown.endswith("c")
    assert shown == "bce"
    assert tracked.finished
    assert tracked.output().outputs[0].stop_reason == "cd"


def test_a_stop_token_is_left_out_of_the_text_unless_it_is_asked_for():
    for include, text in ((False, "h"), (True, "hi")):
        tracked = tracker(stop_token_ids=[8], include_stop_str_in_output=include)
        give(tracked, 7)
        give(tracked, 8, finish_reason="stop", stop_reason=8)
        one = tracked.output().outputs[0]
        assert (one.text, one.token_ids, one.stop_reason) == (text, [7, 8], 8)


def test_a_stop_string_within_min_tokens_is_passed_over():
    tracked = tracker(stop=["b"], min_tokens=3)
    for token in (0, 1, 0):
        assert not give(tracked, token)
    assert give(tracked, 1)
    assert tracked.output().outputs[0].text == "aba"


def test_a_request_with_several_outputs_ends_with_its_last():
    tracked = tracker(n=2)
    give(tracked, 0, child=0)
    give(tracked, 1, child=1, finish_reason="length")
    output = tracked.output()
    assert [o.text for o in output.outputs] == ["a", "b"]
    assert not output.finished
    assert tracked.abort() == ["r#0"]
    assert tracked.finished
    assert [o.finish_reason for o in tracked.output().outputs] == ["abort", "length"]


def test_logprobs_have_the_chosen_token_first():
    tracked = tracker(logprobs=2)
    entry = TokenLogprobs([4, 1, 4], [-1.5, -0.5, -1.5], [2, 1, 2])
    give(tracked, 4, logprobs=[entry])
    one = tracked.output().outputs[0]
    assert list(one.logprobs[0]) == [4, 1]
    assert one.logprobs[0][4].rank == 2
    assert one.logprobs[0][1].decoded_token == "b"
    assert one.cumulative_logprob == pytest.approx(-1.5)


def test_prompt_logprobs_begin_with_none():
    tracked = tracker(prompt_logprobs=0)
    entry = TokenLogprobs([2], [-0.25], [1])
    give(tracked, 4, prompt_logprobs=[entry])
    assert tracked.output().prompt_logprobs[0] is None
    assert tracked.output().prompt_logprobs[1][2].logprob == -0.25


def test_without_a_tokenizer_there_are_tokens_alone():
    request = EngineRequest("r#0", [1], SamplingParams(), [26], 0.0)
    tracked = RequestTracker("r", None, [request], None)
    give(tracked, 3)
    assert (tracked.output().outputs[0].text, tracked.output().outputs[0].token_ids) == ("", [3])
