"""CPU a trial and peak memory as runs grow: a whole `steadyhand run`, and the record alone.

The figures of the smallest run are the measure of the others. What a run of one trial takes is subtracted from the CPU.
`MOST` in the environment sets the largest record. Part of `make bench-store`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure

MOST = int(os.environ.get("MOST", os.environ.get("TRIALS", "1000000")))
ROUNDS = 3
RUNS = (1_000, 10_000, 100_000)
_FLAT = 1.25
_SCENARIO = """\
id: growth
name: Growth
description: A check
agent: model
environment: {type: local}
run: [{input: Chest pain, evaluations: [{type: string_contains, value: help}]}]
judgment: {strategy: all_pass}
"""


def measure() -> Iterator[Figure]:
    run = [sys.executable, "-m", "steadyhand", "run", "growth.scenario.yaml", "--model", "scripted/replies.yaml"]
    run += ["--seed", "1", "--no-progress", "--workers", "1", "--trials"]
    yield from _growth("run", run, [each for each in RUNS if each <= MOST])
    record = [sys.executable, "-m", "benchmarks.growth"]
    yield from _growth("record alone", record, [each for each in (*RUNS, MOST) if each <= MOST])


def _growth(what: str, command: Sequence[str], sizes: Sequence[int]) -> Iterator[Figure]:
    once_s, _ = _least(command, 1)
    first: tuple[float, float] | None = None
    for size in dict.fromkeys(sizes):
        cpu_s, memory_mb = _least(command, size)
        each_ms = (cpu_s - once_s) * 1000 / (size - 1)
        first = first or (each_ms, memory_mb)
        name = f"{what}, {size:,} trials"
        yield Figure(name=f"{name}: CPU a trial", value=each_ms, unit="ms", at_most=first[0] * _FLAT)
        yield Figure(name=f"{name}: peak memory", value=memory_mb, unit="MB", at_most=first[1] * _FLAT)


def _least(command: Sequence[str], trials: int) -> tuple[float, float]:
    """CPU in seconds and peak memory of the best of some rounds; a single one where that takes long."""
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS if trials <= 10_000 else 1):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "growth.scenario.yaml").write_text(_SCENARIO)
            (Path(folder) / "replies.yaml").write_text("rules:\n  - reply: I call for help now.\n")
            process = subprocess.Popen(
                [*command, str(trials)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise RuntimeError(f"{command} ended with {process.returncode}")
        found.append((used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    return min(cpu for cpu, _ in found), min(memory for _, memory in found)


def record(trials: int) -> None:
    """A record of trials that were run once, written under new numbers and proved whole."""
    import msgspec

    import steadyhand
    from steadyhand.records.run import TrialKey
    from steadyhand.store.reader import RunReader
    from steadyhand.store.schema import PlanEntry
    from steadyhand.store.writer import RunWriter

    result = steadyhand.run(".", model="scripted/replies.yaml", seed=1, out="sample")
    (sample,) = (trial.record for trial in result)
    keys = (TrialKey(scenario_id=sample.key.scenario_id, index=index) for index in range(trials))
    writer = RunWriter.create(Path("runs"), result.header, (PlanEntry(key=key) for key in keys))
    for index in range(trials):
        writer.append(msgspec.structs.replace(sample, key=TrialKey(scenario_id=sample.key.scenario_id, index=index)))
        if index % 5000 == 0:
            writer.flush()  # in a real run, which takes longer, the disk keeps up
    writer.close(header=result.header)
    assert RunReader.open(writer.path).flaw() is None


if __name__ == "__main__":
    record(int(sys.argv[1]))
