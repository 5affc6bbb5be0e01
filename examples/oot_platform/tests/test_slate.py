"""Every seam is used, and the tokens are those of transformers."""

import dataclasses
import logging

import pytest
import slate_platform
import torch
import transformers
from slate_platform.attention import SlateBackend
from slate_platform.engine import SlateCommunicator, SlateModelRunner, SlateSampler, SlateScheduler
from slate_platform.platform import SlatePlatform
from slate_platform.roles import SlateMemory

from runtime import LLM, SamplingParams
from runtime.core import ops
from runtime.core.distributed.processes import start_method
from runtime.core.errors import ConfigError
from runtime.core.platform.select import select_platform
from runtime.plugins import PLUGIN_API_VERSION

PROMPTS = [[5], [7, 8, 9], list(range(10, 50)), [9] * 17]


@pytest.fixture(scope="module")
def llm(model):
    with LLM(str(model), platform="slate", skip_tokenizer_init=True, dtype="float32") as llm:
        yield llm


@pytest.fixture(scope="module")
def worker(llm):
    return llm.engine.core.executor._worker


def greedy(llm, prompts, count=24):
    params = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    return [output.outputs[0].token_ids for output in outputs]


def test_it_is_chosen_before_the_built_in_ones():
    selection = select_platform()
    assert selection.platform.name == "slate"
    assert "simulated" in selection.reason


def test_tokens_equal_transformers(llm, model):
    reference = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    reference.generation_config.eos_token_id = None
    expected = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        out = reference.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=24,
            pad_token_id=0,
        )
        expected.append(out[0, len(prompt) :].tolist())
    assert greedy(llm, PROMPTS) == expected


def test_its_policy_is_followed(llm):
    config = llm.engine.config
    assert config.scheduler.max_num_seqs == 16
    assert config.cache.block_size == 8
    assert config.parallel.device_ids == (1,), "the last device first"
    assert config.platform.policy.place_workers(2, 3) == range(2, 0, -1)
    with pytest.raises(ConfigError, match="4 workers need 4 devices"):
        config.platform.policy.place_workers(4, 3)
    assert config.additional_config["slate"] == {"tiles": 4}


def test_its_ops_serve_and_the_reference_takes_what_they_do_not():
    assert ops.rms_norm.installed["cpu"].provider == "slate"
    assert ops.silu_and_mul.installed["cpu"].provider == "slate"
    x, weight = torch.randn(3, 7), torch.randn(7)
    torch.testing.assert_close(
        ops.rms_norm(x, weight, 1e-5), ops.rms_norm.definition.reference(x, weight, 1e-5)
    )


def test_its_attention_backend_serves_with_its_own_layout(worker):
    for layer in worker.runner.attention_layers.values():
        assert layer.backend is SlateBackend
        assert layer.kv_cache.shape[1] == 2
        assert SlateBackend.reasons_against(layer.spec) == []
        windowed = dataclasses.replace(layer.spec, sliding_window=4)
        assert SlateBackend.reasons_against(windowed) == ["sliding_window is not implemented"]


def test_attention_follows_what_the_runner_says_of_the_step(llm, worker):
    # The tokens of the last step, divided among four tiles.
    for prompts, count, rows in (([[11] * 17], 1, 5), (PROMPTS[:2], 3, 1)):
        greedy(llm, prompts, count)
        assert {layer.impl.rows for layer in worker.runner.attention_layers.values()} == {rows}


def test_linear_layers_are_in_its_layout(worker):
    assert worker.runner.model.layers[0].mlp.down_proj.weight.shape == (64, 32)


def test_the_parts_of_the_engine_are_its_own(llm, worker):
    rows = worker.runner.sampler.rows
    greedy(llm, PROMPTS[:2], 3)
    assert isinstance(worker.runner, SlateModelRunner)
    assert isinstance(worker.runner.sampler, SlateSampler)
    assert worker.runner.sampler.rows - rows == 6
    assert isinstance(llm.engine.core.scheduler, SlateScheduler)
    assert worker.kv_cache_bytes(800) == 700


def test_short_prompts_are_taken_first(llm):
    scheduler = llm.engine.core.scheduler
    for number, prompt in enumerate(([3] * 9, [3] * 2, [3] * 5)):
        params = SamplingParams(max_tokens=1)
        llm.engine.add_request(str(number), {"prompt_token_ids": prompt}, params)
    assert [request.num_prompt_tokens for request in scheduler.waiting] == [2, 5, 9]
    llm.engine.abort(["0", "1", "2"])


def test_memory_is_accounted_for_and_runs_out(model, monkeypatch):
    memory = select_platform("slate").platform.memory
    before = memory.info().free
    block = memory.zeros((1024, 256), torch.float32)
    assert before - memory.info().free == 1 << 20
    del block
    assert memory.info().free == before
    with pytest.raises(MemoryError) as caught:
        memory.zeros((1 << 40,), torch.uint8)
    assert memory.is_out_of_memory(caught.value)
    assert memory.info().free == before


def test_it_reads_its_environment_variables(monkeypatch):
    assert set(SlatePlatform.environment) == {"SLATE_DEVICES", "SLATE_MEMORY"}
    monkeypatch.setenv("SLATE_MEMORY", "0.5")
    assert SlateMemory().info().total == 1 << 29
    monkeypatch.setenv("SLATE_MEMORY", "much")
    with pytest.raises(ConfigError, match="SLATE_MEMORY='much' is not a size"):
        SlateMemory()
    monkeypatch.setenv("SLATE_DEVICES", "3")
    assert SlatePlatform().devices.count() == 3
    monkeypatch.setenv("SLATE_DEVICES", "few")
    probe = SlatePlatform.probe()
    assert not probe.available
    assert "SLATE_DEVICES='few'" in probe.reason


def test_it_says_how_processes_start_and_the_user_may_say_otherwise():
    platform = select_platform("slate").platform
    assert start_method(platform, {}) == "forkserver"
    assert start_method(platform, {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}) == "spawn"


def test_it_says_which_plugin_api_it_was_written_for():
    major, minor = slate_platform.runtime_plugin_api
    assert major == PLUGIN_API_VERSION[0]
    assert minor <= PLUGIN_API_VERSION[1]


@pytest.mark.parametrize("values", [{"tiles": 0}, {"colour": 1}, {"tiles": "four"}])
def test_its_settings_are_checked(model, values):
    with pytest.raises(ConfigError, match="slate"):
        LLM(str(model), skip_tokenizer_init=True, additional_config={"slate": values})


def test_it_logs_under_its_own_name(model, caplog):
    with caplog.at_level(logging.INFO):
        LLM(str(model), skip_tokenizer_init=True, additional_config={"slate": {"tiles": 9}})
    lines = {(record.name, record.message) for record in caplog.records}
    assert ("slate_platform.attention", "2 layers follow the runner") in lines
    assert "device 1, 9 tiles" in caplog.text


def test_it_sums_in_the_order_of_ranks(tmp_path):
    platform = select_platform("slate").platform
    assert platform.communicator_class.endswith(SlateCommunicator.__name__)
    group = SlateCommunicator(platform, 0, 1, f"file://{tmp_path / 'meet'}")
    assert group.all_reduce(torch.ones(3)).tolist() == [1.0, 1.0, 1.0]
    group.close()
