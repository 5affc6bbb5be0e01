"""Whole models: greedy tokens equal transformers', however the engine is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from runtime.core.entrypoints.llm import LLM
from runtime.core.platform.interface import Platform
from runtime.core.sampling.params import SamplingParams
from runtime.core.testing.models import MODELS, TinyModel, random_prompts

TOKENS = 30
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "as the platform would": {},
    "eager": {"enforce_eager": True},
    "without prefix caching": {"enable_prefix_caching": False},
    "eager, without prefix caching": {"enforce_eager": True, "enable_prefix_caching": False},
    "in small chunks": {"max_num_batched_tokens": 16, "max_num_seqs": 4},
}


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TinyModel]:
    """Make a tiny random model once: ``tiny_model("llama")``."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, TinyModel] = {}

    def make(kind: str) -> TinyModel:
        if kind not in made:
            made[kind] = TinyModel(transformers, kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return make


@pytest.fixture
def load(platform: Platform, threads: None) -> Any:
    """Load a model on the platform in float32; shut down after the test."""
    if "float32" not in platform.capabilities.dtypes:
        pytest.skip("the platform does not run float32, in which tokens can be compared")
    loaded = []

    def make(model: TinyModel, **settings: Any) -> LLM:
        options = {"max_num_seqs": 16, **settings}
        llm = LLM(
            str(model.path),
            platform=platform,
            skip_tokenizer_init=True,
            dtype="float32",
            use_tqdm_on_load=False,
            **options,
        )
        loaded.append(llm)
        return llm

    yield make
    for llm in loaded:
        llm.shutdown()


def _check(
    platform: Platform, llm: LLM, model: TinyModel, prompts: list[list[int]], what: str
) -> None:
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    for prompt, output in zip(prompts, outputs, strict=True):
        tokens = output.outputs[0].token_ids
        assert len(tokens) == TOKENS, f"platform {platform.name}, {what}: {len(tokens)} tokens"
        difference = model.first_difference(prompt, tokens)
        if difference is not None:
            pytest.fail(f"platform {platform.name}, {what}: {difference}")


@pytest.mark.parametrize("settings", list(SETTINGS))
@pytest.mark.parametrize("model", list(MODELS))
def test_parity(
    platform: Platform,
    load: Any,
    tiny_model: Callable[[str], TinyModel],
    model: str,
    settings: str,
) -> None:
    """Gives the tokens of transformers, and again where they may be cached."""
    own = tiny_model(model)
    llm = load(own, **SETTINGS[settings])
    for turn in ("first", "second"):
        _check(platform, llm, own, random_prompts(), f"{model} {settings}, {turn} time")


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("eager", [True, False])
def test_preemption(
    platform: Platform,
    load: Any,
    tiny_model: Callable[[str], TinyModel],
    eager: bool,
    caching: bool,
) -> None:
    """Gives the tokens of transformers when requests are preempted."""
    own, size = tiny_model("llama"), platform.capabilities.kv_block_size
    # Four prompts that fill the pool but for some slots in their own last blocks: they all start,
    # and cannot all go on.
    blocks = -(-50 // size)
    length = max(1, blocks * size - 10)
    llm = load(
        own,
        max_num_seqs=4,
        max_model_len=length + TOKENS,
        num_kv_blocks_override=4 * blocks + 1,
        max_num_batched_tokens=length + TOKENS,
        enforce_eager=eager,
        enable_prefix_caching=caching,
    )
    prompts = random_prompts([length] * 4)
    _check(platform, llm, own, prompts, f"llama preempted, eager {eager}, caching {caching}")
    assert llm.engine.core.scheduler.stats.num_preemptions > 0, "nothing was preempted"
