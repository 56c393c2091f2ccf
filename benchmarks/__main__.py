"""`make bench`: runs every benchmark, shows its figures next to their targets, and sets an exit code.

A benchmark runs alongside a bare client or the bare interpreter in the same run, so that a slow or busy machine does
not change the ratios. `python -m benchmarks startup load` runs some of them.
"""

from __future__ import annotations

import compileall
import importlib
import sys
from pathlib import Path

BENCHMARKS = {
    "whole": "the whole command",
    "startup": "start-up",
    "load": "loading files",
    "latency": "the clock",
    "ladder": "a call, layer by layer",
    "conversations": "conversations",
    "agents": "agents in child processes",
    "gateway": "the gateway",
    "throughput": "many trials",
    "fold": "forbidden text",
    "meaning": "meaning checks",
    "compare": "comparing runs",
    "viewer": "the viewer",
    "peers": "compared with other tools",
}
APART = {
    "scale": "more than one core",
    "workers": "two workers beside one process",
    "driver": "the driver of many workers",
    "store": "a million trials",
    "growth": "growth",
}
"""Benchmarks that run only when named."""


def main() -> int:
    # As an installed package is: otherwise, where Python may not write bytecode, every process compiles our sources.
    compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)
    missed = 0
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"{(BENCHMARKS | APART)[name]}:", flush=True)
        for figure in importlib.import_module(f"benchmarks.{name}").measure():
            print(figure, flush=True)
            missed += figure.missed
    print(f"{missed} targets missed by more than a third" if missed else "no target missed by more than a third")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
