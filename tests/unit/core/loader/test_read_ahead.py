"""What is asked for ahead of its turn, and when."""

import torch

from runtime.core.loader import read_ahead
from runtime.core.loader.weights import FilePlace, LazyWeight


class Weight(LazyWeight):
    def __init__(self, path, index, length):
        self.name, self.shape, self.dtype = str(index), (1,), torch.uint8
        self._place = None if length is None else FilePlace(path, index, length)

    @property
    def place(self):
        return self._place

    def read(self, start, stop):
        raise NotImplementedError


def asked(monkeypatch, tmp_path, lengths, ahead):
    """For each weight as it is given, what has been asked for by then."""
    hints = []
    monkeypatch.setattr(read_ahead, "_advise", lambda path, start, length: hints.append(start))
    weights = [(str(i), Weight(tmp_path, i, length)) for i, length in enumerate(lengths)]
    found = []
    for name, _ in read_ahead.read_ahead(weights, ahead):
        found.append((name, list(hints)))
    return found


def test_so_many_bytes_are_on_their_way(monkeypatch, tmp_path):
    found = asked(monkeypatch, tmp_path, [10, 10, 10, 10], 20)
    assert found == [
        ("0", [0, 1]),
        ("1", [0, 1, 2]),
        ("2", [0, 1, 2, 3]),
        ("3", [0, 1, 2, 3]),
    ]


def test_a_large_one_is_asked_for_in_its_turn(monkeypatch, tmp_path):
    found = asked(monkeypatch, tmp_path, [100, 100], 5)
    assert [hints for _, hints in found] == [[0], [0, 1]]


def test_weights_of_no_file_are_passed_over(monkeypatch, tmp_path):
    assert [name for name, _ in asked(monkeypatch, tmp_path, [None, 5, None], 9)] == list("012")


def test_a_hint_for_a_file_that_is_gone_is_no_error(tmp_path):
    weights = [("x", Weight(tmp_path / "gone", 0, 5))]
    assert len(list(read_ahead.read_ahead(weights))) == 1
