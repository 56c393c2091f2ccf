"""A large store: a record of a million trials is created, resumed, shown, compared and exported.

The trials are real ones, taken from a run of a hundred scenarios and written under new numbers. Every step is a
separate process, to measure its memory. `TRIALS` in the environment sets the number of trials. Not part of `make
bench`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure

SCENARIOS = 100
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


def measure() -> list[Figure]:
    trials = int(os.environ.get("TRIALS", "1000000"))
    folder = Path(tempfile.mkdtemp(prefix="steadyhand-store-"))
    figures: list[Figure] = []
    try:
        (folder / "replies.yaml").write_text("rules:\n  - reply: I call for help now.\n")
        for number in range(SCENARIOS):
            text = _SCENARIO.format(number=number, trials=trials // SCENARIOS)
            (folder / f"{number:03}.scenario.yaml").write_text(text)
        steps: dict[str, list[str]] = {
            "append": ["-m", "benchmarks.store", "append"],
            "resume 1,000 that are missing": ["-m", "benchmarks.store", "resume"],
            "show": ["-m", "steadyhand", "show", "last"],
            "compare two of them": ["-m", "benchmarks.store", "compare"],
            "export trials as CSV": ["-m", "steadyhand", "export", "last", "--format", "csv", "--out-dir", "out"],
        }
        for name, command in steps.items():
            wall_s, memory_mb = _timed(command, folder)
            figures.append(Figure(name=f"{trials:,} trials: {name}", value=wall_s, unit="s"))
            figures.append(Figure(name=f"{trials:,} trials: {name}, peak memory", value=memory_mb, unit="MB"))
            print(figures[-2], figures[-1], sep="\n", flush=True)
        size_mb = _record(folder).stat().st_size / 2**20
        figures.append(Figure(name=f"{trials:,} trials: record", value=size_mb, unit="MB"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def _timed(command: list[str], folder: Path) -> tuple[float, float]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    told = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise RuntimeError(f"{command}: {told}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


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
    _command(["resume", "last", "--no-progress", "--force"])


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
