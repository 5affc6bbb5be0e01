"""Capture runs the work once; a replay repeats its ops on the same tensors, without its Python."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

from runtime.platforms.null.device import NullCounters


@pytest.mark.usefixtures("no_garbage")
def test_a_replay_reads_new_inputs_and_writes_the_same_outputs(
    null, device, upload, download, mode
):
    weight = upload(torch.randn(3, 3))
    with mode:
        x = torch.zeros(2, 3, device=device)
        outputs = []
        calls = []

        def work():
            calls.append(1)
            hidden = F.linear(x, weight)
            hidden.mul_(2)
            first = hidden[:1] + 1
            outputs[:] = [hidden, torch.cat([first, hidden]), hidden.topk(2)]

        graph = null.graphs.capture(work)
        before = null.counters
        for _ in range(3):
            source = torch.randn(2, 3)
            null.memory.copy_to_device(source, x)
            graph.replay()
            expected = F.linear(source, download(weight)) * 2
            torch.testing.assert_close(download(outputs[0]), expected)
            torch.testing.assert_close(
                download(outputs[1]), torch.cat([expected[:1] + 1, expected])
            )
            torch.testing.assert_close(download(outputs[2].values), expected.topk(2).values)
            assert torch.equal(download(outputs[2].indices), expected.topk(2).indices)
        assert len(calls) == 1
        assert (null.counters - before).replays == 3
        assert (null.counters - before).allocations == 0


def test_capture_itself_runs_the_work(null, device, download):
    y = torch.zeros(2, device=device)
    before = null.counters
    null.graphs.capture(lambda: y.add_(1))
    assert torch.equal(download(y), torch.ones(2))
    assert null.counters - before == NullCounters(captures=1, copies_to_host=1, bytes_to_host=8)


@pytest.mark.usefixtures("no_garbage")
def test_outputs_keep_their_memory_while_the_graph_lives(null, device, download):
    x = torch.ones(4, device=device)
    total = torch.zeros((), device=device)
    used = null.memory.info().free
    graph = null.graphs.capture(lambda: total.copy_((x * 3).sum()))
    assert null.memory.info().free < used
    null.memory.copy_to_device(torch.full((4,), 2.0), x)
    graph.replay()
    assert download(total).item() == 24
    del graph
    assert null.memory.info().free == used


def test_a_host_number_is_part_of_the_recording(null, device, download):
    x = torch.ones(2, device=device)
    y = torch.empty(2, device=device)
    number = torch.tensor(3.0)
    graph = null.graphs.capture(lambda: torch.mul(x, number, out=y))
    number.fill_(100)
    y.zero_()
    graph.replay()
    assert torch.equal(download(y), torch.full((2,), 3.0))


def test_random_ops_draw_anew(null, device, download):
    x = torch.zeros(8, device=device)
    generator = null.devices.generator().manual_seed(3)
    graph = null.graphs.capture(lambda: x.exponential_(generator=generator))
    first = download(x)
    graph.replay()
    assert not torch.equal(download(x), first)
    generator.manual_seed(3)
    graph.replay()
    assert torch.equal(download(x), first)


FORBIDDEN = {
    "synchronize": lambda null, x: null.devices.synchronize(),
    "copy_to_device": lambda null, x: null.memory.copy_to_device(torch.ones(3), x),
    "copy_to_host": lambda null, x: null.memory.copy_to_host(x),
    "item": lambda null, x: x.sum().item(),
    "nonzero": lambda null, x: x.nonzero(),
    "mask": lambda null, x: x[x > 0],
    "capture": lambda null, x: null.graphs.capture(lambda: None),
    "replay": lambda null, x: null.graphs.capture(lambda: None).replay(),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_capture_refuses_what_no_graph_can_hold(case, null, device, mode):
    with mode:
        x = torch.ones(3, device=device)
        with pytest.raises(RuntimeError, match="graph capture"):
            null.graphs.capture(lambda: FORBIDDEN[case](null, x))
        null.devices.synchronize()  # The capture has ended: waiting is allowed again.


def test_a_replay_inside_a_capture_is_refused(null, device):
    x = torch.ones(3, device=device)
    graph = null.graphs.capture(lambda: x.add_(1))
    with pytest.raises(RuntimeError, match="graph capture"):
        null.graphs.capture(graph.replay)


def test_another_threads_work_is_not_captured(null, device, download):
    x, y = torch.zeros(1, device=device), torch.zeros(1, device=device)

    def work():
        other = threading.Thread(target=lambda: (y.add_(1), null.devices.synchronize()))
        other.start()
        other.join()
        x.add_(1)

    graph = null.graphs.capture(work)
    graph.replay()
    assert (download(x).item(), download(y).item()) == (2, 1)
