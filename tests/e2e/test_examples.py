"""The example packages install, are found, and pass their own tests."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def found(text, name):
    return next(row for row in json.loads(text) if row["name"] == name)


def test_the_platform(own_tests, tiny_model, tmp_path):
    package = EXAMPLES / "oot_platform"
    assert "passed" in own_tests(package)
    assert found(own_tests(package, "plugins", "--json"), "slate")["state"] == "selected"
    assert "SLATE_MEMORY" in own_tests(package, "plugins", "--explain", "slate")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt_token_ids": [3, 4, 5]}\n')
    words = ["generate", tiny_model("llama"), "--skip-tokenizer-init", "--prompt-file", prompts]
    words += ["--temperature", 0, "--max-tokens", 8, "--json"]
    tokens = [
        json.loads(own_tests(package, *words, "--platform", name))["outputs"][0]["token_ids"]
        for name in ("slate", "cpu")
    ]
    assert tokens[0] == tokens[1]


@pytest.mark.timeout(600)
def test_the_platform_conforms(own_tests):
    report = own_tests(EXAMPLES / "oot_platform", "conformance", "--platform", "slate")
    assert re.search(r"^rms_norm +slate +float32 +pass ", report, re.M)
    assert re.search(r"^platform slate: \d+ pass, \d+ unsupported$", report, re.M)


def test_the_platform_is_filtered_by_name(own_tests):
    package = EXAMPLES / "oot_platform"
    for names, state, chosen in (("", "filtered", "cpu"), ("slate", "selected", "slate")):
        listing = own_tests(package, "plugins", "--json", VLLM_PLUGINS=names)
        assert found(listing, "slate")["state"] == state
        assert found(listing, chosen)["state"] == "selected"


def test_the_models(own_tests):
    package = EXAMPLES / "oot_model"
    assert "passed" in own_tests(package)
    assert found(own_tests(package, "plugins", "--json"), "parallel_llama")["state"] == "available"


@pytest.mark.parametrize("name", ["oot_platform", "oot_model"])
def test_they_are_small_and_use_public_names_only(name):
    files = [path for path in (EXAMPLES / name).rglob("*.py") if "tests" not in path.parts]
    assert 0 < sum(len(path.read_text().splitlines()) for path in files) < 300
    for path in files:
        assert not re.findall(r"import _|(?<!self)\._[a-z]", path.read_text()), path
    assert "Begin from it" in (EXAMPLES / name / "README.md").read_text()


def test_the_seams_are_tested_where_their_table_says():
    rows = (ROOT / "docs" / "seams.md").read_text().splitlines()
    named = {name for row in rows for name in re.findall(r"`(test_\w+)`", row)}
    tests = [*EXAMPLES.glob("*/tests/*.py"), *(ROOT / "tests" / "e2e").glob("*.py")]
    defined = set(re.findall(r"^def (test_\w+)", "\n".join(p.read_text() for p in tests), re.M))
    assert len(named) > 10
    assert named - defined == set()
