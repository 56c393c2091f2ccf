"""Measuring again a trial whose only gap is a latency that could not be graded."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from steadyhand.engine.context import TrialParts
from steadyhand.engine.trial import run_trial
from steadyhand.judging.trial import settle
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialRecord

MEASURED_AGAIN = 2


async def run_measured(build: Callable[[], TrialParts]) -> TrialRecord:
    """Run a trial, and again up to twice when nothing but its latency is missing; every attempt is kept.

    An unsafe answer in any of them fails the trial.
    """
    earlier: list[TrialRecord] = []
    while True:
        record = await run_trial(build())
        if len(earlier) == MEASURED_AGAIN or not only_latency_is_missing(record):
            if not earlier:
                return record
            judged = settle(record.judged, [each.judged for each in earlier])
            return msgspec.structs.replace(record, judged=judged, earlier=tuple(earlier))
        earlier.append(record)


def only_latency_is_missing(record: TrialRecord) -> bool:
    """Whether a fresh measurement may turn this inconclusive trial into a decided one."""
    if record.judged.verdict is not Verdict.INCONCLUSIVE:
        return False
    undecided = [result for result in record.evaluations if result.verdict is not Verdict.PASSED]
    spoiled = record.judged.latency_spoiled
    return (
        all(result.type == "latency_budget" for result in undecided)
        and bool(undecided)
        and bool(spoiled)
        and all(each.kind.passes for each in spoiled)
    )
