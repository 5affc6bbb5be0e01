import pytest
import torch

from runtime.core.testing.models import MODELS, TinyModel, random_prompts


@pytest.fixture(scope="module", params=list(MODELS))
def model(request, tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    before = torch.random.get_rng_state()
    made = TinyModel(transformers, request.param, tmp_path_factory.mktemp("model"))
    assert torch.equal(torch.random.get_rng_state(), before), "the default generator has moved"
    return made


def generated(model, prompt, count):
    ids = torch.tensor([prompt])
    options = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "eos_token_id": None}
    with torch.inference_mode():
        out = model.model.generate(ids, do_sample=False, max_new_tokens=count, **options)
    return out[0, len(prompt) :].tolist()


def test_what_transformers_generates_has_no_difference(model):
    for prompt in random_prompts((1, 20)):
        assert model.first_difference(prompt, generated(model, prompt, 16)) is None


def test_one_other_token_is_found_and_told(model):
    (prompt,) = random_prompts((9,))
    tokens = generated(model, prompt, 8)
    right = tokens[4]
    tokens[4] = right % 256 + 1
    told = model.first_difference(prompt, tokens)
    assert told.startswith(f"token 5 after a prompt of 9 is {tokens[4]}, transformers has {right},")


def test_prompts_are_the_same_in_every_run():
    assert random_prompts() == random_prompts()
    assert [len(prompt) for prompt in random_prompts((3, 1))] == [3, 1]
