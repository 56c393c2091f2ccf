"""How reasons name evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.records.evaluation import EvaluationResult

_NAMED = 3


def label(evaluation: EvaluationResult) -> str:
    """What a person calls this check: its name, else its type."""
    return evaluation.name or evaluation.type or "unnamed check"


def named(evaluations: Sequence[EvaluationResult]) -> str:
    """The first few by name, and how many more there are; a name that repeats is given once."""
    names = list(dict.fromkeys(label(evaluation) for evaluation in evaluations))
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
