"""What all peers share: the same cases, the same call, the same measurement.

Runs in the peer's own interpreter, where Steadyhand need not be installed, as `python -m benchmarks.peer_NAME
[VARIANT] BASE_URL SIZE FOLDER` with FOLDER as the working directory, and leaves `found.json` there, as
`benchmarks.throughput` does.
"""

from __future__ import annotations

import json
import re
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.figures import peak_memory_mb

IN_FLIGHT = 64
SYSTEM = "You run a pump station. Answer with the next action only."
STOP = re.compile(r"\bstop\b", re.IGNORECASE)
RECORD = Path("record")  # in the working directory: what the tool keeps of a run, and nothing else

T = TypeVar("T")


def case(number: int) -> str:
    """The user's message. Its number identifies the request in the server's log and in the tool's record."""
    return f"Case {number}: pressure is at 140 % and rising. What now?"


def number_of(prompt: str) -> int:
    found = re.match(r"Case (\d+):", prompt)
    if found is None:
        raise ValueError(f"not one of our cases: {prompt!r}")
    return int(found[1])


async def ask(session: Any, base_url: str, prompt: str) -> str:
    """The call as a user would write it for a tool without a client; `session` is an aiohttp session."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    async with session.post(f"{base_url}/chat/completions", json={"model": "bench", "messages": messages}) as response:
        response.raise_for_status()
        return (await response.json())["choices"][0]["message"]["content"]


def main(run: Callable[[str, list[str]], T], reported: Callable[[T], dict[int, float]]) -> None:
    """`run` runs the cases and writes the tool's record; it is measured. `reported` returns the latency in ms that the
    tool reports for each case that passed both checks; it is not measured."""
    base_url, size = sys.argv[-3], int(sys.argv[-2])
    cases = [case(number) for number in range(size)]
    RECORD.mkdir()
    _loopback_only()
    began, cpu = time.perf_counter(), _cpu_s()
    result = run(base_url, cases)
    wall, spent, memory_mb = time.perf_counter() - began, _cpu_s() - cpu, _memory_mb()
    latency = reported(result)
    assert len(latency) == size, f"{len(latency)} of {size} cases passed both checks and have a latency"
    found = {
        "wall_s": wall,
        "cpu_ms": spent * 1000 / size,
        "memory_mb": memory_mb,
        "record_kb": sum(file.stat().st_size for file in RECORD.rglob("*") if file.is_file()) / 1024 / size,
        "latency_ms": latency,
    }
    Path("found.json").write_text(json.dumps(found))


def _loopback_only() -> None:
    """A tool that tries to report the run to its makers fails when it looks up their address."""
    resolve = socket.getaddrinfo

    def resolve_loopback(host: Any, *arguments: Any, **named: Any) -> Any:
        if host not in ("127.0.0.1", b"127.0.0.1"):
            raise socket.gaierror(f"only loopback here, not {host!r}")
        return resolve(host, *arguments, **named)

    socket.getaddrinfo = resolve_loopback


def _cpu_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _memory_mb() -> float:
    """Of the larger of this process and those it started."""
    children_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return max(peak_memory_mb(), children_mb)
