"""Structured output through the whole engine: what comes is valid, and nobody else is touched."""

import json
import re

import pytest

from runtime import LLM, SamplingParams, StructuredOutputs
from runtime.core.entrypoints.beam_search import BeamSearchParams
from runtime.core.errors import RequestError
from runtime.core.structured_output.progress import GrammarProgress

pytest.importorskip("xgrammar")
jsonschema = pytest.importorskip("jsonschema")

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "count"],
}
TIGHT = {"disable_any_whitespace": True}


@pytest.fixture(scope="module")
def path(byte_model):
    return byte_model


@pytest.fixture(scope="module")
def engine(path, load):
    return load(path, skip_tokenizer_init=False)


@pytest.fixture
def another(path, load, engine):
    """Another engine on that model, which has its constraints tried by the first one's process."""
    made = []

    def make(**options):
        defaults = {"skip_tokenizer_init": False, "max_model_len": 160}
        made.append(load(path, **{**defaults, "max_num_seqs": 8, **options}))
        made[
            -1
        ].engine.input_processor._structured_outputs = (
            engine.engine.input_processor._structured_outputs
        )
        return made[-1]

    return make


def asking(given, **params):
    wanted = StructuredOutputs(**given)
    return SamplingParams(**{"max_tokens": 200, **params, "structured_outputs": wanted})


def plain(**params):
    return SamplingParams(**{"temperature": 0, "max_tokens": 12, "ignore_eos": True, **params})


def run(llm, prompts, params):
    return [output.outputs[0] for output in llm.generate(prompts, params, use_tqdm=False)]


def is_json(text):
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


KINDS = {
    "json": ({"json": SCHEMA, **TIGHT}, is_json),
    "regex": ({"regex": "[0-9]{3}"}, re.compile("[0-9]{3}").fullmatch),
    "choice": ({"choice": ["yes", "no", "é世"]}, {"yes", "no", "é世"}.__contains__),
    "grammar": ({"grammar": 'root ::= "a" ("b" | "c")'}, {"ab", "ac"}.__contains__),
    "lark": ({"grammar": 'start: "x" /[0-9]/'}, re.compile("x[0-9]").fullmatch),
}
PARAMS = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 1.0, "seed": 5},
    "n": {"n": 3, "seed": 1},
    "min_tokens beyond the end": {"min_tokens": 64, "temperature": 0},
    "ignore_eos": {"ignore_eos": True, "temperature": 0},
    "penalties": {"repetition_penalty": 1.5, "presence_penalty": 1.0, "temperature": 0.8},
    "logprobs": {"logprobs": 3, "temperature": 0},
    "bias against it": {"logit_bias": {5: 100.0, 40: -100.0}, "temperature": 0},
    "narrow": {"top_k": 1, "min_p": 0.5},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_outputs_have_their_form_and_end(engine, kind, params):
    given, valid = KINDS[kind]
    for output in engine.generate(["ab", "c"], asking(given, **params), use_tqdm=False):
        for one in output.outputs:
            assert one.finish_reason == "stop"
            assert one.stop_reason is None
            assert valid(one.text)
            for position in one.logprobs or ():
                assert all(-9999.0 <= entry.logprob <= 0 for entry in position.values())


def test_min_tokens_holds_where_the_grammar_can_go_on(engine):
    (one,) = run(engine, ["ab"], asking({"regex": "[0-9]*"}, min_tokens=20, max_tokens=40))
    assert len(one.token_ids) >= 20
    assert re.fullmatch("[0-9]+", one.text)
    (one,) = run(engine, ["ab"], asking({"regex": "[0-9]*"}, ignore_eos=True, max_tokens=9))
    assert (one.finish_reason, len(one.text)) == ("length", 9)


def test_a_stop_string_ends_it_sooner(engine):
    given = {"grammar": 'root ::= "ab" "cd"'}
    (one,) = run(engine, ["ab"], asking(given, stop=["c"]))
    assert (one.text, one.finish_reason, one.stop_reason) == ("ab", "stop", "c")
    token = engine.get_tokenizer().encode("c", add_special_tokens=False)
    (one,) = run(engine, ["ab"], asking(given, stop_token_ids=token))
    assert (one.text, one.finish_reason, one.stop_reason) == ("ab", "stop", token[0])


