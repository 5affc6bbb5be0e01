"""A client of streams that takes next to no time itself, and a server to send them to."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Answer:
    """One stream as it came. Times are in seconds since the request was sent."""

    status: int = 0
    first: float | None = None
    end: float = 0.0
    events: int = 0
    complete: bool = False
    aborted: bool = False
    text: bytes = field(default=b"", repr=False)


async def stream(port: int, path: str, body: dict, *, abort_after: int | None = None) -> Answer:
    """POST and read the events; with ``abort_after``, go away once that many have come."""
    answer, data = Answer(), json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin = time.perf_counter()
    try:
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = await reader.readuntil(b"\r\n\r\n")
        answer.status = int(head.split(b" ", 2)[1])
        while part := await reader.read(65536):
            if answer.first is None:
                answer.first = time.perf_counter() - begin
            answer.text += part
            answer.events += part.count(b"data: ")
            if abort_after is not None and answer.events >= abort_after:
                answer.aborted = True
                break
        answer.end = time.perf_counter() - begin
        answer.complete = b"data: [DONE]" in answer.text
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return answer


@contextlib.contextmanager
def serving(model: str, *flags: str, log: str, env: dict | None = None):
    """Run ``runtime serve`` on a free port; gives its process and the port."""
    path = Path(log)
    with path.open("w") as file:
        words = [sys.executable, "-m", "runtime", "serve", model, "--port", "0", *flags]
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=env)
    try:
        while not (match := re.search(r"serving .* at \S+:(\d+)", path.read_text())):
            if process.poll() is not None:
                raise SystemExit(f"the server ended: {path.read_text()[-2000:]}")
            time.sleep(0.05)
        yield process, int(match.group(1))
    finally:
        process.terminate()
        process.wait(30)
