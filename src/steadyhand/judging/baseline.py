"""The baseline of a gate: the results of a run, by scenario and target.

The file is `Baseline` as JSON, one line per scenario and target, so that a commit shows what changed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.judging.comparison_side import Sample, Side
from steadyhand.records.base import Record, doc, record_schema
from steadyhand.records.evaluation import LatencyTier
from steadyhand.records.location import Place
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART

BASELINE_FORMAT = 1


class BaselineEntry(Record):
    """One scenario by one target. `scenario_digest` and `judge_digest` detect changes in either."""

    scenario: Annotated[str, doc("Id of the scenario")]
    target: Annotated[str, doc("What was under test")]
    passed: Annotated[int, doc("Number of trials that passed")]
    failed: Annotated[int, doc("Number of trials that failed")]
    scenario_digest: Annotated[str, doc("Changes when the scenario does")]
    judge_digest: Annotated[str | None, doc("Changes when the judge does")] = None
    judges: Annotated[tuple[str, ...], doc("Models that judged")] = ()
    undecided: Annotated[int, doc("Number of trials that neither passed nor failed")] = 0
    class_a: Annotated[int, doc("Number of trials with a failure of class A")] = 0
    tier: Annotated[LatencyTier | None, doc("Latency tier of the scenario")] = None
    checks: Annotated[tuple[str, ...], doc("The checks it had")] = ()


class Baseline(Record):
    baseline: Annotated[Literal[1], doc("Version of this format")]
    run: Annotated[str, doc("Id of the run")]
    started_at: Annotated[str, doc("When the run started")]
    steadyhand_version: Annotated[str, doc("Version of Steadyhand that ran it")]
    stopped_early: Annotated[bool, doc("Whether trials were skipped because the verdict was already decided")] = False
    entries: Annotated[tuple[BaselineEntry, ...], doc("Scenarios by target")]


def baseline_schema() -> dict[str, Any]:
    return record_schema(Baseline, "Steadyhand baseline")


def baseline_of(side: Side, steadyhand_version: str) -> Baseline:
    """Sorted by scenario and target, so that two baselines of one suite differ only where their runs do."""
    return Baseline(
        baseline=BASELINE_FORMAT,
        run=side.run_id,
        started_at=side.started_at,
        steadyhand_version=steadyhand_version,
        stopped_early=side.stopped_early,
        entries=tuple(map(_entry, sorted(side.samples, key=lambda each: (each.scenario_id, each.target)))),
    )


def _entry(sample: Sample) -> BaselineEntry:
    return BaselineEntry(
        scenario=sample.scenario_id,
        target=sample.target,
        passed=len(sample.passed),
        failed=len(sample.failed),
        scenario_digest=sample.parts.get(SCENARIO_PART, ""),
        judge_digest=sample.parts.get(JUDGE_PART),
        judges=sample.judges,
        undecided=sample.undecided,
        class_a=sample.class_a,
        tier=sample.tier,
        checks=sample.checks,
    )


def side_of(baseline: Baseline, name: str) -> Side:
    """Raises `ValueError` for a negative count, or for a duplicate scenario and target."""
    samples: dict[tuple[str, str], Sample] = {}
    for each in baseline.entries:
        key = (each.scenario, each.target)
        if key in samples:
            raise ValueError(f"{each.scenario} of {each.target} is listed twice")
        if min(each.passed, each.failed, each.undecided, each.class_a) < 0:
            raise ValueError(f"{each.scenario} has a count below zero")
        parts = {SCENARIO_PART: each.scenario_digest} if each.scenario_digest else {}
        if each.judge_digest is not None:
            parts[JUDGE_PART] = each.judge_digest
        samples[key] = Sample(
            recorded_id=each.scenario,
            scenario_id=each.scenario,
            target=each.target,
            place=Place(file=""),
            parts=parts,
            passed=array("q", range(each.passed)),
            failed=array("q", range(each.passed, each.passed + each.failed)),
            undecided=each.undecided,
            tier=each.tier,
            class_a=each.class_a,
            checks=each.checks,
            judges=each.judges,
        )
    return Side(
        name=name,
        run_id=baseline.run,
        started_at=baseline.started_at,
        samples=tuple(samples.values()),
        stopped_early=baseline.stopped_early,
    )


def baseline_lines(baseline: Baseline) -> Iterator[bytes]:
    """The file, one line per scenario and target."""
    head = msgspec.json.encode(msgspec.structs.replace(baseline, entries=()))
    assert head.endswith(b'"entries":[]}')
    yield head[: -len(b"]}")]
    for at, entry in enumerate(baseline.entries):
        yield (b"," if at else b"") + b"\n" + msgspec.json.encode(entry)
    yield b"\n]}\n"
