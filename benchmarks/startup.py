"""Start-up, as multiples of the bare interpreter in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure

ROUNDS = 15
EXAMPLE = Path(__file__).parent.parent / "examples" / "decisions" / "stemi.yaml"


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as out:
        holdfast = str(Path(sys.executable).parent / "holdfast")
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "help": [holdfast, "--help"],
            "run": [holdfast, "run", str(EXAMPLE), "--no-progress", "--out", out],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(_seconds(command))
    bare = statistics.median(times["bare"])
    return [
        Figure(name="python -c pass", value=bare * 1000, unit="ms"),
        Figure(name="holdfast --help / python -c pass", value=statistics.median(times["help"]) / bare, unit="x", at_most=8),
        Figure(
            name="holdfast run, one scripted scenario / python -c pass",
            value=(statistics.median(times["run"]) - _scripted_wait()) / bare,
            unit="x",
            at_most=25,
        ),
    ]


def _scripted_wait() -> float:
    """The example's own scripted thinking time, which is the model's and not ours."""
    return 0.0


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    return time.perf_counter() - started
