"""How well a judge agrees with people: accuracy, Cohen's kappa, and the rates of false passes and false fails.

People's labels are treated as the truth. Cases without a judgement are excluded from the rates and counted separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from steadyhand.judging.statistics import Bounds, clopper_pearson_interval, normal_quantile
from steadyhand.records.base import Record
from steadyhand.records.calibration import Agreement, PassOrFail, Rate
from steadyhand.records.config import CalibrationConfig

CONFIDENCE = 0.95


class Case(Record):
    """One labelled check. `judged` is None when the judge gave no judgement."""

    label: PassOrFail
    judged: PassOrFail | None


def agreement(cases: Iterable[Case]) -> Agreement:
    """The agreement of one judge with the labels, assuming independent cases."""
    counts = {(label, judged): 0 for label in ("pass", "fail") for judged in ("pass", "fail", None)}
    for case in cases:
        counts[case.label, case.judged] += 1
    both_pass, both_fail = counts["pass", "pass"], counts["fail", "fail"]
    wrongly_passed, wrongly_failed = counts["fail", "pass"], counts["pass", "fail"]
    compared = both_pass + both_fail + wrongly_passed + wrongly_failed
    kappa = cohens_kappa(both_pass, wrongly_failed, wrongly_passed, both_fail)
    bounds = kappa_interval(both_pass, wrongly_failed, wrongly_passed, both_fail)
    return Agreement(
        cases=compared,
        no_judgement=counts["pass", None] + counts["fail", None],
        accuracy=_rate(both_pass + both_fail, compared),
        false_pass=_rate(wrongly_passed, wrongly_passed + both_fail),
        false_fail=_rate(wrongly_failed, wrongly_failed + both_pass),
        kappa=kappa,
        kappa_low=bounds[0] if bounds else None,
        kappa_high=bounds[1] if bounds else None,
    )


def _rate(count: int, of: int) -> Rate:
    bounds = clopper_pearson_interval(count, of, CONFIDENCE)
    if bounds is None:
        return Rate(count=count, of=of)
    return Rate(count=count, of=of, rate=count / of, low=bounds[0], high=bounds[1])


def cohens_kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> float | None:
    """Agreement beyond chance: (p_o - p_e) / (1 - p_e). The first word is the label's, the second the judge's."""
    n = yes_yes + yes_no + no_yes + no_no
    if n == 0:
        return None
    observed = (yes_yes + no_no) / n
    labels, judge = (yes_yes + yes_no) / n, (yes_yes + no_yes) / n
    by_chance = labels * judge + (1 - labels) * (1 - judge)
    return None if by_chance >= 1 else (observed - by_chance) / (1 - by_chance)


def kappa_interval(yes_yes: int, yes_no: int, no_yes: int, no_no: int, confidence: float = CONFIDENCE) -> Bounds | None:
    """By the large-sample variance of Fleiss, Cohen and Everitt (1969); None if that is zero or undefined."""
    kappa = cohens_kappa(yes_yes, yes_no, no_yes, no_no)
    if kappa is None:
        return None
    n = yes_yes + yes_no + no_yes + no_no
    cells = ((yes_yes / n, yes_no / n), (no_yes / n, no_no / n))
    rows = [sum(row) for row in cells]
    columns = [cells[0][at] + cells[1][at] for at in (0, 1)]
    by_chance = sum(row * column for row, column in zip(rows, columns, strict=True))
    agreeing = sum(cells[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in (0, 1))
    missing = (1 - kappa) ** 2 * sum(
        cells[i][j] * (columns[i] + rows[j]) ** 2 for i in (0, 1) for j in (0, 1) if i != j
    )
    variance = (agreeing + missing - (kappa - by_chance * (1 - kappa)) ** 2) / (n * (1 - by_chance) ** 2)
    if variance <= 1e-15:
        return None
    reach = normal_quantile(0.5 + confidence / 2) * math.sqrt(variance)
    return max(-1.0, kappa - reach), min(1.0, kappa + reach)


def shortfall(found: Agreement, bars: CalibrationConfig) -> str | None:
    """Why the judge does not meet the thresholds, or None. An undefined figure meets none."""
    if found.cases < bars.min_labels:
        return f"it was compared with {found.cases} labels, and `min_labels` is {bars.min_labels}"
    if bars.min_kappa is not None and (found.kappa is None or found.kappa < bars.min_kappa):
        return f"its kappa is {_figure_text(found.kappa)}, and `min_kappa` is {bars.min_kappa:g}"
    limits: Mapping[str, tuple[Rate, float | None]] = {
        "false_pass": (found.false_pass, bars.max_false_pass),
        "false_fail": (found.false_fail, bars.max_false_fail),
    }
    for name, (rate, most) in limits.items():
        if most is not None and (rate.rate is None or rate.rate > most):
            return f"its {name.replace('_', '-')} rate is {_figure_text(rate.rate)}, and `max_{name}` is {most:g}"
    return None


def _figure_text(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3g}"
