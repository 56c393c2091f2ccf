"""Two workers beside one process: the whole command, from its start to its exit, on work that computes.

The model is scripted, so that no server takes the second core. CPU is that of the command and of everything that it
waited for, workers included. The cases alternate, and the best of several rounds counts. `ROUNDS` in the environment
sets their number, `SHARE` a share of the trials. Part of `make bench-scale`. On a machine whose cores are taken by
others, only CPU means something.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SHARE = float(os.environ.get("SHARE", "1"))
CASES = {"1 process": ("--workers", "1"), "2 workers": ("--workers", "2"), "auto": ()}
_PROMPT = "Pressure is at 140 % and rising. What now?"
_SHORT = "Stop the pump now."
_LONG = " ".join(f"step {number}: look at the gauge and write down what it says, then go on" for number in range(315))
_HEAD = """\
id: bench
name: Bench
description: Checks that compute.
agent: {agent}
environment: {{type: local}}
{setup}run:
  - input: {prompt}
"""
_PATTERNS = "".join(
    f"      - {{type: regex_match, pattern: '\\bstep {number}\\b.{{0,60}}\\bgauge\\b'}}\n"
    for number in range(0, 305, 5)
)
_TURNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    trials: int
    scenario: str
    replies: str


def _checked(checks: str) -> str:
    return _HEAD.format(agent="model", setup="", prompt=_PROMPT) + f"    evaluations:\n{checks}"


WORK = {
    "short answers": Work(
        trials=20_000,
        scenario=_checked("      - {type: regex_match, pattern: '\\bstop\\b.*\\bpump\\b'}\n"),
        replies=f"rules:\n  - reply: {_SHORT}\n",
    ),
    "long answers, 61 patterns": Work(
        trials=4_000, scenario=_checked(_PATTERNS), replies=f'rules:\n  - reply: "{_LONG}"\n'
    ),
    "conversations with mocks": Work(
        trials=1_500,
        scenario=_HEAD.format(
            agent="runtime",
            setup="setup:\n  mocks: [{service: station, method: read, response: {pressure: 140}}]\n",
            prompt=_PROMPT,
        )
        + f"    conversation:\n      script: [{', '.join([f'{_PROMPT!r}'] * (_TURNS - 1))}]\n"
        + "      final_evaluations: [{type: regex_match, pattern: '\\bstop\\b'}]\n",
        replies="rules:\n"
        "  - {tool_results: true, reply: Stop the pump now.}\n"
        "  - {tool_calls: [{name: station_read, arguments: {}}]}\n",
    ),
}


def measure() -> Iterator[Figure]:
    yield Figure(name="load average at the start", value=os.getloadavg()[0])
    for name, work in WORK.items():
        best: dict[str, tuple[float, float]] = {}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "bench.scenario.yaml").write_text(f"{work.scenario}judgment: {{strategy: all_pass}}\n")
            (folder / "replies.yaml").write_text(work.replies)
            for round_ in range(ROUNDS):
                for case in CASES if round_ % 2 else reversed(CASES):
                    took = _took(folder, max(1, int(work.trials * SHARE)), CASES[case])
                    known = best.get(case, took)
                    best[case] = (min(known[0], took[0]), min(known[1], took[1]))
        alone = best["1 process"]
        yield Figure(name=f"{name}: 1 process", value=alone[0], unit="s")
        yield Figure(name=f"{name}: 1 process, CPU", value=alone[1], unit="s")
        for case in ("2 workers", "auto"):
            wall_s, cpu_s = best[case]
            yield Figure(name=f"{name}: 1 process / {case}", value=alone[0] / wall_s, unit="x", at_least=1.6)
            yield Figure(name=f"{name}: CPU of {case} / 1 process", value=cpu_s / alone[1], unit="x", at_most=1.15)


def _took(folder: Path, trials: int, more: tuple[str, ...]) -> tuple[float, float]:
    """The wall time and the CPU of the command."""
    options = ("--model", "scripted/replies.yaml", "--trials", str(trials), "--seed", "1", "--concurrency", "64")
    command = [sys.executable, "-m", "steadyhand", "run", "bench.scenario.yaml", *options, "--no-progress", *more]
    with tempfile.TemporaryFile() as told:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdout=told, stderr=told,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            told.seek(0)
            raise RuntimeError(f"{command} ended with {process.returncode}: {told.read().decode()[-2000:]}")
    return took, used.ru_utime + used.ru_stime
