"""Prompts of the command line reach the engine as they were given, and results are printed."""

import io
import json
from types import SimpleNamespace

import pytest

from runtime import CompletionOutput, RequestOutput
from runtime.core.entrypoints.cli import generate
from runtime.core.entrypoints.cli.main import main


class Engine:
    """Stands for ``LLM``: keeps what it is asked and answers each prompt with one token."""

    def __init__(self):
        self.asked = None
        self.conversations = None
        self.params = None
        generation = {"temperature": 0.5, "top_k": 7}
        self.engine = SimpleNamespace(
            config=SimpleNamespace(model=SimpleNamespace(generation=generation))
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def generate(self, prompts, params):
        self.asked, self.params = prompts, params
        return [self.answer(i, prompt) for i, prompt in enumerate(prompts)]

    def chat(self, conversations, params):
        self.conversations, self.params = conversations, params
        return [self.answer(i, "<|user|>…") for i, _ in enumerate(conversations)]

    @staticmethod
    def answer(index, prompt):
        return RequestOutput(
            request_id=str(index),
            prompt=prompt if isinstance(prompt, str) else None,
            prompt_token_ids=[1, 2],
            outputs=[CompletionOutput(0, " yes\n", [9], "stop", "END")],
            finished=True,
            num_cached_tokens=1,
            metrics={"arrival_time": 10.0, "first_token_time": 10.25, "finished_time": 11.5},
        )


@pytest.fixture
def engine(monkeypatch):
    """The engine that the command opens; ``asked`` stays None where it opened none."""
    engine = Engine()
    monkeypatch.setattr(generate, "open_llm", lambda args, parser: engine)
    return engine


@pytest.fixture
def lines(tmp_path):
    """Write a file of prompts: ``lines("a.jsonl", text) -> path``."""

    def write(name, text, encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write


def test_flags_come_before_the_file(engine, lines):
    file = lines("prompts.txt", "three\n\n  \nfour")
    assert main(["generate", "m", "--prompt", "one", "--prompt-file", file, "--prompt", "two"]) == 0
    assert engine.asked == ["one", "two", "three", "four"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_lines_end_at_line_feeds_alone(engine, lines, encoding):
    text = 'one\u2028still one\x0c\x85\r\ntwo\\n\n{"prompt": "three"}\n'
    main(["generate", "m", "--prompt-file", lines("prompts.txt", text, encoding)])
    assert engine.asked == ["one\u2028still one\x0c\x85", "two\\n", '{"prompt": "three"}']


def test_json_lines(engine, lines):
    rows = [{"prompt": "a\u2028b"}, "c", {"prompt_token_ids": [4, 5]}]
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    main(["generate", "m", "--prompt-file", lines("prompts.jsonl", text)])
    assert engine.asked == rows


def test_standard_input(engine, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    main(["generate", "m", "--prompt-file", "-"])
    assert engine.asked == ["one", "two"]


@pytest.mark.parametrize("prompt", ["--no_flag of ours", "a_b --c_d", "-x_y z"])
def test_a_prompt_that_looks_like_a_flag_is_left_alone(engine, prompt):
    main(["generate", "m", "--prompt", prompt])
    assert engine.asked == [prompt]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.jsonl", '"a"\n{"prompt":\n', "p.jsonl:2: not JSON"),
        ("p.jsonl", "\n[1, 2]\n", "p.jsonl:2: neither a string nor an object"),
        ("p.txt", "\ud800", "p.txt: 'utf-8' codec can't decode"),
    ],
)
def test_a_bad_file_is_one_line_and_opens_no_model(engine, tmp_path, capsys, name, text, message):
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogatepass"))
    assert main(["generate", "m", "--prompt-file", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert engine.asked is None


def test_chat_wraps_each_prompt(engine, lines, capsys):
    file = lines("p.jsonl", '{"prompt": "second"}')
    assert main(["generate", "m", "--chat", "--prompt", "first", "--prompt-file", file]) == 0
    assert engine.conversations == [
        [{"role": "user", "content": "first"}],
        [{"role": "user", "content": "second"}],
    ]
    assert capsys.readouterr().out.startswith("Prompt: first\n")


def test_chat_refuses_token_ids_before_it_opens_the_model(monkeypatch, lines, capsys):
    monkeypatch.setattr(generate, "open_llm", lambda *_: pytest.fail("opened"))
    file = lines("p.jsonl", '{"prompt_token_ids": [4]}')
    assert main(["generate", "m", "--chat", "--prompt-file", file]) == 2
    assert "--chat needs prompts that are text" in capsys.readouterr().err


def test_json_output_is_a_line_a_prompt(engine, capsys):
    main(["generate", "m", "--prompt", "é\n", "--prompt", "b", "--json"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["request_id"], second["request_id"]) == ("0", "1")
    assert first == {
        "request_id": "0",
        "prompt": "é\n",
        "prompt_token_ids": [1, 2],
        "num_cached_tokens": 1,
        "outputs": [
            {
                "index": 0,
                "text": " yes\n",
                "token_ids": [9],
                "finish_reason": "stop",
                "stop_reason": "END",
            }
        ],
        "first_token_s": 0.25,
        "total_s": 1.5,
    }


def test_text_output_has_the_prompt_and_why_it_ended(engine, capsys):
    main(["generate", "m", "--prompt", "Really?"])
    assert capsys.readouterr().out == "Prompt: Really?\nOutput (stop, 1 tokens): yes\n\n"


def test_flags_go_over_the_models_own_defaults(engine):
    main(["generate", "m", "--prompt", "x", "--top_k", "3", "--max-tokens", "5", "--stop", "a b"])
    assert engine.params.temperature == 0.5
    assert engine.params.top_k == 3
    assert engine.params.max_tokens == 5
    assert list(engine.params.stop) == ["a b"]
