"""The flags of ``runtime serve``: where their values come from, and their help."""

import dataclasses
import re

import pytest

from runtime.core.config.args import EngineArgs
from runtime.core.entrypoints.cli.main import build_parser, main, with_dashes
from runtime.core.entrypoints.cli.serve import arguments
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.errors import ConfigError


@pytest.fixture
def parse(tmp_path):
    """``parse(*words, config=YAML text) -> (EngineArgs, ServerArgs)``."""

    def run(*words, config=None):
        words = ["serve", *words]
        if config is not None:
            path = tmp_path / "config.yaml"
            path.write_text(config)
            words += ["--config", str(path)]
        return arguments(build_parser().parse_args([with_dashes(word) for word in words]))

    return run


def test_defaults_are_those_of_the_dataclasses(parse):
    assert parse("m") == (EngineArgs(model="m"), ServerArgs())


def test_every_field_has_help_and_a_group():
    for field in dataclasses.fields(ServerArgs):
        assert field.metadata["help"], field.name
        assert field.metadata["group"], field.name
    names = [field.name for cls in (EngineArgs, ServerArgs) for field in dataclasses.fields(cls)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("words", [["m"], ["--model", "m"], ["m", "--model", "m"]])
def test_a_model_is_named_in_either_way(parse, words):
    assert parse(*words)[0].model == "m"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "a model is required: MODEL or --model MODEL"),
        (["a", "--model", "b"], "two models are given: 'a' and --model 'b'"),
        (["m", "--max-model-len", "x"], "'x' is not an integer or 'auto'"),
        (["m", "--port", "many"], "'many' is not an integer"),
        (["m", "--uvicorn-log-level", "loud"], "invalid choice: 'loud'"),
        (["m", "--allowed-origins", "[1"], "--allowed-origins"),
    ],
)
def test_a_wrong_command_line_is_usage(parse, capsys, words, expected):
    with pytest.raises(SystemExit) as caught:
        parse(*words)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_lists_take_words_and_repetitions_and_json(parse):
    _, server = parse("m", "--api-key", "a", "b", "--api-key", "c", "--served_model_name", "x")
    assert server.api_key == ("a", "b", "c")
    assert server.served_model_name == ("x",)
    assert parse("m", "--allowed-origins", '["a", "b"]')[1].allowed_origins == ("a", "b")
    assert parse("m", "--allowed-origins", "c")[1].allowed_origins == ("c",)


CONFIG = """
model: from-file
max-model-len: 32K
max_num_seqs: 7
enable-prefix-caching: false
port: 9000
api-key: [a, b]
additional-config: {acme: {speed: 3}}
"""


def test_a_config_file_gives_values_and_the_command_line_wins(parse):
    engine, server = parse(config=CONFIG)
    assert (engine.model, engine.max_model_len, engine.max_num_seqs) == ("from-file", 32768, 7)
    assert engine.enable_prefix_caching is False
    assert engine.additional_config == {"acme": {"speed": 3}}
    assert (server.port, server.api_key) == (9000, ("a", "b"))
    engine, server = parse("m", "--port", "8000", "--api-key", "c", config=CONFIG)
    # Also where the command line says what the default is.
    assert (engine.model, server.port, server.api_key) == ("m", 8000, ("c",))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("max-model-length: 3", "'max-model-length' is no flag.*did you mean max-model-len"),
        ("zzz: 3", "'zzz' is no flag"),
        ("port: x", "port: 'x' is not an integer"),
        ("port: true", "port: true is not an integer"),
        ("enable-log-requests: 1", "enable-log-requests: 1 is not true or false"),
        ("dtype: float8", "dtype: 'float8' is not one of"),
        ("- port", "must hold 'flag: value' lines"),
        ("port: 1\nport_: 2", "'port_' is no flag"),
        ("max-num-seqs: 1\nmax_num_seqs: 2", "'max_num_seqs' is given twice"),
        ("a: [", "not YAML"),
        ("config: other.yaml", "'config' is no flag"),
        ("3: 4", "3 is no flag"),
    ],
)
def test_a_wrong_config_file_is_one_line_that_names_the_key(parse, config, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        parse("m", config=config)
    assert "\n" not in str(caught.value)


def test_an_empty_config_file_says_nothing(parse):
    assert parse("m", config="# nothing\n") == (EngineArgs(model="m"), ServerArgs())


def test_a_config_file_that_is_not_there_is_one_line(capsys):
    assert main(["serve", "m", "--config", "/no/such.yaml"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def help_of(capsys):
    def show(word):
        with pytest.raises(SystemExit) as caught:
            main(["serve", word])
        out = capsys.readouterr()
        return caught.value.code, out.out, out.err

    return show


def test_the_short_help_has_common_flags_and_all_groups(help_of):
    code, text, _ = help_of("--help")
    assert code == 0
    assert "--max-model-len" in text
    assert "--ssl-certfile" not in text
    for cls in (EngineArgs, ServerArgs):
        for field in dataclasses.fields(cls):
            assert field.metadata["group"] in text


@pytest.mark.parametrize("word", ["--help=Security", "--help=security"])
def test_help_of_a_group_has_its_flags_alone(help_of, word):
    code, text, _ = help_of(word)
    assert code == 0
    for field in dataclasses.fields(ServerArgs):
        flag = f"--{field.name.replace('_', '-')}"
        there = re.search(rf"^  {flag}\b", text, re.MULTILINE) is not None
        assert there is (field.metadata["group"] == "Security"), flag


def test_help_of_a_flag(help_of):
    code, text, _ = help_of("--help=max_num")
    assert code == 0
    assert "--max-num-seqs" in text
    assert "--port" not in text


def test_the_whole_help_has_every_flag(help_of):
    code, text, _ = help_of("--help=all")
    assert code == 0
    for cls in (EngineArgs, ServerArgs):
        for field in dataclasses.fields(cls):
            assert f"--{field.name.replace('_', '-')}" in text


def test_help_of_what_does_not_exist_lists_the_groups(help_of):
    code, _, error = help_of("--help=nothing-like-it")
    assert code == 2
    assert "Security" in error