def test_too_few_tokens_are_a_matter_of_length(engine):
    (one,) = run(engine, ["ab"], asking({"json": SCHEMA}, max_tokens=4, temperature=0))
    assert (one.finish_reason, len(one.token_ids)) == ("length", 4)


SMALL = {"num_kv_blocks_override": 12, "max_num_seqs": 6, "max_num_batched_tokens": 64}
ENGINES = {
    "eager": {"enforce_eager": True},
    "chunked": {"max_num_batched_tokens": 16},
    "uncached": {"enable_prefix_caching": False},
    "preempted": SMALL,
    "asynchronous, with graphs": {"platform": "null", "async_scheduling": True},
    "preempted asynchronously": {"platform": "null", "async_scheduling": True, **SMALL},
}
PROMPTS = ["a" * 40, "hello", "a" * 40 + "b", "xyz" * 9, "q", "long " * 5]


@pytest.mark.parametrize("options", ENGINES)
def test_neighbours_and_engines_make_no_difference(another, engine, options):
    given = [given for given, _ in KINDS.values()]
    params = [
        asking({"json": SCHEMA, **TIGHT}, temperature=0),
        plain(max_tokens=40),
        asking(given[1], seed=7),
        plain(max_tokens=40, repetition_penalty=1.2),
        asking({"regex": "[a-z]{30}"}, temperature=0),
        asking(given[2], temperature=0),
    ]
    expected = [
        run(engine, [prompt], [own])[0].token_ids
        for prompt, own in zip(PROMPTS, params, strict=True)
    ]
    llm = another(**ENGINES[options])
    for _ in range(2):
        assert [one.token_ids for one in run(llm, PROMPTS, params)] == expected
    scheduler = llm.engine.core.scheduler
    assert not options.startswith("preempted") or scheduler.stats.num_preemptions > 0
    assert scheduler.kv_cache.usage == 0.0


CONTRADICTIONS = {
    "allowed_token_ids": {"allowed_token_ids": [70]},
    "bad_words": {"bad_words": ["y", "n"]},
}


