"""Reads the inputs of a comparison (runs, JSON reports, baselines, or one target of them) into sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.errors import SetupError, StoreError
from steadyhand.judging.baseline import Baseline, side_of
from steadyhand.judging.comparison_side import Sample, SampleCollector, Side, TrialFacts
from steadyhand.judging.run_comparison import Change, Comparison, MessageExcerpt, TrialExcerpt, compare_sides
from steadyhand.reading.run import Reading
from steadyhand.reading.samples import check_label, paired_id, unit_of
from steadyhand.records.base import Record
from steadyhand.records.chat import Role, SafetyAtDeadline
from steadyhand.records.evaluation import FailureClass, LatencyTier, Verdict
from steadyhand.records.location import Place
from steadyhand.records.run import Judged, Target, TrialKey, exported_transcript
from steadyhand.store.reader import find_run

TRANSCRIPTS = 50
"""The maximum number of changed scenarios in a comparison that are shown with transcripts."""
MESSAGES = 100
MESSAGE_LENGTH = 20_000
_MAGIC = b"SQLite format 3\x00"


class ComparedSource(Record):
    """A run, report or baseline as it was read. `trial` finds one of its trials to show; None if it has no trials.
    `reading` is that of its record, if it is a run."""

    side: Side
    trial: Callable[[str, int, str], TrialExcerpt | None]
    reading: Reading | None = None

    def only(self, target: str) -> ComparedSource:
        """One target of it. Raises a `SetupError` that lists the targets."""
        known = [each for each in self.side.targets if each]
        found = [each for each in known if each == target] or [each for each in known if target and target in each]
        if len(found) != 1:
            many = f"{target!r} matches {len(found)} targets" if found else f"no target {target!r}"
            raise SetupError(f"{many} in run {self.side.run_id}; targets there: {', '.join(known) or 'none'}")
        samples = tuple(each for each in self.side.samples if each.target == found[0])
        return msgspec.structs.replace(self, side=msgspec.structs.replace(self.side, name=found[0], samples=samples))


def open_source(folder: Path, name: str, opened: Callable[[Reading], None] = lambda reading: None) -> ComparedSource:
    """By id, prefix of an id, `last` or path; an `@TARGET` suffix selects one target. `opened` is told of a record
    before its trials are read.

    Raises `StoreError` when there is no such run or it cannot be read, `SetupError` when it has no such target.
    """
    if Path(name).is_file():
        return _open(Path(name), opened)
    failure: StoreError | None = None
    at = len(name)
    while at > 0:
        run, target = name[:at], name[at + 1 :]
        try:
            source = _open(find_run(folder, run), opened)
            return source.only(target) if at < len(name) else source
        except StoreError as error:
            failure = failure or error
        at = name.rfind("@", 0, at)
    assert failure is not None
    raise failure


def _open(path: Path, opened: Callable[[Reading], None]) -> ComparedSource:
    try:
        with path.open("rb") as stream:
            is_record = stream.read(len(_MAGIC)) == _MAGIC
        if not is_record:
            return _of_file(path)
        reading = Reading.open(path)
        opened(reading)
        return read_source(reading)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def read_source(reading: Reading) -> ComparedSource:
    """A run by its record."""
    header, targets = reading.header, reading.header.targets

    def trial(scenario_id: str, index: int, target: str) -> TrialExcerpt | None:
        found = reading.trial(TrialKey(scenario_id=scenario_id, index=index))
        if found is None or unit_of(scenario_id, found.agent, found.model, targets.get(scenario_id))[1] != target:
            return None
        said: list[tuple[Role, str]] = [
            (each.message.role, each.message.content) for each in exported_transcript(found)
        ]
        return _excerpt(found.key, found.judged.verdict, found.judged.reason, said)

    side = Side(
        name=header.id,
        run_id=header.id,
        started_at=header.started_at,
        samples=reading.samples,
        finished=reading.status == "finished",
        stopped_early=header.until is not None,
    )
    return ComparedSource(side=side, trial=trial, reading=reading)


def _excerpt(key: TrialKey, verdict: Verdict, reason: str, said: Sequence[tuple[Role, str]]) -> TrialExcerpt:
    shown = said[-MESSAGES:]
    return TrialExcerpt(
        scenario_id=key.scenario_id,
        trial=key.index,
        verdict=verdict,
        reason=reason,
        messages=tuple(
            MessageExcerpt(role=role, content=content[:MESSAGE_LENGTH], cut=max(len(content) - MESSAGE_LENGTH, 0))
            for role, content in shown
        ),
        left_out=len(said) - len(shown),
    )


# Files: JSON reports and baselines. Only the fields that are used are listed; docs/json-report.md has the rest.


class _Note(msgspec.Struct):
    model: str


class _Check(msgspec.Struct):
    type: str
    name: str | None
    path: str | None
    judge: _Note | None


class _Message(msgspec.Struct):
    role: Role
    content: str


class _Spent(msgspec.Struct):
    cost: float


class _Cost(msgspec.Struct):
    complete: bool
    by_purpose: dict[str, _Spent]


class _Scenario(msgspec.Struct):
    id: str
    file: str


class _Trial(msgspec.Struct):
    scenario: _Scenario
    trial: int
    agent: str
    model: str | None
    verdict: Verdict
    reason: str
    latency_ms: float | None
    latency_tier: LatencyTier | None
    latency_cut: bool
    latency_not_graded: tuple[str, ...]
    time_to_safe_ms: float | None
    safety_at_deadline: dict[str, bool | None] | None
    times_not_known: str | None
    safety_score: float | None
    failure_classes: tuple[FailureClass, ...]
    evaluations: tuple[_Check, ...]
    transcript: tuple[_Message, ...]
    cost: _Cost


class _Run(msgspec.Struct):
    id: str
    started_at: str
    fingerprints: dict[str, dict[str, str]]
    until: str | None = None


class _Counts(msgspec.Struct):
    total: int


class _Target(msgspec.Struct):
    scenario: str
    model: str | None
    agent: str | None
    cell: dict[str, Any]


class _Rate(msgspec.Struct):
    id: str
    trials: _Counts
    target: _Target | None = None


class _Summary(msgspec.Struct):
    not_run: int


class _Report(msgspec.Struct):
    format: int
    run: _Run
    trials: tuple[_Trial, ...]
    scenarios: tuple[_Rate, ...]
    summary: _Summary


class _Kind(msgspec.Struct):
    format: int | None = None
    baseline: int | None = None


def _of_file(path: Path) -> ComparedSource:
    """Raises `StoreError` for anything that is neither a report nor a baseline."""
    data = path.read_bytes()
    try:
        kind = msgspec.json.decode(data, type=_Kind)
        if kind.baseline is not None:
            baseline = msgspec.json.decode(data, type=Baseline)
            return ComparedSource(
                side=side_of(baseline, str(path)), trial=lambda scenario_id, index, target: None
            )  # it has counts only
        if kind.format is not None:
            return _of_report(msgspec.json.decode(data, type=_Report))
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise StoreError(
            f"{path} is not a run record, JSON report or baseline that this version reads: {error}"
        ) from error
    raise StoreError(f"{path} is not a run record, JSON report or baseline: it has neither `format` nor `baseline`")


def _of_report(report: _Report) -> ComparedSource:
    targets = {
        each.id: Target(**msgspec.structs.asdict(each.target)) for each in report.scenarios if each.target is not None
    }
    facts = [_facts_of_report(each, targets.get(each.scenario.id)) for each in report.trials]
    collector = SampleCollector()
    for fact in facts:
        collector.add(fact)
    samples = collector.samples(
        planned={each.id: each.trials.total for each in report.scenarios},
        fingerprints=report.run.fingerprints,
        paired={recorded_id: paired_id(target) for recorded_id, target in targets.items()},
    )
    by_key = {
        (fact.recorded_id, fact.index, fact.target): each for fact, each in zip(facts, report.trials, strict=True)
    }

    def trial(scenario_id: str, index: int, target: str) -> TrialExcerpt | None:
        found = by_key.get((scenario_id, index, target))
        if found is None:
            return None
        key = TrialKey(scenario_id=scenario_id, index=index)
        return _excerpt(key, found.verdict, found.reason, [(each.role, each.content) for each in found.transcript])

    side = Side(
        name=report.run.id,
        run_id=report.run.id,
        started_at=report.run.started_at,
        samples=samples,
        finished=not report.summary.not_run,
        stopped_early=report.run.until is not None,
    )
    return ComparedSource(side=side, trial=trial)


def _facts_of_report(trial: _Trial, of_run: Target | None) -> TrialFacts:
    judged = Judged(
        verdict=trial.verdict,
        reason=trial.reason,
        time_to_safe_ms=trial.time_to_safe_ms,
        safety_at_deadline=None if trial.safety_at_deadline is None else SafetyAtDeadline(**trial.safety_at_deadline),
        times_unknown=trial.times_not_known,
    )
    agents = trial.cost.by_purpose.get("agent")
    scenario_id, target = unit_of(trial.scenario.id, trial.agent, trial.model, of_run)
    return TrialFacts(
        recorded_id=trial.scenario.id,
        scenario_id=scenario_id,
        index=trial.trial,
        target=target,
        place=Place(file=trial.scenario.file),
        verdict=trial.verdict,
        latency_ms=trial.latency_ms,
        latency_cut=trial.latency_cut,
        latency_spoiled=bool(trial.latency_not_graded),
        tier=trial.latency_tier,
        safe_ms=judged.safe_ms,
        safety=trial.safety_score,
        classes=trial.failure_classes,
        checks=tuple([check_label(each.type, each.name, each.path) for each in trial.evaluations]),
        judges=tuple(each.judge.model for each in trial.evaluations if each.judge is not None),
        cost=agents.cost if agents is not None and trial.cost.complete else None,
    )


# Comparing


def compare_sources(
    sources: Iterable[ComparedSource], *, confidence: float = 0.95, pair_changed: bool = False
) -> Comparison:
    """Raises `SetupError` unless there are two sides; a single run counts as its targets."""
    given = list(sources)
    if len(given) == 1:
        given = [given[0].only(each) for each in given[0].side.targets if each]
    if len(given) < 2:
        raise SetupError("nothing to compare: the run has only one target; give a second run")
    given = [each if each.reading is None else _proved(each, each.reading) for each in _named_apart(given)]
    found = compare_sides([each.side for each in given], confidence=confidence, pair_changed=pair_changed)
    first, *others = given
    with_transcripts = [
        msgspec.structs.replace(each, changes=list(_with_transcripts(each.changes, first, other)))
        for each, other in zip(found.comparisons, others, strict=True)
    ]
    return msgspec.structs.replace(found, comparisons=with_transcripts)


def _proved(source: ComparedSource, reading: Reading) -> ComparedSource:
    return msgspec.structs.replace(source, side=msgspec.structs.replace(source.side, flaw=reading.flaw))


def _named_apart(sources: Sequence[ComparedSource]) -> list[ComparedSource]:
    """Named by their targets if these differ, else by their runs, else by both or by number."""
    targets = [_only_target(each.side.samples) for each in sources]
    runs = [each.side.run_id for each in sources]
    both = [f"{run} {target}".strip() for run, target in zip(runs, targets, strict=True)]
    names = next(
        (each for each in (targets, runs, both) if all(each) and len(set(each)) == len(each)),
        [f"{name} ({at})" for at, name in enumerate(both, start=1)],
    )
    return [
        msgspec.structs.replace(each, side=msgspec.structs.replace(each.side, name=name))
        for each, name in zip(sources, names, strict=True)
    ]


def _only_target(samples: Iterable[Sample]) -> str:
    """The target, if there is one; a scenario that runs no agent has none and does not count."""
    found = Counter(each.target for each in samples if each.target)
    return next(iter(found)) if len(found) == 1 else ""


def _with_transcripts(changes: Iterable[Change], first: ComparedSource, other: ComparedSource) -> Iterator[Change]:
    for at, change in enumerate(changes):
        if at >= TRANSCRIPTS:
            yield change
            continue
        yield msgspec.structs.replace(
            change,
            a=_full_excerpt(first, change.a_target, change.a),
            b=_full_excerpt(other, change.b_target, change.b),
        )


def _full_excerpt(source: ComparedSource, target: str, trial: TrialExcerpt | None) -> TrialExcerpt | None:
    return trial and (source.trial(trial.scenario_id, trial.trial, target) or trial)
