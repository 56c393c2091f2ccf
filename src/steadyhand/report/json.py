"""One trial as the JSON report tells it; docs/json-report.md is the user's side of this file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.rates import (
    ScenarioRate,
    Tally,
    pass_hat_k,
    rates_exit_code,
    summarise,
    tally_scenarios,
    tally_trials,
    value_rates,
)
from steadyhand.judging.severity import Alarm, alarm_of
from steadyhand.records.chat import Finish
from steadyhand.records.cost import CostSummary, Spent
from steadyhand.records.evaluation import EvaluationResult, RubricScore, Verdict
from steadyhand.records.event import (
    VISIBLE,
    ActionTaken,
    AnyEvent,
    ErrorHappened,
    ModelCalled,
    Noted,
    Observed,
    ServiceCalled,
    Thought,
)
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import RunHeader, RunMatrix, TrialRecord, answers_finish, exported_transcript
from steadyhand.records.values import plain
from steadyhand.report.details import incident_json


def cost_json(summary: CostSummary) -> dict[str, Any]:
    """`complete` is false when a call was not counted or has no known price: then the figures are lower bounds."""
    return {
        **_spent(summary.total),
        "complete": summary.complete,
        "list_prices": summary.list_prices,
        "by_purpose": {purpose: _spent(spent) for purpose, spent in summary.by_purpose.items()},
        "by_model": {model: _spent(spent) for model, spent in summary.by_model.items()},
    }


def _spent(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": spent.cost,
    }


def whole(value: Any) -> Any:
    """Like `msgspec.to_builtins`, but with what is at its default. Values that users brought stay as they are."""
    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [whole(item) for item in cast("tuple[Any, ...]", value)]
    return value


def trial_json(trial: TrialRecord, prices: Prices) -> dict[str, Any]:
    judged = trial.judged
    return {
        "scenario": {
            "id": trial.key.scenario_id,
            "name": trial.scenario_name,
            "file": trial.place.file,
            "digest": trial.digest,
            "domain": trial.domain,
            "tags": trial.tags,
            "expects": trial.expects,
        },
        "trial": trial.key.index,
        "seed": trial.seed,
        "agent": trial.agent,
        "model": trial.model,
        "shows": None if trial.shows is None else {what: trial.shows.of(what) for what in VISIBLE},
        "missing_plugins": trial.missing_plugins,
        "verdict": judged.verdict,
        "reason": judged.reason,
        "outcome": judged.outcome,
        **_finish(answers_finish(trial.events)),
        "latency_ms": judged.latency_ms,
        "latency_tier": judged.latency_tier,
        "latency_cut": judged.latency_cut,
        "latency_not_graded": [str(each) for each in judged.latency_spoiled],
        "time_to_first_token_ms": judged.time_to_first_token_ms,
        "time_to_safe_ms": judged.time_to_safe_ms,
        "first_safe_ms": judged.first_safe_ms,
        "safety_at_deadline": whole(judged.safety_at_deadline),
        "time_to_safe_excludes": judged.time_to_safe_excludes,
        "times_not_known": judged.times_unknown,
        "safety_score": judged.safety_score,
        "failure_classes": judged.failure_classes,
        "alarm": alarm_of(trial),
        "rubric": _rubric(judged.rubric),
        "termination_reason": trial.conversations[-1].termination_reason if trial.conversations else None,
        "terminated_early": trial.conversations[-1].terminated_early if trial.conversations else None,
        "conversations": [_conversation(talk) for talk in trial.conversations],
        "evaluations": [_evaluation(result) for result in trial.evaluations],
        "transcript": _transcript(trial),
        "trajectory": _trajectory(trial.events),
        "timing": {
            "started_at": trial.started_at,
            "duration_ms": trial.duration_ms,
            "phases": whole(trial.phases),
            "calls": [_call(event) for event in trial.events if isinstance(event, ModelCalled)],
        },
        "errors": _errors(trial),
        "notes": [
            {"level": event.level, "message": event.message, "at_ms": event.at_ms}
            for event in trial.events
            if isinstance(event, Noted)
        ],
        "incidents": [told for event in trial.events if (told := incident_json(event)) is not None],
        "metrics": whole(trial.metrics),
        "cost": cost_json(cost_of_trial(trial, prices)),
        "earlier": [trial_json(earlier, prices) for earlier in trial.earlier],
        "replaced": [trial_json(replaced, prices) for replaced in trial.replaced],
    }


def _transcript(trial: TrialRecord) -> list[dict[str, Any]]:
    return [
        {
            "role": said.message.role,
            "content": said.message.content,
            "at_ms": said.at_ms,
            "step": said.step,
            "turn": said.turn,
        }
        for said in exported_transcript(trial)
    ]


def _conversation(talk: ConversationEnding) -> dict[str, Any]:
    return {
        "step": talk.step,
        "turns": talk.turns,
        "terminated_early": talk.terminated_early,
        "termination_reason": talk.termination_reason,
        "termination_evidence": talk.termination_evidence,
        "transcript_exported": talk.transcript_exported,
    }


def _rubric(score: RubricScore | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {
        "name": score.name,
        "scored": score.overall is not None,
        "scores": score.scores,
        "overall": score.overall,
        "fabricated": score.fabricated,
        "evidence": score.evidence,
        "reason": score.reason,
        "judge": whole(score.note),
    }


def _evaluation(result: EvaluationResult) -> dict[str, Any]:
    return {
        "type": result.type,
        "name": result.name,
        "description": result.description,
        "verdict": result.verdict,
        "success": result.success,
        "message": result.message,
        "where": str(result.place) if result.place else None,
        "path": result.place.path if result.place else None,
        "stage": result.stage,
        "step": result.step,
        "turn": result.turn,
        "severity": result.severity,
        "weight": result.weight,
        "evidence": whole(result.evidence),
        "figures": result.figures,
        "rests_on": result.rests_on,
        "self_reported": result.self_reported,
        "duration_ms": result.duration_ms,
        "judge": whole(result.judge),
    }


def _trajectory(events: Iterable[AnyEvent]) -> list[dict[str, Any]]:
    """Told in one shape, by the time each began. Service calls are told too: what an agent did, it did through them."""
    found = [entry for event in events if (entry := _entry(event)) is not None]
    return sorted(found, key=lambda entry: entry["at_ms"])


def _entry(event: AnyEvent) -> dict[str, Any] | None:
    told: dict[str, Any]
    match event:
        case Thought():
            told = {"type": "thought", "content": event.text}
        case ActionTaken():
            told = {
                "type": "action",
                "name": event.name,
                "params": event.params,
                "status": event.status,
                "duration_ms": event.duration_ms,
            }
        case Observed():
            told = {"type": "observation", "name": event.name, "content": event.content}
        case ServiceCalled():
            told = {
                "type": "service_call",
                "name": f"{event.service}.{event.method}",
                "params": {"args": event.args, "input": event.input},
                "status": "success" if event.error is None else "error",
                "content": event.result,
                "duration_ms": event.duration_ms,
                "mock": event.mock,
                "error": event.error,
            }
        case _:
            return None
    blank = dict.fromkeys(("name", "params", "status", "content", "duration_ms", "mock", "error"))
    at = {"at_ms": event.at_ms, "step": event.step, "turn": event.turn}
    return {"type": told["type"], **at, **blank, **told}


def _call(event: ModelCalled) -> dict[str, Any]:
    timing = event.timing
    return {
        "model": event.model,
        "purpose": event.purpose,
        "at_ms": event.at_ms,
        "step": event.step,
        "turn": event.turn,
        "queued_ms": timing.queued_ms,
        "attempts": whole(timing.attempts),
        "loop_lag_ms": timing.loop_lag_ms,
        "latency_ms": timing.latency_ms,
        "first_token_ms": timing.first_token_ms,
        "chunks": timing.chunks,
        "spoiled": [str(each) for each in timing.spoiled],
        "usage": whole(event.usage),
        "error": event.error,
        **_finish(event.finish),
    }


def _finish(finish: Finish | None) -> dict[str, Any]:
    """How an answer ended; all null where nobody said."""
    if finish is None:
        return {"finish_reason": None, "finish_raw": None, "token_limit": None}
    return {"finish_reason": finish.reason, "finish_raw": finish.raw, "token_limit": finish.token_limit}


def _errors(trial: TrialRecord) -> list[dict[str, Any]]:
    """What broke: the errors that were reported, and those of phases that only their record tells of."""
    found = [
        {
            "phase": event.phase,
            "message": event.message,
            "type": event.error_type,
            "at_ms": event.at_ms,
            "traceback": event.traceback,
        }
        for event in trial.events
        if isinstance(event, ErrorHappened)
    ]
    told = {error["phase"] for error in found}
    for phase in trial.phases:
        if phase.error is not None and phase.name not in told:
            at = phase.started_ms + phase.duration_ms
            found.append({"phase": phase.name, "message": phase.error, "type": None, "at_ms": at, "traceback": None})
    return found


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
    except (ValueError, TypeError, RecursionError):
        return msgspec.json.encode(plain(value, keep=(float,)))
