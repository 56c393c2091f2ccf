"""A large store: a record of a million trials is created, resumed, shown, compared and exported.

The trials are real ones, taken from a run of a hundred scenarios and written under new numbers. Every step is a
separate process, to measure its memory. Times are those of the whole command, and where it says so, until its first
answer: the first line of a table, or the first trial of a resume. `TRIALS` in the environment sets their number. Not
part of `make bench`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Figure
from benchmarks.viewer import Browser, processor_s

SCENARIOS = 100
TARGETS: dict[str, tuple[float | None, float | None, float | None]] = {
    "resume 1,000 that are missing": (3, None, None),
    "show": (1, 5, 150),
    "runs": (1, 1, 150),
    "gate": (1, None, 150),
    "compare two of them": (None, 5, None),
}
"""At most so many seconds until the first answer and until the end, and so many megabytes."""
_SCENARIO = """\
id: bench-{number:03}
name: Bench {number}
description: A check
agent: model
environment: {{type: local}}
trials: {trials}
run: [{{input: Chest pain {number}, evaluations: [{{type: string_contains, value: help}}]}}]
judgment: {{strategy: all_pass}}
"""


def measure() -> Iterator[Figure]:
    trials = int(os.environ.get("TRIALS", "1000000"))
    folder = Path(tempfile.mkdtemp(prefix="steadyhand-store-"))
    try:
        (folder / "replies.yaml").write_text("rules:\n  - reply: I call for help now.\n")
        for number in range(SCENARIOS):
            text = _SCENARIO.format(number=number, trials=trials // SCENARIOS)
            (folder / f"{number:03}.scenario.yaml").write_text(text)
        steps: dict[str, list[str]] = {
            "append": ["-m", "benchmarks.store", "append"],
            "resume 1,000 that are missing": ["-m", "benchmarks.store", "resume"],
            "show": ["-m", "steadyhand", "show", "last"],
            "runs": ["-m", "steadyhand", "runs"],
            "baseline": ["-m", "steadyhand", "baseline", "last", "--out", "baseline.json"],
            "gate": ["-m", "steadyhand", "gate", "last", "--baseline", "baseline.json"],
            "compare two of them": ["-m", "benchmarks.store", "compare"],
            "export trials as CSV": ["-m", "steadyhand", "export", "last", "--format", "csv", "--out-dir", "out"],
        }
        for name, command in steps.items():
            took = _timed(command, folder, "passed" if name.startswith("resume") else "")
            first_s, wall_s, memory_mb = TARGETS.get(name, (None, None, None))
            yield from (
                Figure(name=f"{name}: first answer", value=took.first_s, unit="s", at_most=first_s),
                Figure(name=name, value=took.wall_s, unit="s", at_most=wall_s),
                Figure(name=f"{name}: CPU", value=took.cpu_s, unit="s"),
                Figure(name=f"{name}: peak memory", value=took.memory_mb, unit="MB", at_most=memory_mb),
            )
        yield _page_of_viewer(folder)
        size_mb = _record(folder).stat().st_size / 2**20
        yield Figure(name=f"record of {trials:,} trials", value=size_mb, unit="MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Took(NamedTuple):
    first_s: float
    wall_s: float
    cpu_s: float
    memory_mb: float


def _page_of_viewer(folder: Path) -> Figure:
    """The processor time of the first page: there is nothing to wait for."""
    command = [sys.executable, "-m", "steadyhand", "view", str(_record(folder).parent), "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = re.search(r"http://\S+", process.stdout.readline())
            assert link is not None
            browser = Browser(link.group())
            before = processor_s(process.pid)
            browser.get(f"/run?id={_record(folder).stem}")
            return Figure(
                name="view, page of the run: CPU", value=processor_s(process.pid) - before, unit="s", at_most=1
            )
        finally:
            process.terminate()


def _timed(command: list[str], folder: Path, first: str) -> _Took:
    """`first` is what the first line that counts begins with: on stderr, or on stdout if it is empty."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    began = time.perf_counter()
    with tempfile.TemporaryFile() as other:
        pipes = (other, subprocess.PIPE) if first else (subprocess.PIPE, other)
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stdout=pipes[0], stderr=pipes[1]
        )
        stream = process.stderr if first else process.stdout
        assert stream is not None
        first_s: float | None = None
        for line in stream:
            if first_s is None and line.startswith(first.encode()):
                first_s = time.perf_counter() - began
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 3):
            other.seek(0)
            raise RuntimeError(f"{command}: {other.read().decode()[-2000:]}")
    return _Took(first_s or wall_s, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _record(folder: Path) -> Path:
    (found,) = (folder / ".steadyhand" / "runs").glob("*.sqlite")
    return found


def append() -> None:
    """A record as a run of all of them would leave it, with the last thousand missing."""
    import msgspec

    import steadyhand
    from steadyhand.batch.plan import Plan
    from steadyhand.compose.fingerprint import total
    from steadyhand.compose.run import Run
    from steadyhand.records.config import RunOptions, Selection
    from steadyhand.store.schema import PlanEntry
    from steadyhand.store.writer import RunWriter

    selection, options = Selection(paths=(".",)), RunOptions(model="scripted/replies.yaml", seed=1)
    sample = steadyhand.run(".", model="scripted/replies.yaml", trials=1, seed=1, out="sample")
    patterns = {trial.scenario_id: trial.record for trial in sample}
    run = Run(selection, options)
    prints = run.fingerprints()
    header = msgspec.structs.replace(run.header, fingerprints=prints)
    digests = {scenario_id: total(parts) for scenario_id, parts in prints.items()}
    planned = run.planned
    assert isinstance(planned, Plan)
    entries = (PlanEntry(key=each.key, seed=each.seed, digest=digests[each.scenario.id]) for each in planned)
    writer = RunWriter.create(Path(".steadyhand/runs"), header, entries, redactor=run.redactor)
    last = len(planned) - 1000
    for number, each in enumerate(planned):
        if number == last:
            break
        pattern = patterns[each.scenario.id]
        writer.append(msgspec.structs.replace(pattern, key=each.key, seed=each.seed))
        if number % 5000 == 0:
            writer.flush()  # in a real run, which takes longer, the disk keeps up
    writer.close("interrupted")


def resume() -> None:
    _command(["resume", "last", "--force"])


def compare() -> None:
    record = _record(Path())
    other = Path("other.sqlite")
    shutil.copyfile(record, other)
    _command(["compare", str(record), str(other)])


def _command(arguments: list[str]) -> None:
    from steadyhand.cli.main import main as command

    sys.argv = ["steadyhand", *arguments]
    command()


if __name__ == "__main__":
    {"append": append, "resume": resume, "compare": compare}[sys.argv[1]]()
