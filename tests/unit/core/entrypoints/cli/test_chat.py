"""The conversation that the terminal chat keeps, and what of it is printed."""

import io

import pytest

from runtime import CompletionOutput, RequestOutput, SamplingParams
from runtime.core.entrypoints.cli.chat import converse, pieces
from runtime.core.errors import RequestError


class Model:
    """Answers with prepared texts, cumulatively, and keeps the conversations that it saw."""

    def __init__(self, *answers):
        self.answers = iter(answers)
        self.seen = []

    def stream_chat(self, messages, params):
        self.seen.append([(m["role"], m["content"]) for m in messages])
        return self.stream(next(self.answers))

    def stream(self, pieces):
        text = ""
        for piece in pieces:
            if isinstance(piece, BaseException):
                raise piece
            text += piece
            yield RequestOutput("0", None, [], [CompletionOutput(0, text, [])], finished=False)


@pytest.fixture
def talk(monkeypatch):
    """Hold a conversation from a pipe: ``talk(model, lines, system=None)``."""

    def run(model, text, system=None):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        converse(lambda messages: pieces(model, messages, SamplingParams()), system)

    return run


def test_turns_add_up_and_each_piece_is_printed_once(talk, capsys):
    model = Model(["Hel", "lo"], ["By", "e"])
    talk(model, "hi\n\n  \nso long\n", system="Be brief.")
    assert capsys.readouterr().out == "Hello\nBye\n"
    assert model.seen == [
        [("system", "Be brief."), ("user", "hi")],
        [
            ("system", "Be brief."),
            ("user", "hi"),
            ("assistant", "Hello"),
            ("user", "so long"),
        ],
    ]


def test_reset_keeps_the_system_message_alone(talk):
    model = Model(["a"], ["b"])
    talk(model, "one\n/reset\ntwo\n", system="S")
    assert model.seen[1] == [("system", "S"), ("user", "two")]


@pytest.mark.parametrize("word", ["/exit", "/quit"])
def test_exit_ends_it(talk, word):
    model = Model(["a"])
    talk(model, f"one\n{word}\ntwo\n")
    assert len(model.seen) == 1


def test_a_refused_turn_is_told_and_forgotten(talk, capsys):
    model = Model([RequestError("too long", "prompt")], ["fine"])
    talk(model, "very long\nshort\n")
    captured = capsys.readouterr()
    assert captured.err == "runtime: too long\n"
    assert captured.out.split() == ["fine"]
    assert model.seen[1] == [("user", "short")]


class Interrupted(Model):
    """The user presses Ctrl-C after the first piece."""

    def stream(self, pieces):
        for output in super().stream(pieces):
            yield output
            raise KeyboardInterrupt


def test_an_interrupted_answer_is_kept_as_far_as_it_went(talk, capsys):
    model = Interrupted(["half ", "whole"], ["next"])
    talk(model, "one\ntwo\n")
    assert capsys.readouterr().out == "half \nnext\n"
    assert model.seen[1][1] == ("assistant", "half ")
