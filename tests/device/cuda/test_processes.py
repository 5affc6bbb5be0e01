"""Importing runtime leaves the driver alone, so that forked and spawned workers both work."""

import subprocess
import sys

import pytest

WORKER = """
import multiprocessing, sys
import torch
import runtime
from runtime.core.platform.select import select_platform

def work(queue):
    platform = select_platform("cuda").platform
    platform.devices.activate(0)
    there = torch.ones(3, device=platform.devices.device(0)) * 2
    queue.put(platform.memory.copy_to_host(there).tolist())

if __name__ == "__main__":
    select_platform("cuda").platform.load_ops()
    assert not torch.cuda.is_initialized()
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join(60)
    assert process.exitcode == 0 and not torch.cuda.is_initialized()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker(method, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    done = subprocess.run(
        [sys.executable, script, method], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]"
