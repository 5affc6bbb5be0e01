"""The thread pool: the same results whatever the threads, in forks and for several callers."""

import threading

import pytest
import torch

FORK = """
import os, torch, runtime_kernels_cpu as k
k.load(3)
ops = torch.ops.runtime_kernels_cpu
x, weight = torch.randn(2, 300), torch.randn(4000, 300)
def product():
    out = torch.empty(2, 4000)
    ops.linear(x, weight, None, out)
    return out
before = product()
for _ in range(3):
    child = os.fork()
    if child == 0:
        same = torch.equal(product(), before) and ops.threads() == 3
        ops.use_threads(1)
        os._exit(0 if same and torch.equal(product(), before) else 7)
    assert torch.equal(product(), before)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
print("same")
"""


@pytest.fixture
def product(kernels, generator):
    """A product large enough to be split, into a new tensor."""
    x = torch.randn(3, 500, generator=generator)
    weight = torch.randn(3001, 500, generator=generator)

    def run():
        out = torch.full((3, 3001), torch.nan)
        kernels.linear(x, weight, None, out)
        return out

    return run


def test_results_do_not_depend_on_threads(kernels, product):
    kernels.use_threads(1)
    expected = product()
    for threads in (2, 5, 3, 8, 1, 4):
        kernels.use_threads(threads)
        assert kernels.threads() == threads
        for _ in range(20):
            assert torch.equal(product(), expected)


def test_idle_threads_wake_up(kernels, product):
    kernels.use_threads(3)
    expected = product()
    for _ in range(5):
        threading.Event().wait(0.02)  # longer than they spin
        assert torch.equal(product(), expected)


def test_several_callers(kernels, product):
    kernels.use_threads(3)
    expected = product()
    wrong = []

    def call():
        wrong.extend(1 for _ in range(100) if not torch.equal(product(), expected))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for threads in (2, 4, 1, 3):
        kernels.use_threads(threads)
    for caller in callers:
        caller.join()
    assert wrong == []


def test_forks_make_their_own_threads(python):
    result = python(FORK)
    assert result.stdout.strip() == "same", result.stderr


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_an_impossible_number_of_threads(kernels, threads):
    with pytest.raises(RuntimeError, match=f"threads must be 1 to 4096, not {threads}"):
        kernels.use_threads(threads)
