"""The examples of docs/plugins.md, installed as they are printed there."""

import json
import re
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
GROUPS = {"runtime.platform_plugins": "platforms", "runtime.general_plugins": "general"}

CONFIG = {
    "architectures": ["AcmeForCausalLM"],
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

llm = LLM(model="tiny", load_format="dummy", skip_tokenizer_init=True)
params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True, detokenize=False)
outputs = llm.generate([{"prompt_token_ids": [1, 2, 3]}, {"prompt_token_ids": [4]}], params)
print([len(output.outputs[0].token_ids) for output in outputs])
"""


@pytest.fixture
def documented(site):
    """A site with everything that the page shows."""
    blocks = re.findall(r"^```\w+\n# (\S+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    modules = {name: text for name, text in blocks if name.endswith(".py")}
    projects = [tomllib.loads(text) for name, text in blocks if name == "pyproject.toml"]
    assert len(projects) == 2
    for project in (project["project"] for project in projects):
        points = {GROUPS[group]: named for group, named in project["entry-points"].items()}
        module = project["name"].replace("-", "_")
        source = modules.pop(f"{module}.py")
        site.install(project["name"], source, version=project["version"], **points)
    for name, text in modules.items():
        site.module(name.removesuffix(".py"), text)
    return site


def test_the_examples_are_found_and_chosen(documented):
    listing = documented.plugins()
    assert listing.selected == ["acme"]
    assert listing["acme"]["distribution"] == "acme-runtime"
    assert listing.states["acme-models"] == "available"
    assert not listing.warnings


def test_the_example_of_hooks_is_found_and_chosen(documented):
    (points,) = documented.folder.glob("acme_runtime-*/entry_points.txt")
    points.write_text(points.read_text().replace("acme_runtime:register", "acme_hooks"))
    listing = documented.plugins()
    assert listing["acme"]["value"] == "acme_hooks"
    assert listing.selected == ["acme"]


def test_the_example_platform_generates_with_the_example_model(documented):
    (documented.folder / "tiny").mkdir()
    (documented.folder / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    done = documented.python("-c", GENERATE)
    assert (done.returncode, done.stdout) == (0, "[5, 5]\n"), done.stderr
