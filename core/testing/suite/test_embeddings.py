"""Whole models that pool: embeddings equal transformers', whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.core.entrypoints.llm import LLM
from runtime.core.platform.interface import Platform
from runtime.core.testing.models import TinyBody, random_prompts

MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert, mean": ("bert", {"pooler_config": {"pooling_type": "MEAN"}}),
    "bert, first token": ("bert", {"pooler_config": {"pooling_type": "CLS"}}),
    "bert, several steps": ("bert", {"max_num_batched_tokens": 64, "max_num_seqs": 4}),
    "llama, last token": ("llama", {}),
    "llama, mean in small chunks": (
        "llama",
        {
            "pooler_config": {"pooling_type": "MEAN"},
            "max_num_batched_tokens": 16,
            "max_num_seqs": 4,
        },
    ),
}
"""A model, and how it is loaded."""
POSITIONS = 64
NEAR = 1e-3
"""Elements of vectors of length 1 may differ by this: sums of float32 in another order do."""


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make a tiny random model once: ``bodies("bert")``."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, TinyBody] = {}

    def make(kind: str) -> TinyBody:
        if kind not in made:
            folder: Path = tmp_path_factory.mktemp(kind)
            made[kind] = TinyBody(transformers, kind, folder, POSITIONS)
        return made[kind]

    return make


@pytest.fixture
def engine(platform: Platform, threads: None, bodies: Any, model: str) -> Iterator[tuple[LLM, Any]]:
    """The engine of a model, and transformers' model of it."""
    if "float32" not in platform.capabilities.dtypes:
        pytest.skip("the platform does not run float32, in which embeddings can be compared")
    kind, settings = MODELS[model]
    body = bodies(kind)
    options = {"skip_tokenizer_init": True, "dtype": "float32", "use_tqdm_on_load": False}
    llm = LLM(str(body.path), platform=platform, **options, **settings)
    yield llm, body
    llm.shutdown()


@pytest.mark.parametrize("model", list(MODELS))
def test_agreement(platform: Platform, engine: tuple[LLM, Any], model: str) -> None:
    """Gives the embeddings of transformers, together and alone, and again from the cache."""
    llm, body = engine
    config = llm.engine.config.model.pooling
    assert config is not None
    prompts = random_prompts()
    for name, batches in (
        ("together", [prompts]),
        ("alone", [[prompt] for prompt in prompts]),
        ("together again, the other way round", [prompts[::-1]]),
    ):
        for batch in batches:
            requests: Any = [{"prompt_token_ids": prompt} for prompt in batch]
            for prompt, output in zip(batch, llm.encode(requests, use_tqdm=False), strict=True):
                states = body.hidden_states(prompt)
                wanted = {"MEAN": states.mean(0), "CLS": states[0], "LAST": states[-1]}[config.type]
                wanted = torch.nn.functional.normalize(wanted, dim=0)
                error = float((output.outputs.data - wanted).abs().max())
                if not error < NEAR:
                    pytest.fail(
                        f"platform {platform.name}, {model}, {name}: the embedding of a prompt of "
                        f"{len(prompt)} tokens is {error:.3g} from transformers'"
                    )
