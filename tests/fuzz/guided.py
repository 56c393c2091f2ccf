"""Fuzzes one target with bytes, guided by coverage.

atheris is used where it is installed. Elsewhere the loop below does the work, more slowly: it mutates the inputs it has
kept, and keeps those in which one line follows another for the first time. What was found is kept in `.fuzz/`; an input
that breaks the target is left in `.fuzz/crashes/`, and the exit code is not 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

WORK = Path(".fuzz")
CRASHES = WORK / "crashes"
MEGABYTES = 2048
SLOWEST_S = 20
LONGEST = 40_000
OURS = f"{os.sep}steadyhand{os.sep}"


def import_targets() -> bool:
    """Imports what is fuzzed, instrumented by atheris if it is installed; whether it is."""
    try:
        import atheris
    except ImportError:
        importlib.import_module("fuzz.targets")
        return False
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["steadyhand"]):
        importlib.import_module("fuzz.targets")
    return True


def with_atheris(name: str, seconds: int) -> None:
    """Ends the process."""
    import atheris

    from fuzz.targets import CORPUS, TARGETS

    found = WORK / name
    found.mkdir(parents=True, exist_ok=True)
    CRASHES.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-timeout={SLOWEST_S}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={CRASHES / name}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(found), str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()


class Coverage:
    """The pairs of our lines that ran one after the other."""

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()
        self._last = 0

    def trace(self, frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if OURS not in frame.f_code.co_filename:
            return None
        here = hash((frame.f_code, frame.f_lineno))
        self.pairs.add((self._last, here))
        self._last = here
        return self.trace

    def new(self, target: Callable[[bytes], None], data: bytes) -> int:
        before = len(self.pairs)
        self._last = 0
        sys.settrace(self.trace)
        try:
            target(data)
        finally:
            sys.settrace(None)
        return len(self.pairs) - before


def mutated(data: bytes, pool: list[bytes], chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.randint(0, 8))
        match chance.randrange(5):
            case 0:
                data = data[:at] + data[end:]
            case 1:
                data = data[:at] + chance.randbytes(chance.randint(1, 4)) + data[end:]
            case 2:
                data = data[:at] + data[at:end] * chance.choice((2, 16, 400)) + data[end:]
            case 3:
                other = chance.choice(pool)
                start = chance.randrange(len(other) + 1)
                data = data[:at] + other[start : start + chance.randint(1, 60)] + data[at:]
            case _:
                data = data[:at] + chance.choice(b'{}[]":,\n0-\\&*!|').to_bytes(1) + data[end:]
    return data[:LONGEST]


def without_atheris(name: str, seconds: int) -> None:
    import resource

    from fuzz.targets import CORPUS, TARGETS

    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    chance = random.Random(name)
    pool = [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]
    coverage, runs, end = Coverage(), 0, time.monotonic() + seconds
    waiting = list(pool)
    data = b""
    try:
        while time.monotonic() < end:
            data = waiting.pop() if waiting else mutated(chance.choice(pool), pool, chance)
            signal.alarm(SLOWEST_S)
            if coverage.new(TARGETS[name], data) and data not in pool:
                pool.append(data)
            runs += 1
    except BaseException:  # noqa: BLE001 -- whatever it is, the input that caused it is kept
        CRASHES.mkdir(parents=True, exist_ok=True)
        file = CRASHES / f"{name}-crash-{hashlib.sha1(data).hexdigest()}"
        file.write_bytes(data)
        traceback.print_exc()
        print(f"left in {file}")
        sys.exit(1)
    print(f"stat::number_of_executed_units: {runs}\ncov: {len(coverage.pairs)}")
