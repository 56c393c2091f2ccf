"""Compared with other tools: what does a single-turn trial cost there, and how far off is the latency they report?

The same call to the same model server, 64 in flight, two checks on the answer, each tool's own record left on. Each
tool runs in its own process, as ours and the bare clients of `benchmarks.throughput` do; CPU is that of the process
and its children over the run, without starting the interpreter and importing the tool. The latency that a tool reports
for a case is compared with what the server measured for the same request. The better figure of two rounds counts, for
all tools. Nothing here has a target: a tool that fails is reported as failing and fails nothing. `python -m
benchmarks.peers --full` adds 5,000 cases and whatever takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.latency import model_server
from benchmarks.peer_tools import ROOT, Tool, environment, find
from benchmarks.server_log import beside

SIZES = (100, 1_000)
DELAYS_MS = (0, 50)
ROUNDS = 2
LIMIT_S = 900
OURS = (
    Tool(name="bare client", command=(sys.executable, "-m", "benchmarks.throughput", "bare")),
    Tool(name="bare client, answer unread", command=(sys.executable, "-m", "benchmarks.throughput", "unread")),
    Tool(name="steadyhand", command=(sys.executable, "-m", "benchmarks.throughput", "ours")),
)
COLUMNS = {
    "cpu_ms": "CPU per trial, ms",
    "cpu_bare": "/ bare",
    "cpu_ours": "/ ours",
    "wall_s": "wall, s",
    "memory_mb": "peak memory, MB",
    "record_kb": "record per trial, KB",
    "error_median_ms": "latency off by, median, ms",
    "error_p99_ms": "p99, ms",
    "given": "latency given, %",
    "in_flight": "most in flight",
}

Found = dict[str, float]


def measure(*, full: bool = False) -> list[Figure]:
    """Prints its tables itself, as they are ready; there are no figures with a target to return."""
    peers, missing = find()
    if missing:
        print(f"  not found, so not measured (`make peers` installs them): {', '.join(missing)}", flush=True)
    if not peers:
        return []
    failed: dict[str, str] = {}
    for delay_ms in DELAYS_MS:
        with model_server(delay_ms=delay_ms) as base_url:
            for size in (*SIZES, 5_000) if full else SIZES:
                tools = [tool for tool in (*OURS, *peers) if size <= (tool.most_in_full if full else tool.most)]
                cells = _rounds(tools, base_url, size, failed)
                print(f"\n{size:,} trials, {delay_ms} ms\n\n{_table(tools, cells)}\n", flush=True)
    for name, reason in failed.items():
        print(f"  FAILING: {name}: {reason}", flush=True)
    return []


def _rounds(tools: list[Tool], base_url: str, size: int, failed: dict[str, str]) -> dict[str, Found]:
    """The better figure of each round, by tool. A tool that failed once is not run again: that may have taken
    minutes."""
    cells: dict[str, Found] = {}
    for round_ in range(ROUNDS):
        for tool in tools if round_ % 2 == 0 else reversed(tools):
            if tool.name in failed:
                continue
            try:
                found = measure_one(tool, base_url, size)
            except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
                failed[tool.name] = f"{size:,} trials: {_reason(error)}"
                cells.pop(tool.name, None)
                continue
            best = cells.setdefault(tool.name, found)
            best.update({key: min(best[key], value) for key, value in found.items()})
    return cells


def measure_one(tool: Tool, base_url: str, size: int) -> Found:
    """Raises if the tool fails, does not finish, or leaves no figures."""
    log_url = base_url.removesuffix("/v1") + "/log"
    urllib.request.urlopen(urllib.request.Request(log_url, method="DELETE")).close()
    with tempfile.TemporaryDirectory() as folder:
        ours = tool in OURS
        subprocess.run(
            [*tool.command, base_url, str(size), folder],
            check=True,
            cwd=ROOT if ours else folder,
            env=dict(os.environ) if ours else environment(folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        found: dict[str, Any] = json.loads((Path(folder) / "found.json").read_text())
    with urllib.request.urlopen(log_url) as response:
        log = json.load(response)
    return found | beside(log, found.pop("latency_ms"), size)


def _table(tools: list[Tool], cells: dict[str, Found]) -> str:
    lines = [f"| tool | {' | '.join(COLUMNS.values())} |", f"| --- |{' --- |' * len(COLUMNS)}"]
    for tool in tools:
        figures = cells.get(tool.name)
        if figures is None:
            lines.append(f"| {tool.name} | failed |{' |' * (len(COLUMNS) - 1)}")
            continue
        for key, other in (("cpu_bare", OURS[0]), ("cpu_ours", OURS[-1])):
            if other.name in cells:
                figures[key] = figures["cpu_ms"] / cells[other.name]["cpu_ms"]
        shown = (f"{figures[key]:.3g}" if key in figures else "-" for key in COLUMNS)
        lines.append(f"| {tool.name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _reason(error: Exception) -> str:
    """In one line: the last thing that the tool said, or what kept it from saying anything."""
    said = (error.stderr if isinstance(error, subprocess.CalledProcessError) else "").split("\n")
    return next((line.strip() for line in reversed(said) if line.strip()), f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    measure(full="--full" in sys.argv[1:])
