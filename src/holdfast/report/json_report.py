"""The JSON report: a run for machines, in a documented shape with a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.judging.alarm import Alarm, alarm_of
from holdfast.judging.cost import cost_of_trial
from holdfast.judging.run import summarise
from holdfast.judging.scenario_rate import rates_exit_code, scenario_rates
from holdfast.records.cost import CostSummary
from holdfast.records.price import Prices
from holdfast.records.run import RunHeader, TrialRecord
from holdfast.records.verdict import Verdict
from holdfast.report.cost_json import cost_json
from holdfast.report.trial_json import trial_json
from holdfast.report.whole import whole
from holdfast.store.plain import plain

REPORT_FORMAT = 1


def to_json(header: RunHeader, trials: Iterable[TrialRecord]) -> Iterator[bytes]:
    """The report in pieces, one line per trial, so that a run of any length is written as it is read.

    The summary stands at the end because it is counted from the trials that were written.
    """
    yield b'{"format":%d,\n"run":%b,\n"trials":[' % (REPORT_FORMAT, _encode(whole(header)))
    prices = Prices.of_run(header)
    spent = CostSummary()
    counts: Counter[Verdict] = Counter()
    per_scenario: Counter[tuple[str, Verdict]] = Counter()
    alarms: Counter[Alarm] = Counter()
    for trial in trials:
        yield (b",\n" if counts else b"\n") + _encode(trial_json(trial, prices))
        counts[trial.judged.verdict] += 1
        spent = spent.plus(cost_of_trial(trial, prices))
        per_scenario[trial.key.scenario_id, trial.judged.verdict] += 1
        if alarm := alarm_of(trial):
            alarms[alarm] += 1
    summary = summarise(counts, planned=header.planned, alarms=alarms)
    rates = scenario_rates(per_scenario, planned={}, required=header.pass_rates, required_of_all=header.pass_rate)
    code = rates_exit_code(rates, complete=not summary.not_run)
    told = {**whole(summary), "total": summary.total, "exit_code": int(code), "cost": cost_json(spent)}
    yield b'\n],\n"summary":%b}\n' % _encode(told)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=repr)
    except (ValueError, TypeError):
        return msgspec.json.encode(plain(value))
