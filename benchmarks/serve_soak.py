"""Many streaming clients with random aborts against one server: what leaks, what stalls.

    python benchmarks/serve_soak.py MODEL.gguf [--clients 256] [--seconds 300] [--out FILE]

Prints one JSON object: answers, faults, memory of all of the server's processes over time, open
files, how late the server's event loop came to its callbacks at worst, and how much of such a
time it was at work itself, and whether anything was left. The KV cache is 1 GiB, so that all of it
has been touched after the first minute.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil
from raw_http import serving, stream

PLUGIN = """
import asyncio, time
import fastapi
from runtime.plugins.server_extension import ServerExtension

router, worst, gaps = fastapi.APIRouter(), [0.0, 0.0], []

async def watch():
    while True:
        begin, busy = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.005)
        late = time.perf_counter() - begin - 0.005
        # What the loop itself did; the rest of the time it was not given a processor.
        own = time.thread_time() - busy
        worst[0], worst[1] = max(worst[0], late), max(worst[1], min(own, late))
        if late > 0.05:
            gaps.append([round(late, 4), round(own, 4)])

@router.get("/loop")
async def loop(reset: bool = False):
    if not hasattr(router, "task"):
        router.task = asyncio.create_task(watch())
    told = {"late": worst[0], "own": worst[1], "late_above_50_ms": gaps[-50:]}
    if reset:
        worst[:] = [0.0, 0.0]
        gaps.clear()
    return told

def server():
    return ServerExtension(routers=[router])
"""
WORDS = str(__doc__).split()

RAW = argparse.RawTextHelpFormatter


def install_plugin(folder: Path) -> None:
    """A distribution that shows how long the event loop was blocked."""
    (folder / "soak_watch.py").write_text(PLUGIN)
    info = folder / "soak_watch-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: soak-watch\nVersion: 1\n")
    points = "[runtime.server_plugins]\nsoak = soak_watch:server\n"
    (info / "entry_points.txt").write_text(points)


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


def metric(port: int, name: str) -> float:
    lines = [line for line in get(port, "/metrics").splitlines() if line.startswith(name + "{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


class Soak:
    def __init__(self, port: int, rng: random.Random) -> None:
        self.port, self.rng = port, rng
        self.counts = {"complete": 0, "aborted": 0, "faults": 0}
        self.first: list[float] = []
        self.faults: list[str] = []

    def request(self) -> tuple[str, dict, int | None]:
        rng = self.rng
        text = " ".join(rng.choices(WORDS, k=rng.randint(3, 60)))
        fields = {
            "max_tokens": rng.randint(4, 64),
            "temperature": rng.choice([0, 0.8]),
            "stream": True,
            "ignore_eos": True,
        }
        if rng.random() < 0.2:
            fields |= {"n": 2, "temperature": 1}
        abort = rng.randint(1, 20) if rng.random() < 0.3 else None
        if rng.random() < 0.5:
            return "/v1/completions", {"prompt": text, **fields}, abort
        messages = [{"role": "user", "content": text}]
        return "/v1/chat/completions", {"messages": messages, **fields}, abort

    async def client(self, until: float) -> None:
        while time.monotonic() < until:
            path, body, abort = self.request()
            try:
                answer = await stream(self.port, path, body, abort_after=abort)
            except (OSError, asyncio.IncompleteReadError) as error:
                self._fault(f"{type(error).__name__}: {error}")
                continue
            if answer.aborted:
                self.counts["aborted"] += 1
            elif answer.status == 200 and answer.complete and b'"error"' not in answer.text:
                self.counts["complete"] += 1
                self.first.append(answer.first)
            else:
                self._fault(f"status {answer.status}: {answer.text[-200:]!r}")

    def _fault(self, what: str) -> None:
        self.counts["faults"] += 1
        self.faults.append(what)


def sample(process: psutil.Process) -> dict:
    tree = [process, *process.children(recursive=True)]
    return {
        "mb": round(sum(one.memory_full_info().pss for one in tree) / 1e6, 1),
        "files": sum(one.num_fds() for one in tree),
    }


async def run(options: argparse.Namespace, process: psutil.Process, port: int) -> dict:
    soak = Soak(port, random.Random(options.seed))
    loop = asyncio.get_running_loop()
    await stream(port, "/v1/completions", {"prompt": "a", "max_tokens": 2, "stream": True})
    await loop.run_in_executor(None, get, port, "/loop?reset=true")
    before, samples, begin = sample(process), [], time.monotonic()
    until = begin + options.seconds
    clients = [asyncio.create_task(soak.client(until)) for _ in range(options.clients)]
    while time.monotonic() < until:
        await asyncio.sleep(5)
        one = await loop.run_in_executor(None, sample, process)
        samples.append({"second": round(time.monotonic() - begin), **one})
    await asyncio.gather(*clients)
    blocked = json.loads(await loop.run_in_executor(None, get, port, "/loop"))
    await asyncio.sleep(1.5)
    tokens = await loop.run_in_executor(None, metric, port, "vllm:generation_tokens_total")
    settled = [s["mb"] for s in samples if s["second"] >= options.seconds / 5]
    return {
        **soak.counts,
        "first_faults": soak.faults[:5],
        "first_token_s": {
            "median": round(statistics.median(soak.first), 3),
            "p99": round(sorted(soak.first)[int(0.99 * len(soak.first))], 3),
        },
        "generation_tokens": tokens,
        "tokens_per_s": round(tokens / options.seconds, 1),
        "loop_blocked_s": blocked,
        "running_after": metric(port, "vllm:num_requests_running"),
        "waiting_after": metric(port, "vllm:num_requests_waiting"),
        "kv_cache_after": metric(port, "vllm:kv_cache_usage_perc"),
        "before": before,
        "after": sample(process),
        "mb_last_four_fifths": [min(settled), max(settled)],
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        install_plugin(Path(name))
        paths = [name, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        env["VLLM_CPU_KVCACHE_SPACE"] = "1"
        flags = ("--disable-uvicorn-access-log", "--max-num-seqs", "64")
        with serving(options.model, *flags, log=f"{name}/log", env=env) as (process, port):
            result = asyncio.run(run(options, psutil.Process(process.pid), port))
            log = Path(name, "log").read_text()
        result["exit_status"] = process.returncode
        result["log_faults"] = [x for x in log.splitlines() if "ERROR" in x or "Traceback" in x][:5]
    text = json.dumps({"clients": options.clients, "seconds": options.seconds, **result})
    if options.out:
        Path(options.out).write_text(text + "\n")
    print(text)
    sys.exit(bool(result["faults"]))


if __name__ == "__main__":
    main()
