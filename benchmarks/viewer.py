"""The viewer on a run of 50,000 trials: the first page, a filter as it is typed, and memory."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.compare import write_run
from benchmarks.figures import Figure

SCENARIOS = 100
TRIALS = 500
_RUN = "20261116-100000-0001"
_FILTERS = ("q=stop", "q=scn-042", "q=nothing+like", "verdict=failed", "class=A&q=violated", "outcome=unsafe_in_time")
_ROUNDS = 20


class Browser:
    """Follows the printed link and requests pages with the cookie."""

    def __init__(self, link: str) -> None:
        address = urlsplit(link)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)
        self._cookie = ""
        self._connection.request("GET", f"{address.path}?{address.query}")
        reply = self._connection.getresponse()
        reply.read()
        self._cookie = (reply.getheader("Set-Cookie") or "").partition(";")[0]

    def get(self, path: str) -> tuple[str, float]:
        """The page, and how many seconds it took."""
        started = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        reply = self._connection.getresponse()
        text = reply.read().decode()
        taken = time.perf_counter() - started
        assert reply.status == 200, text
        return text, taken


def processor_s(pid: int) -> float:
    spent = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found.group(1)) / 1024 if found else 0.0


def measure(scenarios: int = SCENARIOS, trials: int = TRIALS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        write_run(Path(name), _RUN, "openai/a", slower=0, scenarios=scenarios, trials=trials)
        command = [sys.executable, "-m", "steadyhand", "view", name, "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                link = re.search(r"http://\S+", process.stdout.readline())
                assert link is not None
                return _measured(Browser(link.group()), process.pid, f"{scenarios * trials:,} trials")
            finally:
                process.terminate()


def _measured(browser: Browser, pid: int, size: str) -> list[Figure]:
    _, runs = browser.get("/")
    before, idle = _memory_mb(pid), processor_s(pid)
    _, first = browser.get(f"/run?id={_RUN}")
    worked = processor_s(pid) - idle
    started = time.perf_counter()
    while "Reading the records" in browser.get(f"/run/part?id={_RUN}")[0]:
        time.sleep(0.1)
    read = time.perf_counter() - started
    browser.get(f"/run/part?id={_RUN}&only=list&q=warm")
    full = _memory_mb(pid)
    taken = [browser.get(f"/run/part?id={_RUN}&only=list&{each}")[1] for _ in range(_ROUNDS) for each in _FILTERS]
    _, trial = browser.get(f"/trial?run={_RUN}&scenario=SCN-042&trial=7")
    after = _memory_mb(pid)
    taken.sort()
    return [
        Figure(name=f"list of runs with one of {size}", value=runs, unit="s", at_most=1),
        # There is nothing to wait for: its time on an idle machine is its CPU time.
        Figure(name=f"processor time of the first page of a run of {size}", value=worked, unit="s", at_most=1),
        Figure(name=f"first page of a run of {size}", value=first, unit="s"),
        Figure(name="then until reasons, classes and tags are there", value=read, unit="s"),
        Figure(name=f"filter, median of {len(taken)}", value=taken[len(taken) // 2] * 1000, unit="ms", at_most=200),
        Figure(name="filter, slowest", value=taken[-1] * 1000, unit="ms"),
        Figure(name="page of a trial", value=trial, unit="s", at_most=1),
        Figure(name="memory for the run", value=full - before, unit="MB", at_most=100),
        Figure(name=f"memory that {len(taken)} more pages took", value=after - full, unit="MB", at_most=10),
    ]
