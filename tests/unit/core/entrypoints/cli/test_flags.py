"""The command line has a flag for each of the engine's arguments, and no other source."""

import argparse
import dataclasses

import pytest

from runtime.core.config.args import EngineArgs
from runtime.core.entrypoints.cli.flags import add_engine_flags, engine_args
from runtime.core.entrypoints.cli.main import build_parser, main, with_dashes


@pytest.fixture
def parse():
    def run(*words):
        parser = argparse.ArgumentParser()
        add_engine_flags(parser)
        return engine_args(parser.parse_args(words), parser)

    return run


def test_defaults_are_those_of_the_dataclass(parse):
    assert parse("m") == EngineArgs(model="m")
    assert parse("--model", "m") == EngineArgs(model="m")
    assert parse("m", "--model", "m") == EngineArgs(model="m")


def test_every_field_has_help_and_a_group():
    for field in dataclasses.fields(EngineArgs):
        assert field.metadata["help"], field.name
        assert field.metadata["group"], field.name


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--max-num-seqs", "3"], "max_num_seqs", 3),
        (["--max-model-len", "auto"], "max_model_len", "auto"),
        (["--max-model-len", "77"], "max_model_len", 77),
        (["--no-enable-prefix-caching"], "enable_prefix_caching", False),
        (["--enforce-eager"], "enforce_eager", True),
        (["--dtype", "bfloat16"], "dtype", "bfloat16"),
        (["--platform", "null"], "platform", "null"),
    ],
)
def test_flags_are_typed(parse, words, field, value):
    assert getattr(parse("m", *words), field) == value


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--max_num_seqs", "--max-num-seqs"),
        ("--max_num_seqs=a_b", "--max-num-seqs=a_b"),
        ("a_b", "a_b"),
        ("-x_y", "-x_y"),
    ],
)
def test_underscores_are_dashes(word, expected):
    assert with_dashes(word) == expected


def test_without_a_command_help_is_printed(capsys):
    assert main([]) == 2
    assert "generate" in capsys.readouterr().out


def test_every_command_has_help(capsys):
    commands = build_parser()._subparsers._group_actions[0].choices
    assert set(commands) >= {
        "generate",
        "chat",
        "plugins",
        "ops",
        "conformance",
        "collect-env",
        "new-model",
    }
    for name in commands:
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0
        assert name in capsys.readouterr().out


def test_a_bad_logging_level_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "chatty")
    assert main(["ops"]) == 2
    assert "VLLM_LOGGING_LEVEL='CHATTY'" in capsys.readouterr().err


def test_ops_names_the_provider_of_each(capsys):
    import json

    assert main(["ops", "--json", "--platform", "cpu"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["op"] for row in rows} >= {"rms_norm", "paged_attention", "write_kv_cache"}
    assert all(row["provider"] for row in rows)
