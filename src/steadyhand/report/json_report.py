"""The JSON report: a run for machines, in a documented shape with a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.rates import ScenarioRate, rates_exit_code, summarise
from steadyhand.judging.severity import Alarm, alarm_of
from steadyhand.records.cost import CostSummary
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader, TrialRecord
from steadyhand.report.cost_json import cost_json
from steadyhand.report.json import trial_json
from steadyhand.report.rates_json import matrices_json, scenarios_json, verdicts_json
from steadyhand.report.whole import whole
from steadyhand.store.schema import plain

REPORT_FORMAT = 2


def to_json(header: RunHeader, trials: Iterable[TrialRecord], rates: Sequence[ScenarioRate]) -> Iterator[bytes]:
    """The report in pieces, one line per trial, so that a run of any length is written as it is read.

    `rates` says what became of each scenario of the plan, and so decides the exit code.

    The summary stands at the end because it is counted from the trials that were written.
    """
    yield b'{"format":%d,\n"run":%b,\n"trials":[' % (REPORT_FORMAT, _encode(_run(header)))
    prices = Prices.of_run(header)
    spent = CostSummary()
    counts: Counter[Verdict] = Counter()
    alarms: Counter[Alarm] = Counter()
    for trial in trials:
        yield (b",\n" if counts else b"\n") + _encode(trial_json(trial, prices))
        counts[trial.judged.verdict] += 1
        spent = spent.plus(cost_of_trial(trial, prices))
        if alarm := alarm_of(trial):
            alarms[alarm] += 1
    summary = summarise(counts, planned=header.planned, alarms=alarms)
    told = {
        **whole(summary),
        "total": summary.total,
        "scenarios": verdicts_json(rates),
        "exit_code": int(rates_exit_code(rates)),
        "cost": cost_json(spent),
    }
    yield b'\n],\n"scenarios":%b,\n' % _encode(scenarios_json(header, rates))
    yield b'"matrices":%b,\n"summary":%b}\n' % (_encode(matrices_json(header, rates)), _encode(told))


def _run(header: RunHeader) -> dict[str, Any]:
    """The header as it is; what its matrices came to stands under `matrices`."""
    return {name: value for name, value in whole(header).items() if name != "matrices"}


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=repr)
    except (ValueError, TypeError):
        return msgspec.json.encode(plain(value))
