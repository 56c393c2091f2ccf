"""Scenarios and matrices in the JSON report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.judging.matrix_rate import Tally, tally_scenarios, tally_trials, value_rates
from holdfast.judging.scenario_rate import ScenarioRate
from holdfast.judging.statistics import pass_hat_k
from holdfast.records.run import RunHeader, RunMatrix
from holdfast.records.verdict import Verdict
from holdfast.report.whole import whole

_LARGEST_K = 5


def scenarios_json(header: RunHeader, rates: Sequence[ScenarioRate]) -> list[dict[str, Any]]:
    """One entry for each scenario of the run, combinations of a matrix among them, in the order of the plan."""
    matrices = {each: matrix for matrix in header.matrices for each in matrix.combinations}
    return [_scenario(rate, matrices.get(rate.scenario_id)) for rate in rates]


def matrices_json(header: RunHeader, rates: Sequence[ScenarioRate]) -> list[dict[str, Any]]:
    by_id = {rate.scenario_id: rate for rate in rates}
    return [_matrix(matrix, by_id) for matrix in header.matrices]


def verdicts_json(rates: Sequence[ScenarioRate]) -> dict[str, int]:
    """How many scenarios came to each verdict."""
    return _verdicts(tally_scenarios(rates))


def _scenario(rate: ScenarioRate, matrix: RunMatrix | None) -> dict[str, Any]:
    decided = rate.passed + rate.failed
    return {
        "id": rate.scenario_id,
        "verdict": rate.verdict.value,
        "reason": rate.reason,
        "required": rate.required,
        "trials": _tally(tally_trials([rate])),
        "share": rate.share,
        "interval": list(rate.interval) if rate.interval else None,
        "pass_hat_k": {str(k): pass_hat_k(rate.passed, decided, k) for k in range(1, min(_LARGEST_K, decided) + 1)},
        "matrix": None
        if matrix is None
        else {"name": matrix.name, "file": matrix.file, "parameters": matrix.parameters(rate.scenario_id)},
    }


def _matrix(matrix: RunMatrix, rates: Mapping[str, ScenarioRate]) -> dict[str, Any]:
    axes: dict[str, list[dict[str, Any]]] = {}
    for each in value_rates(matrix, rates):
        found = {"value": each.value, "combinations": _verdicts(each.combinations), "trials": _tally(each.trials)}
        axes.setdefault(each.parameter, []).append(found)
    listed = [{"parameter": parameter, "values": values} for parameter, values in axes.items()]
    return {"name": matrix.name, "file": matrix.file, "combinations": list(matrix.combinations), "axes": listed}


def _tally(found: Tally) -> dict[str, int]:
    return {**whole(found), "total": found.total}


def _verdicts(found: Tally) -> dict[str, int]:
    return {**{verdict.value: getattr(found, verdict.value) for verdict in Verdict}, "total": found.total}
