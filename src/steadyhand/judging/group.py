"""What a group of checks, and the negation of a check, add up to. Three values: what is undecided stays undecided."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from steadyhand.records.base import counted
from steadyhand.records.evaluation import (
    EvaluationResult,
    EvaluationSpec,
    Evidence,
    Verdict,
    errored,
    failed,
    inconclusive,
    passed,
)


def needed(group: EvaluationSpec) -> int:
    """How many of its checks must pass."""
    if group.type == "at_least":
        count: int = group.params["count"]
        return count
    return 1 if group.type == "any_of" else len(group.parts)


def is_settled(group: EvaluationSpec, results: Sequence[EvaluationResult]) -> bool:
    """Whether the checks that have not been made could not change the verdict."""
    held = sum(each.verdict is Verdict.PASSED for each in results)
    lost = sum(each.verdict is Verdict.FAILED for each in results)
    return held >= needed(group) or len(group.parts) - lost < needed(group)


def combined(group: EvaluationSpec, results: Sequence[EvaluationResult]) -> EvaluationResult:
    """A broken check breaks the group: nobody knows what it would have said."""
    least = needed(group)
    held = [each for each in results if each.verdict is Verdict.PASSED]
    lost = [each for each in results if each.verdict is Verdict.FAILED]
    listed = "; ".join(f"{each.type} {each.verdict}: {each.message}" for each in results)
    expected = f"{least} of {counted(len(group.parts), 'check')} to pass"
    evidence = Evidence(expected=expected, found=f"{len(held)} passed, {len(lost)} failed", excerpt=listed)
    parts = [
        {"type": each.type, "verdict": each.verdict.value, "message": each.message, "figures": each.figures}
        for each in results
    ]
    figures = {"passed": len(held), "needed": least, "parts": parts}
    message = f"{len(held)} of {counted(len(group.parts), 'check')} passed, {least} needed: {listed}"
    if any(each.verdict is Verdict.ERROR for each in results):
        found = errored(message, evidence=evidence, figures=figures)
    elif len(held) >= least:
        ground = "absence" if all(each.rests_on == "absence" for each in held) else None
        found = passed(message, evidence=evidence, figures=figures, rests_on=ground)
    elif len(group.parts) - len(lost) < least:
        sure = sum(each.rests_on != "neither" for each in lost)
        ground = None if len(group.parts) - sure < least else "neither"
        found = failed(message, evidence=evidence, figures=figures, rests_on=ground)
    else:
        found = inconclusive(message, evidence=evidence, figures=figures)
    reported = tuple(dict.fromkeys(what for each in results for what in each.self_reported))
    return replace(found, judge=next((each.judge for each in results if each.judge), None), self_reported=reported)


def negation(found: EvaluationResult) -> EvaluationResult:
    """Passes what failed, and fails what passed, except where the opposite does not hold either."""
    if found.verdict is Verdict.PASSED:
        ground = None if found.rests_on == "absence" else "presence"
        return replace(
            found, verdict=Verdict.FAILED, message=f"expected the opposite: {found.message}", rests_on=ground
        )
    if found.verdict is not Verdict.FAILED:
        return found
    if found.rests_on == "neither":
        return replace(found, message=f"neither it nor its opposite holds: {found.message}")
    ground = None if found.rests_on == "presence" else "absence"
    return replace(found, verdict=Verdict.PASSED, message=f"as asked, the opposite: {found.message}", rests_on=ground)
