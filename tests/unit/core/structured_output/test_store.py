"""Grammars are compiled once, beside the steps, and dropped when there are too many."""

import threading
from types import SimpleNamespace

import pytest

from runtime.core.structured_output.interface import GrammarError
from runtime.core.structured_output.params import Constraint, ConstraintKind
from runtime.core.structured_output.store import GrammarStore


class Backend:
    vocabulary = SimpleNamespace(eos_token_ids=(7,))

    def __init__(self):
        self.compiled = []
        self.threads = []
        self.gate = threading.Event()
        self.gate.set()

    def compile(self, constraint):
        self.gate.wait(10)
        self.compiled.append(constraint.text)
        self.threads.append(threading.current_thread().name)
        if constraint.text == "bad":
            raise GrammarError("no")
        return SimpleNamespace(memory_bytes=100, matcher=lambda: constraint.text)


def regex(text):
    return Constraint(ConstraintKind.REGEX, text)


@pytest.fixture
def backend():
    return Backend()


@pytest.fixture
def store(backend):
    own = GrammarStore(lambda: backend, max_bytes=250)
    yield own
    own.shutdown()


def test_a_grammar_is_compiled_once_in_a_thread(store, backend):
    store.prepare(regex("a")).result(10)
    store.prepare(regex("a")).result(10)
    progress = store.begin(regex("a"))
    assert progress.eos_token_ids == (7,)
    assert backend.compiled == ["a"]
    assert backend.threads[0].startswith("grammars")


def test_preparing_does_not_wait(store, backend):
    backend.gate.clear()
    ready = store.prepare(regex("a"))
    assert not ready.done()
    backend.gate.set()
    assert ready.result(10) is None


def test_a_failure_is_in_the_future(store):
    assert isinstance(store.prepare(regex("bad")).exception(10), GrammarError)
    with pytest.raises(GrammarError):
        store.begin(regex("bad"))


def test_those_used_longest_ago_are_dropped_and_made_again(store, backend):
    for text in ("a", "b", "a", "c"):
        store.begin(regex(text))
    assert backend.compiled == ["a", "b", "c"]
    store.begin(regex("a"))
    store.begin(regex("b"))
    assert backend.compiled == ["a", "b", "c", "b"]


def test_one_that_is_larger_than_all_room_is_kept_while_it_is_the_last(backend):
    store = GrammarStore(lambda: backend, max_bytes=1)
    store.begin(regex("a"))
    store.begin(regex("a"))
    assert backend.compiled == ["a"]
