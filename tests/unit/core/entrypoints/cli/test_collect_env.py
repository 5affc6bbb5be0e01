"""Commands that must work where the installation does not."""

import json

import pytest

BROKEN_TORCH = "raise OSError('libacme.so.12: cannot open shared object file')\n"

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 97,
}

GENERATE = """
from runtime import LLM, SamplingParams

llm = LLM(model="tiny", platform="cpu", load_format="dummy", skip_tokenizer_init=True)
params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True, detokenize=False)
(output,) = llm.generate([{"prompt_token_ids": [1, 2, 3]}], params)
print(len(output.outputs[0].token_ids))
"""


@pytest.fixture
def broken_torch(site):
    """A site where importing torch raises as it does without the device's libraries."""
    site.module("torch", BROKEN_TORCH)
    return site


def test_collect_env_says_that_torch_is_broken_and_goes_on(broken_torch):
    done = broken_torch.run("collect-env")
    assert done.returncode == 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("torch: ")]
    assert line.startswith(
        "torch: import failed: OSError: libacme.so.12: cannot open shared object file (installed: "
    )
    assert "plugin cpu (runtime " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("platform cpu: ")


def test_collect_env_survives_broken_plugins(site):
    site.module("torch", BROKEN_TORCH)
    site.install_platform("left", probe="import torch")
    site.install_general("models", "raise SystemExit(7)")
    facts = json.loads(site.run("collect-env", "--json").stdout)
    states = {row["name"]: (row["state"], row["reason"]) for row in facts["plugins"]}
    assert states["left"][0] == "failed"
    assert states["left"][1].startswith("OSError: libacme.so.12")
    assert states["models"] == ("failed", "SystemExit: 7")
    assert facts["platform"].startswith("cpu: ")


def test_collect_env_says_why_no_platform_was_chosen(broken_torch):
    done = broken_torch.run("collect-env", "--json", VLLM_TARGET_DEVICE="toaster")
    assert done.returncode == 0
    assert json.loads(done.stdout)["platform"] == (
        "none: platform 'toaster' (asked for by VLLM_TARGET_DEVICE) is not installed; "
        "installed: cpu, cuda, null"
    )


def test_collect_env_prints_variables_but_no_secrets(broken_torch):
    variables = {"VLLM_HOST_IP": "10.1.2.3", "VLLM_API_KEY": "s3cret", "HF_TOKEN": "s3cret"}
    done = broken_torch.run("collect-env", "--json", PLAIN="s3cret", **variables)
    environment = json.loads(done.stdout)["environment"]
    assert environment["VLLM_HOST_IP"] == "10.1.2.3"
    assert environment["VLLM_API_KEY"] == environment["HF_TOKEN"] == "(hidden)"
    assert "s3cret" not in done.stdout


def test_collect_env_names_what_is_installed_and_what_is_not(broken_torch):
    packages = json.loads(broken_torch.run("collect-env", "--json").stdout)["packages"]
    assert packages["pluggy"][0].isdigit()
    assert packages["torch"].startswith("import failed: OSError: ")


def test_collect_env_imports_a_working_torch(site):
    site.module("torch", "__version__ = '9.9.9+acme'\nget_num_threads = lambda: 3\n")
    packages = json.loads(site.run("collect-env", "--json").stdout)["packages"]
    assert packages["torch"] == "9.9.9+acme (3 threads)"


def test_the_plugins_are_listed_without_torch(broken_torch):
    assert broken_torch.plugins().selected == ["cpu"]


def test_generating_on_the_cpu_imports_no_package_that_it_does_not_need(site):
    site.install("flashinfer", "raise RuntimeError('flashinfer needs a device')\n")
    (site.folder / "tiny").mkdir()
    (site.folder / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    done = site.python("-c", GENERATE)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert site.events() == []


KERNELS = """
from runtime.core.platform.interface import KernelLibrary

class Device(Device):
    @property
    def kernel_libraries(self):
        {body}
"""


def install_with_kernels(site, body):
    site.install_platform("left")
    with (site.folder / "acme_left.py").open("a") as file:
        file.write(KERNELS.format(body=body))


def test_collect_env_shows_what_kernels_were_built_for_and_what_was_found(broken_torch):
    install_with_kernels(
        broken_torch,
        "return [KernelLibrary('acme-kernels', '2.11', '1.4'), "
        "KernelLibrary('acme-extra', '2.12', None)]",
    )
    lines = broken_torch.run("collect-env").stdout.splitlines()
    assert "kernels of left: acme-kernels found 1.4, built for torch 2.11" in lines
    assert "kernels of left: acme-extra found missing, built for torch 2.12" in lines
    facts = json.loads(broken_torch.run("collect-env", "--json").stdout)
    assert facts["kernel_libraries"][0] == {
        "platform": "left",
        "name": "acme-kernels",
        "built_for": "2.11",
        "found": "1.4",
    }


def test_collect_env_survives_kernels_that_cannot_be_asked(broken_torch):
    install_with_kernels(broken_torch, "import torch")
    lines = broken_torch.run("collect-env").stdout.splitlines()
    assert any(line.startswith("kernels of left: OSError: libacme.so.12") for line in lines)
