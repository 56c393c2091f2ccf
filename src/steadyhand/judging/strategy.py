"""The verdict over all evaluations, by the scenario's strategy.

*Undecided* means inconclusive or error. It never counts as passed, and the verdict is failed only if deciding it either
way could not have led to passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.scenario import VerdictPolicy

_NAMED = 3
_VERDICTS = (Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.ERROR)
NOTHING_EVALUATED = "nothing was evaluated"


class _Sorted(NamedTuple):
    passed: list[EvaluationResult]
    failed: list[EvaluationResult]
    inconclusive: list[EvaluationResult]
    error: list[EvaluationResult]

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.failed) + len(self.inconclusive) + len(self.error)


def decide(judgment: VerdictPolicy, evaluations: Sequence[EvaluationResult]) -> tuple[Verdict, str]:
    """The verdict over all evaluations and the reason for it, in a sentence."""
    if not evaluations:
        return Verdict.INCONCLUSIVE, NOTHING_EVALUATED
    found = _Sorted([], [], [], [])
    for evaluation in evaluations:
        # `index` compares by identity; hashing an enum member for a dictionary costs more.
        found[_VERDICTS.index(evaluation.verdict)].append(evaluation)
    match judgment.strategy:
        case "all_pass":
            return _all_pass(found)
        case "any_pass":
            return _any_pass(found)
        case "majority_pass":
            return _majority_pass(found)
        case "weighted":
            # Without a threshold, everything must pass.
            return _weighted(found, 1.0 if judgment.threshold is None else judgment.threshold)


def _all_pass(found: _Sorted) -> tuple[Verdict, str]:
    if found.failed:
        return Verdict.FAILED, f"{len(found.failed)} of {_checks(found)} failed: {named(found.failed)}"
    if found.error or found.inconclusive:
        return _undecided(found)
    return Verdict.PASSED, "the only check passed" if found.total == 1 else f"all {_checks(found)} passed"


def _any_pass(found: _Sorted) -> tuple[Verdict, str]:
    if found.passed:
        return (
            Verdict.PASSED,
            f"{len(found.passed)} of {_checks(found)} passed, and one is enough: {named(found.passed)}",
        )
    if found.error or found.inconclusive:
        return _undecided(found)
    return Verdict.FAILED, f"none of {_checks(found)} passed: {named(found.failed)}"


def _majority_pass(found: _Sorted) -> tuple[Verdict, str]:
    passed, undecided = len(found.passed), len(found.inconclusive) + len(found.error)
    share = f"{passed} of {_checks(found)} passed"
    if passed * 2 > found.total:
        return Verdict.PASSED, f"{share}, more than half"
    if (passed + undecided) * 2 <= found.total:
        return Verdict.FAILED, f"{share}, but more than half must pass; failed: {named(found.failed)}"
    return _undecided(found)


def _weighted(found: _Sorted, threshold: float) -> tuple[Verdict, str]:
    from decimal import Decimal

    def weight(evaluations: list[EvaluationResult]) -> Decimal:
        # As written in the file: in binary, 0.7 + 0.1 falls short of 0.8.
        return sum((Decimal(repr(evaluation.weight)) for evaluation in evaluations), Decimal(0))

    passed, undecided = weight(found.passed), weight(found.inconclusive) + weight(found.error)
    total = passed + undecided + weight(found.failed)
    if total <= 0:
        return Verdict.INCONCLUSIVE, f"{_checks(found)} with a total weight of 0, so nothing decides"
    needed = Decimal(repr(threshold)) * total
    share = f"weight {passed.normalize():f} of {total.normalize():f} passed"
    if passed >= needed:
        return Verdict.PASSED, f"{share}; at least {needed.normalize():f} needed"
    if passed + undecided < needed:
        return Verdict.FAILED, f"{share}; at least {needed.normalize():f} needed; failed: {named(found.failed)}"
    weighing = [e for e in found.inconclusive if e.weight], [e for e in found.error if e.weight]
    return _undecided(found._replace(inconclusive=weighing[0], error=weighing[1]))


def _undecided(found: _Sorted) -> tuple[Verdict, str]:
    """Error before inconclusive: what broke must be fixed before anything can be decided."""
    if found.error:
        first = found.error[0]
        return Verdict.ERROR, f"{_could_not(found.error)}: {label(first)}: {first.message}"
    first = found.inconclusive[0]
    return Verdict.INCONCLUSIVE, f"{_could_not(found.inconclusive)}: {label(first)}: {first.message}"


def _could_not(undecided: list[EvaluationResult]) -> str:
    word = "raised an error" if undecided[0].verdict is Verdict.ERROR else "could not be decided"
    return f"{len(undecided)} check{'' if len(undecided) == 1 else 's'} {word}"


def _checks(found: _Sorted) -> str:
    return f"{found.total} check" if found.total == 1 else f"{found.total} checks"


def label(evaluation: EvaluationResult) -> str:
    """The check as messages call it: by its name, else by its type."""
    return evaluation.name or evaluation.type or "unnamed check"


def named(evaluations: Sequence[EvaluationResult]) -> str:
    """The first few names, without repeats, and how many more there are."""
    names = list(dict.fromkeys(label(evaluation) for evaluation in evaluations))
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
