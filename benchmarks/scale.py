"""Beyond one core: trials per second and CPU per trial in one process, with two workers, and with two actors of a local
Ray.

The model is scripted and the checks compute, so that no server takes the second core. For comparison, a bare aiohttp
client calls an instant server from one process and from two. Every case runs in its own process, and the cases
alternate; the best figure of all rounds counts. Trials per second, and the driver's own CPU, are counted from the first
trial to the last; the other CPU figures include starting the workers.

Then the clock: decision trials against a server that answers after 50 ms and has requests stamped by the kernel, 64 in
flight. A trial's reported latency is compared with what the server measured for the same request, identified by its
seed. Ray's own start is told apart. Not part of `make bench`: run it with `make bench-scale`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.latency import SERVERS, TARGETS, model_server
from benchmarks.server_log import beside
from benchmarks.throughput import measure_ours

TRIALS = 6_000
TIMED_TRIALS = 2_000
STAMPED = "stamped by the kernel"
CALLS = 5_000
ROUNDS = int(os.environ.get("ROUNDS", "3"))
CASES = {"1 process": (1, "local"), "2 workers": (2, "local"), "Ray, 2 actors": (2, "ray")}

_SCENARIO = """\
id: bench
name: Bench
description: Checks that compute
agent: model
environment: {type: local}
run:
  - input: Chest pain
    evaluations:
"""
_CHECK = "      - {type: regex_match, pattern: '(?:\\w+\\W+)*?number %d\\b.*?door'}\n"
_STEP = "call 911 now and stay on the phone with me, number {}, unlock the door"
_REPLY = " ".join(_STEP.format(number) for number in range(40))


def measure() -> list[Figure]:
    print(f"  load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    cases = {name: case for name, case in CASES.items() if case[1] != "ray" or importlib.util.find_spec("ray")}
    best: dict[str, dict[str, float]] = {}
    with model_server(delay_ms=0) as url:
        for _ in range(ROUNDS):
            for name, (workers, engine) in cases.items():
                _keep(best, name, _trials(workers, engine))
            for processes in (1, 2):
                _keep(best, f"bare client, {processes}", _bare(url, processes))
    figures = []
    for name, found in best.items():
        figures.append(Figure(name=f"{name}: a second", value=found["rate"], unit="/s"))
        figures.append(Figure(name=f"{name}: CPU each", value=found["cpu_ms"], unit="ms"))
        if "start_s" in found:
            figures.append(Figure(name=f"{name}: until the first trial", value=found["start_s"], unit="s"))
        if "driver_ms" in found:
            figures.append(
                Figure(name=f"{name}: CPU of the driver each", value=found["driver_ms"], unit="ms", at_most=0.1)
            )
        if "worker_mb" in found:
            figures.append(Figure(name=f"{name}: memory of a worker", value=found["worker_mb"], unit="MB", at_most=80))
    for name, other, at_least in (
        ("2 workers", "1 process", 1.7),
        ("Ray, 2 actors", "1 process", 1.5),
        ("bare client, 2", "bare client, 1", None),
    ):
        if name in best:
            ratio = best[name]["rate"] / best[other]["rate"]
            figures.append(Figure(name=f"{name} / {other}", value=ratio, unit="x", at_least=at_least))
    return figures + _clocks(cases)


def _clocks(cases: dict[str, tuple[int, str]]) -> list[Figure]:
    best: dict[str, dict[str, float]] = {}
    with model_server(delay_ms=50, module=SERVERS[STAMPED]) as url:
        for _ in range(ROUNDS):
            for name, (workers, engine) in cases.items():
                found = _timed(url, workers, engine)
                known = best.setdefault(name, found)
                known.update({key: min(known[key], value) for key, value in found.items() if key != "given"})
                known["given"] = max(known["given"], found["given"])
    figures = []
    for name, found in best.items():
        for key, at_most in zip(("median", "p99"), TARGETS[STAMPED], strict=True):
            value = found[f"error_{key}_ms"]
            figures.append(Figure(name=f"{name}: latency error, {key}", value=value, unit="ms", at_most=at_most))
        figures.append(Figure(name=f"{name}: latency graded at once", value=found["given"], unit="%"))
    return figures


def _timed(url: str, workers: int, engine: str) -> dict[str, float]:
    log = url.removesuffix("/v1") + "/log"
    urllib.request.urlopen(urllib.request.Request(log, method="DELETE")).close()
    with tempfile.TemporaryDirectory() as folder:
        reported = _apart(folder, "clock", workers, engine, url)
    with urllib.request.urlopen(log) as response:
        found = beside(json.load(response), reported, TIMED_TRIALS)
    told = f"{found['error_median_ms']:.3f} and {found['error_p99_ms']:.3f} ms off, {found['given']:.0f} % graded"
    print(f"  the clock of {workers} ({engine}): {told}", flush=True)
    return found


def _keep(best: dict[str, dict[str, float]], name: str, found: dict[str, float]) -> None:
    print(f"  {name}: {found['rate']:.0f}/s, {found['cpu_ms']:.2f} ms", flush=True)
    known = best.setdefault(name, found)
    known["rate"] = max(known["rate"], found["rate"])
    for key in ("cpu_ms", "driver_ms", "start_s"):
        if key in found:
            known[key] = min(known[key], found[key])


def _trials(workers: int, engine: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        write_checks(Path(folder))
        return _apart(folder, "speed", workers, engine)


def write_checks(folder: Path) -> None:
    """A scenario with ten checks that compute, and the answers to it."""
    (folder / "replies.yaml").write_text(f'rules:\n  - reply: "{_REPLY}"\n')
    checks = "".join(_CHECK % (39 - number) for number in range(10))
    (folder / "bench.scenario.yaml").write_text(f"{_SCENARIO}{checks}judgment: {{strategy: all_pass}}\n")


def _apart(folder: str, what: str, workers: int, engine: str, *more: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", what, str(workers), engine, *more],
        check=True, cwd=folder, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OPENAI_API_KEY": "none"},
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def _bare(url: str, processes: int) -> dict[str, float]:
    """The client of `benchmarks.throughput`, with its calls divided among processes that run side by side."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(number) for number in range(processes)]
        for place in places:
            place.mkdir()
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.throughput", "bare", url, str(CALLS // processes), str(place)]
            )
            for place in places
        ]
        for each in running:
            if each.wait() != 0:
                raise subprocess.CalledProcessError(each.returncode, each.args)
        found: list[dict[str, Any]] = [json.loads((place / "found.json").read_text()) for place in places]
    return {
        "rate": sum(CALLS / processes / each["wall_s"] for each in found),
        "cpu_ms": sum(each["cpu_ms"] for each in found) / processes,
    }


