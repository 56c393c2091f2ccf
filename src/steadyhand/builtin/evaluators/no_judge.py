"""What a check answers that needs a judge where there is none."""

from __future__ import annotations

from steadyhand.records.evaluation import EvaluationResult, Evidence, inconclusive


def no_judge(question: str) -> EvaluationResult:
    """Never a pass: what nobody has judged is not known."""
    return inconclusive(
        "no judge is set, so this was not judged; name one with `--judge provider/model` or `judge` in steadyhand.toml",
        evidence=Evidence(expected=question, found="not judged"),
    )