@pytest.mark.parametrize("params", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradiction_ends_its_own_request_alone(engine, params):
    reference = run(engine, ["ab"], plain())[0].token_ids
    bad = asking({"choice": ["yes", "no"]}, **params)
    good = asking({"choice": ["yes", "no"]})
    outputs = run(engine, ["ab", "ab", "ab"], [plain(), bad, good])
    assert outputs[0].token_ids == reference
    assert (outputs[1].finish_reason, outputs[1].text) == ("error", "")
    assert "contradicts" in outputs[1].error
    assert outputs[2].text in ("yes", "no")
    assert outputs[2].error is None
    assert engine.engine.core.scheduler.kv_cache.usage == 0.0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_matcher_that_fails_ends_its_own_request_alone(another, monkeypatch, asynchronous):
    llm = another(platform="null", async_scheduling=asynchronous)
    reference = run(llm, ["ab"], plain())[0].token_ids
    own = GrammarProgress.next_tokens

    def failing(self, output, mask, limits):
        if len(output) == 2 and output[0] == first:
            raise OSError("lost")
        return own(self, output, mask, limits)

    first = llm.get_tokenizer().encode("z", add_special_tokens=False)[0]
    monkeypatch.setattr(GrammarProgress, "next_tokens", failing)
    params = [plain(), asking({"regex": "z{9}"}), asking({"regex": "y{9}"})]
    outputs = run(llm, ["ab"] * 3, params)
    assert outputs[0].token_ids == reference
    assert outputs[1].finish_reason == "error"
    assert "OSError: lost" in outputs[1].error
    assert outputs[2].text == "y" * 9
    assert llm.engine.core.scheduler.kv_cache.usage == 0.0


def test_a_compiler_that_fails_in_the_engine_ends_its_own_request(another, monkeypatch):
    llm = another()
    run(llm, ["ab"], asking({"regex": "a"}))
    backend = llm.engine.core.executor._worker.grammars._backend
    compile_it = backend.compile

    def failing(constraint):
        if constraint.text == "b":
            raise OSError("lost")
        return compile_it(constraint)

    monkeypatch.setattr(backend, "compile", failing)
    outputs = run(llm, ["ab"] * 3, [asking({"regex": x}) for x in "abc"])
    assert [one.finish_reason for one in outputs] == ["stop", "error", "stop"]
    assert "OSError: lost" in outputs[1].error


def test_a_request_may_be_ended_while_its_grammar_is_compiled(another):
    llm = another()
    core = llm.engine.core
    llm.engine.add_request("x", "ab", asking({"regex": "[a-z]{40}"}))
    assert core.has_requests
    llm.engine.abort(["x"])
    assert not core.has_requests
    assert run(llm, ["ab"], asking({"choice": ["yes"]}))[0].text == "yes"


BAD = {
    "no type": {"json": {"type": "not-a-type"}},
    "itself": {"json": {"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}},
    "no property": {"json": {"properties": {"foo": "bar"}}},
    "contradiction": {"json": {"type": "string", "minLength": 5, "maxLength": 1}},
    "anything": {"json": {}},
    "not enforced": {"json": {"type": "array", "uniqueItems": True}},
    "a warning": {"json": {"type": "string", "pattern": "^a(?=b)"}},
    "nested": {"json": "[" * 100_000},
    "regex": {"regex": "("},
    "grammar": {"grammar": "root ::= ("},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_what_is_refused_changes_nothing(engine, given):
    reference = run(engine, ["ab"], plain())[0].token_ids
    with pytest.raises(RequestError) as refused:
        run(engine, ["ab", "ab"], [plain(), asking(given)])
    assert refused.value.param == "structured_outputs"
    assert len(str(refused.value)) < 600
    assert not engine.engine.core.has_requests
    assert run(engine, ["ab"], plain())[0].token_ids == reference


def test_it_needs_a_tokenizer(path, load):
    llm = load(path, platform="null")
    with pytest.raises(RequestError, match="needs a tokenizer"):
        run(llm, [{"prompt_token_ids": [5]}], asking({"regex": "a"}))


def test_it_needs_an_end(engine, monkeypatch):
    monkeypatch.setattr("runtime.core.structured_output.backend.eos_token_ids", lambda *_: [])
    from runtime.core.structured_output.validator import StructuredOutputValidator

    validator = StructuredOutputValidator(engine.engine.config, engine.get_tokenizer())
    with pytest.raises(RequestError, match="no end-of-sequence token"):
        validator.check(StructuredOutputs(regex="a"))


def test_an_unknown_backend_is_refused_before_loading(path, load):
    with pytest.raises(ValueError, match="structured_outputs_backend='acme' is not registered"):
        load(path, structured_outputs_backend="acme")


def test_beam_search_has_no_such_parameter():
    with pytest.raises(TypeError, match="structured_outputs"):
        BeamSearchParams(beam_width=2, max_tokens=3, structured_outputs=None)


def test_a_real_model_fills_a_schema(smollm2_path):
    with LLM(smollm2_path, max_model_len=512, max_num_seqs=4, use_tqdm_on_load=False) as llm:
        given = [{"json": SCHEMA}, {"choice": ["yes", "no"]}, {"regex": "[0-9]{3}"}]
        prompts = ["A person as JSON: ", "Is water wet? ", "A number: "]
        params = [asking(one, temperature=0) for one in given]
        outputs = run(llm, prompts, [*params])
        assert [one.finish_reason for one in outputs] == ["stop"] * 3
        assert is_json(outputs[0].text)
        assert outputs[1].text in ("yes", "no")
        assert re.fullmatch("[0-9]{3}", outputs[2].text)
        (long,) = run(llm, prompts[:1], asking(given[0], temperature=0, min_tokens=64))
        assert is_json(long.text)