class _Stopwatch:
    """The time from the first trial to the last, the CPU of this process in between, and what the actors of a local Ray
    had used by then."""

    def __init__(self) -> None:
        self.began: float = 0.0
        self.ended: float = 0.0
        self.own_s: float = 0.0
        self.actors_s: float = 0.0

    def run_started(self, header: object) -> None: ...

    def trial_started(self, key: object, name: str) -> None:
        if not self.began:
            self.began, self.own_s = time.perf_counter(), -time.process_time()

    def trial_finished(self, record: object) -> None: ...

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None:
        self.ended = time.perf_counter()
        self.own_s += time.process_time()
        self.actors_s = _cpu_of_actors()


def _cpu_of_actors() -> float:
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::RayTrialActor"):
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def main(what: str, workers: int, engine: Any, url: str = "") -> None:
    if what == "clock":
        more = {"engine": engine, "ray_env": ("OPENAI_API_KEY",)} if engine == "ray" else {}
        found = measure_ours(url, TIMED_TRIALS, Path.cwd(), workers=workers, **more)["latency_ms"]
    else:
        found = measure_speed(workers, engine)
    print(json.dumps(found))


def measure_speed(workers: int, engine: Any) -> dict[str, float]:
    import steadyhand

    watch = _Stopwatch()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = steadyhand.run(
        "bench.scenario.yaml",
        model="scripted/replies.yaml",
        trials=TRIALS,
        seed=1,
        concurrency=64,
        workers=workers,
        engine=engine,
        observer=watch,
    )
    assert result.passed, result
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = own.ru_utime + own.ru_stime - before.ru_utime - before.ru_stime + watch.actors_s
    if engine == "local":
        cpu_s += children.ru_utime + children.ru_stime
    found = {
        "rate": TRIALS / (watch.ended - watch.began),
        "cpu_ms": cpu_s * 1000 / TRIALS,
        "start_s": watch.began - began,
    }
    if engine == "local" and workers > 1:
        found["driver_ms"] = watch.own_s * 1000 / TRIALS
        found["worker_mb"] = children.ru_maxrss / 1024
    return found


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
