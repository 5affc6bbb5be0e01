"""Flags of a dataset, tokenizers to count by hand, and a server that does as it is told."""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from runtime.core.entrypoints.bench.datasets import add_dataset_flags
from runtime.core.tokenizer.fast import FastTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def dataset_args():
    """Parsed flags: ``dataset_args("--num-prompts", 3, seed=1) -> namespace``."""

    def parse(*words, seed=0):
        parser = argparse.ArgumentParser()
        add_dataset_flags(parser)
        args = parser.parse_args([str(word) for word in words])
        args.seed = seed
        return args

    return parse


@pytest.fixture(scope="session")
def word_tokenizer():
    """A byte-level tokenizer whose tokens are bytes and `` xy`` for any two letters.

    ``word_tokenizer(bos=True)`` puts a special token before every text.
    """

    def make(bos=False):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocab = {symbol: index for index, symbol in enumerate(["<s>", *alphabet])}
        merges = []
        for first in LETTERS:
            merges.append(("Ġ", first))
            vocab[f"Ġ{first}"] = len(vocab)
        for first in LETTERS:
            for second in LETTERS:
                merges.append((f"Ġ{first}", second))
                vocab[f"Ġ{first}{second}"] = len(vocab)
        backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_special_tokens(["<s>"])
        if bos:
            backend.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", 0)]
            )
        return FastTokenizer(backend, special_tokens={}, chat_templates={})

    return make


class Server(ThreadingHTTPServer):
    """Streams what ``answer(path, body)`` gives: a status and pieces.

    A piece is a dict or text, sent as an event, or a number: seconds to wait. What was asked is
    kept in ``asked``, and the most streams that were open at once in ``busiest``.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answer = lambda path, body: (200, [])
        self.asked = []
        self.headers_seen = []
        self.open = self.busiest = 0
        self.lock = threading.Lock()

    def completion_bodies(self):
        return [body for path, body in self.asked if path != "/v1/models"]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(None)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.reply(json.loads(self.rfile.read(length)))

    def reply(self, body):
        server = self.server
        with server.lock:
            server.asked.append((self.path, body))
            server.headers_seen.append(dict(self.headers))
            server.open += 1
            server.busiest = max(server.busiest, server.open)
        try:
            status, pieces = server.answer(self.path, body)
            self.send_response(status)
            self.end_headers()
            for piece in pieces:
                if isinstance(piece, float):
                    time.sleep(piece)
                elif isinstance(piece, bytes):
                    self.wfile.write(piece)
                else:
                    text = piece if isinstance(piece, str) else json.dumps(piece)
                    self.wfile.write(f"data: {text}\n\n".encode())
        finally:
            with server.lock:
                server.open -= 1

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A :class:`Server` on the loopback interface, for one test."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def tokenizer_folder(word_tokenizer, tmp_path_factory):
    """A folder with the word tokenizer, with a token that begins each text."""
    folder = tmp_path_factory.mktemp("tokenizer")
    word_tokenizer(bos=True).backend.save(str(folder / "tokenizer.json"))
    return folder
