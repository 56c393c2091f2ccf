"""From a folder to a finished record, and from a record to what remains to be done."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from steadyhand.compose.execution import Execution
from steadyhand.compose.resume import resume_run
from steadyhand.compose.run import Run
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError, StoreError
from steadyhand.reading.run import Reading
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.evaluation import Verdict
from steadyhand.store.reader import RunReader
from support.project import AGENT, Project

ASKED = AGENT + "agent: model\n"
SCRIPT = "rules: [{reply: 'hello, Ada'}]\n"
OPTIONS = {"model": "scripted/m.yaml", "out": Path("runs"), "seed": 5}


class Watcher:
    """A `RunObserver` that keeps the keys of finished trials and what it is told."""

    def __init__(self) -> None:
        self.planned: list[int] = []
        self.finished: list[tuple[str, int]] = []
        self.notes: list[str] = []
        self.ended = 0

    def run_started(self, header) -> None:
        self.planned.append(header.planned)

    def trial_started(self, key, name) -> None: ...

    def trial_finished(self, trial) -> None:
        self.finished.append((trial.key.scenario_id, trial.key.index))

    def noted(self, message) -> None:
        self.notes.append(message)

    def run_finished(self) -> None:
        self.ended += 1


@pytest.fixture
def two(project: Project) -> Project:
    project.write("a.scenario.yaml", ASKED.replace("id: one", "id: a"))
    project.write("b.scenario.yaml", ASKED.replace("id: one", "id: b"))
    project.write("m.yaml", SCRIPT)
    return project


def prepared(*paths: str, **options) -> Run:
    return Run(Selection(paths=paths or (".",)), RunOptions(**{**OPTIONS, **options}))


def verdicts(path: Path) -> dict[tuple[str, int], Verdict]:
    return {(trial.key.scenario_id, trial.key.index): trial.judged.verdict for trial in RunReader.open(path).trials()}


async def test_every_planned_trial_is_in_the_record_and_observers_see_it(two):
    execution, watcher = Execution(prepared(trials=2)), Watcher()
    path = await execution.execute([watcher])
    keys = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert verdicts(path) == dict.fromkeys(keys, Verdict.PASSED)
    assert (watcher.planned, sorted(watcher.finished), watcher.ended) == ([4], keys, 1)
    assert (execution.interrupted, execution.broken, execution.crashed) == (False, None, None)
    header = RunReader.open(path).header
    assert (header.seed, header.planned, header.fingerprints.keys()) == (5, 4, {"a", "b"})
    assert [(rate.scenario_id, rate.verdict) for rate in Reading.open(path).rates] == [
        ("a", Verdict.PASSED),
        ("b", Verdict.PASSED),
    ]


async def test_the_same_seed_gives_the_trials_the_same_seeds(two):
    seeds = [[each.seed for each in prepared(trials=3).planned] for _ in range(2)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 6
    assert [each.seed for each in prepared(trials=3, seed=6).planned] != seeds[0]


async def test_what_cannot_start_says_so_and_leaves_no_record(two):
    with pytest.raises(SetupError, match=r"missing\.yaml"):
        await Execution(prepared(model="scripted/missing.yaml")).execute([])
    with pytest.raises(SetupError, match="needs a model"):
        await Execution(prepared(model=None)).execute([])
    assert not list(two.folder.glob("runs/*"))


async def test_a_run_that_was_stopped_is_resumed_where_it_was(two):
    watcher = Watcher()

    class AfterOne:
        @property
        def stopping(self) -> bool:
            return bool(watcher.finished)

    @contextmanager
    def attend(note):
        yield AfterOne()

    execution = Execution(prepared(concurrency=1))
    path = await execution.execute([watcher], attend=attend)
    assert execution.interrupted
    assert verdicts(path) == {("a", 0): Verdict.PASSED}
    resumed = resume_run(path, Settings(RunOptions()))
    assert resumed.changes == []
    assert [each.key.scenario_id for each in resumed.run.pending] == ["b"]
    again = Watcher()
    assert await Execution(resumed.run).execute([again]) == path
    assert (again.planned, again.finished) == ([1], [("b", 0)])
    assert verdicts(path) == {("a", 0): Verdict.PASSED, ("b", 0): Verdict.PASSED}
    assert list(resume_run(path, Settings(RunOptions())).run.pending) == []


async def test_a_resume_repeats_what_was_in_error_and_keeps_what_it_replaces(two):
    two.write("m.yaml", "rules: [{fail: {kind: server, status: 500}}]\n")
    path = await Execution(prepared("a.scenario.yaml", retries=0)).execute([])
    assert verdicts(path) == {("a", 0): Verdict.ERROR}
    two.write("m.yaml", SCRIPT)
    resumed = resume_run(path, Settings(RunOptions()))
    assert len(resumed.run.pending) == 1
    await Execution(resumed.run).execute([])
    (trial,) = RunReader.open(path).trials()
    assert trial.judged.verdict is Verdict.PASSED
    assert [each.judged.verdict for each in trial.replaced] == [Verdict.ERROR]


async def test_a_resume_says_what_has_changed(two):
    path = await Execution(prepared()).execute([])
    two.write("a.scenario.yaml", ASKED.replace("id: one", "id: a").replace("value: hello", "value: Ada"))
    (two.folder / "b.scenario.yaml").unlink()
    changes = resume_run(path, Settings(RunOptions())).changes
    assert len(changes) == 2
    assert any(change.startswith("a: ") for change in changes)
    assert "b: it is no longer in the files" in changes


async def test_a_limit_of_tokens_stops_the_run(two):
    two.write("m.yaml", "rules: [{reply: 'hello, Ada', usage: {input_tokens: 60, output_tokens: 50}}]\n")
    run, watcher = prepared(trials=5, concurrency=1, max_tokens=200), Watcher()
    path = await Execution(run).execute([watcher])
    assert len(verdicts(path)) == 2
    assert any("no more trials were started" in note for note in watcher.notes)


def test_a_record_that_is_none_cannot_be_resumed(project):
    with pytest.raises(StoreError):
        resume_run(project.write("runs/x.steadyhand", "text"), Settings(RunOptions()))
