"""Writes the JSON report from records. Its structure is defined in `json_shapes.py` and `json_trial_shapes.py`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from steadyhand.judging.cost import CostSummary, Prices, cost_of_trial
from steadyhand.judging.figures import Figures, RunFigures, TimeFigures
from steadyhand.judging.rates import ScenarioRate, value_rates
from steadyhand.judging.trial import alarm_of
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import TotalsFold, TrialTimes
from steadyhand.records.base import Record, plain
from steadyhand.records.chat import Finish
from steadyhand.records.deed_name import tool_names
from steadyhand.records.evaluation import EvaluationResult, JudgeNote, RubricScore
from steadyhand.records.event import (
    ActionTaken,
    AnyEvent,
    ErrorHappened,
    Lagged,
    ModelCalled,
    Noted,
    Observed,
    Retried,
    ServiceCalled,
    Thought,
    Waited,
    action_names,
    answers_finish,
)
from steadyhand.records.result import ConversationMetrics
from steadyhand.records.run import CanaryTally, RunHeader, RunMatrix, Spent, Target, TrialRecord, exported_transcript
from steadyhand.records.trajectory import without_repeated_actions
from steadyhand.report import json_shapes as shapes
from steadyhand.report import json_trial_shapes as trial_shapes
from steadyhand.report.json_shapes import REPORT_FORMAT

S = TypeVar("S", bound=msgspec.Struct)


def to_json(reading: Reading) -> Generator[bytes]:
    """The report in pieces, one line per trial, so that a run of any length is written as it is read.

    The summary comes last because it is counted from the trials that were written.
    """
    reading.want(TotalsFold)
    reading.want(TrialTimes)
    yield b'{"format":%d,\n"run":%b,\n"trials":[' % (REPORT_FORMAT, _encode(_run(reading.header)))
    separator = b"\n"
    for trial in reading.read():
        yield separator + _encode(_trial(trial, reading.prices))
        separator = b",\n"
    summary = _copy(
        shapes.JsonSummary,
        reading.summary,
        total=reading.summary.finished,
        scenarios=_copy(shapes.JsonVerdictCounts, reading.scenarios),
        exit_code=int(reading.exit_code),
        cost=_cost(reading.totals.spent),
    )
    yield b'\n],\n"scenarios":%b,\n' % _encode(_scenarios(reading))
    yield b'"matrices":%b,\n"figures":%b,\n' % (_encode(_matrices(reading)), _encode(_run_figures(reading.figures)))
    yield b'"summary":%b}\n' % _encode(summary)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=repr)
    except (ValueError, TypeError):
        return msgspec.json.encode(plain(value))


def _copy(shape: type[S], record: Record, **given: Any) -> S:
    """The record converted to another type: fields that are not `given` are copied by name."""
    names, values_of = _shared(shape, *given)
    return shape(**dict(zip(names, values_of(record), strict=True)), **given)


@functools.cache
def _shared(shape: type[msgspec.Struct], *given: str) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The fields that a shape has in common with its record, and what reads them all at once."""
    names = tuple(name for name in shape.__struct_fields__ if name not in given)
    if len(names) < 2:
        return names, lambda record: tuple(getattr(record, name) for name in names)
    return names, operator.attrgetter(*names)


def _run(header: RunHeader) -> shapes.JsonRun:
    prices = {model: _copy(shapes.JsonPrice, price) for model, price in header.prices.items()}
    return _copy(shapes.JsonRun, header, prices=prices, canaries=_canaries(header.canaries), shard=_shard(header))


def _shard(header: RunHeader) -> str | None:
    return None if header.shard is None else str(header.shard)


def _canaries(tally: CanaryTally | None) -> shapes.JsonCanaries | None:
    if tally is None:
        return None
    cases = tuple(_copy(shapes.JsonJudgedCase, case) for case in tally.cases)
    return _copy(shapes.JsonCanaries, tally, asked=len(cases), cases=cases, cost=_spent(tally.spent))


def _trial(trial: TrialRecord, prices: Prices) -> trial_shapes.JsonTrial:
    judged = trial.judged
    last = trial.conversations[-1] if trial.conversations else None
    return trial_shapes.JsonTrial(
        scenario=trial_shapes.JsonScenario(
            id=trial.key.scenario_id,
            name=trial.scenario_name,
            file=trial.place.file,
            digest=trial.digest,
            domain=trial.domain,
            tags=trial.tags,
            expects=trial.expects,
        ),
        trial=trial.key.index,
        seed=trial.seed,
        agent=trial.agent,
        model=trial.model,
        shows=_copy_known(trial_shapes.JsonShows, trial.shows),
        missing_plugins=trial.missing_plugins,
        isolation=trial.isolation,
        ran_on=_copy_known(trial_shapes.JsonRanOn, trial.ran_on),
        verdict=judged.verdict,
        reason=judged.reason,
        outcome=judged.outcome,
        **_finish(answers_finish(trial.events)),
        latency_ms=judged.latency_ms,
        latency_tier=judged.latency_tier,
        latency_cut=judged.latency_cut,
        latency_not_graded=tuple(map(str, judged.latency_spoiled)),
        time_to_first_token_ms=judged.time_to_first_token_ms,
        time_to_safe_ms=judged.time_to_safe_ms,
        first_safe_ms=judged.first_safe_ms,
        safety_at_deadline=_copy_known(trial_shapes.JsonSafetyAtDeadline, judged.safety_at_deadline),
        time_to_safe_excludes=judged.time_to_safe_excludes,
        invariants_over_time=tuple(
            _copy(trial_shapes.JsonInvariantTimes, each) for each in judged.invariants_over_time
        ),
        times_not_known=judged.times_unknown,
        safety_score=judged.safety_score,
        failure_classes=judged.failure_classes,
        alarm=alarm_of(trial),
        rubric=_rubric(judged.rubric),
        termination_reason=None if last is None else last.termination_reason,
        terminated_early=None if last is None else last.terminated_early,
        conversations=tuple(_copy(trial_shapes.JsonConversation, talk) for talk in trial.conversations),
        evaluations=tuple(map(_evaluation, trial.evaluations)),
        transcript=_transcript(trial),
        trajectory=trajectory_entries(trial),
        timing=_timing(trial),
        errors=tuple(errors_of(trial)),
        notes=tuple(_copy(trial_shapes.JsonNote, event) for event in trial.events if isinstance(event, Noted)),
        incidents=tuple(told for event in trial.events if (told := _incident(event)) is not None),
        metrics=_metrics(trial.metrics),
        cost=_cost(cost_of_trial(trial, prices)),
        earlier=tuple(_trial(earlier, prices) for earlier in trial.earlier),
        replaced=tuple(_trial(replaced, prices) for replaced in trial.replaced),
    )


def _copy_known(shape: type[S], record: Record | None) -> S | None:
    return None if record is None else _copy(shape, record)


def _transcript(trial: TrialRecord) -> tuple[trial_shapes.JsonMessage, ...]:
    return tuple(
        _copy(trial_shapes.JsonMessage, said, role=said.message.role, content=said.message.content)
        for said in exported_transcript(trial)
    )


def _rubric(score: RubricScore | None) -> trial_shapes.JsonRubric | None:
    if score is None:
        return None
    return _copy(trial_shapes.JsonRubric, score, scored=score.overall is not None, judge=_judge(score.note))


def _judge(note: JudgeNote | None) -> trial_shapes.JsonJudge | None:
    return _copy_known(trial_shapes.JsonJudge, note)


def _evaluation(result: EvaluationResult) -> trial_shapes.JsonEvaluation:
    return _copy(
        trial_shapes.JsonEvaluation,
        result,
        where=str(result.place) if result.place else None,
        path=result.place.path if result.place else None,
        evidence=_copy_known(trial_shapes.JsonEvidence, result.evidence),
        judge=_judge(result.judge),
    )


def trajectory_entries(trial: TrialRecord) -> tuple[trial_shapes.JsonTrajectoryEntry, ...]:
    """Entries of one type, in the order in which they began. Service calls are included; thoughts are not, where the
    transcript is not exported."""
    kept_back = {talk.step for talk in trial.conversations if not talk.transcript_exported}
    events = [event for event in trial.events if type(event) is not Thought or event.step not in kept_back]
    found = [entry for event in without_repeated_actions(events) if (entry := _entry(event)) is not None]
    return tuple(sorted(found, key=lambda entry: entry.at_ms))


_BLANK = dict.fromkeys(
    ("name", "names", "params", "status", "content", "duration_ms", "mock", "error", "agent", "action_id", "witnesses")
)


def _entry(event: AnyEvent) -> trial_shapes.JsonTrajectoryEntry | None:
    own: dict[str, Any]
    match event:
        case Thought():
            own = {"type": "thought", "content": event.text, "agent": event.agent}
        case ActionTaken():
            own = {
                "type": "action",
                "name": event.name,
                "names": tuple(dict.fromkeys(action_names(event))),
                "params": event.params,
                "status": event.status,
                "duration_ms": event.duration_ms,
                "agent": event.agent,
                "action_id": event.id,
                "witnesses": event.witnesses,
            }
        case Observed():
            own = {"type": "observation", "name": event.name, "content": event.content, "agent": event.agent}
        case ServiceCalled():
            own = {
                "type": "service_call",
                "name": f"{event.service}.{event.method}",
                "params": {"args": event.args, "input": event.input},
                "names": tool_names("", event.service, event.method),
                "status": event.outcome,
                "action_id": event.action_id,
                "content": event.result,
                "duration_ms": event.duration_ms,
                "mock": event.mock,
                "error": event.error,
            }
        case _:
            return None
    return _copy(trial_shapes.JsonTrajectoryEntry, event, **{**_BLANK, **own})


def _timing(trial: TrialRecord) -> trial_shapes.JsonTiming:
    return _copy(
        trial_shapes.JsonTiming,
        trial,
        phases=tuple(_copy(trial_shapes.JsonPhase, phase) for phase in trial.phases),
        calls=tuple(_call(event) for event in trial.events if isinstance(event, ModelCalled)),
    )


def _call(event: ModelCalled) -> trial_shapes.JsonCall:
    timing = event.timing
    return _copy(
        trial_shapes.JsonCall,
        event,
        queued_ms=timing.queued_ms,
        attempts=tuple(_copy(trial_shapes.JsonAttempt, attempt) for attempt in timing.attempts),
        loop_lag_ms=timing.loop_lag_ms,
        latency_ms=timing.latency_ms,
        first_token_ms=timing.first_token_ms,
        chunks=timing.chunks,
        pieces_late_ms=timing.pieces_late_ms,
        spoiled=tuple(map(str, timing.spoiled)),
        usage=_copy_known(trial_shapes.JsonUsage, event.usage),
        **_finish(event.finish),
    )


def _finish(finish: Finish | None) -> dict[str, Any]:
    """How an answer ended; all null if the server did not say."""
    if finish is None:
        return {"finish_reason": None, "finish_raw": None, "token_limit": None}
    return {"finish_reason": finish.reason, "finish_raw": finish.raw, "token_limit": finish.token_limit}


def errors_of(trial: TrialRecord) -> Iterator[trial_shapes.JsonError]:
    """The errors that were emitted as events, then those found only in the record of a phase."""
    emitted = [event for event in trial.events if isinstance(event, ErrorHappened)]
    for event in emitted:
        yield _copy(trial_shapes.JsonError, event, type=event.error_type)
    told = {event.phase for event in emitted}
    for phase in trial.phases:
        if phase.error is not None and phase.name not in told:
            at_ms = phase.started_ms + phase.duration_ms
            yield trial_shapes.JsonError(phase=phase.name, message=phase.error, type=None, at_ms=at_ms, traceback=None)


def _incident(event: AnyEvent) -> trial_shapes.JsonIncident | None:
    match event:
        case Retried():
            return _copy(trial_shapes.JsonIncident, event, type="retry", ms=event.wait_ms)
        case Waited():
            return _copy(trial_shapes.JsonIncident, event, type="wait", ms=event.wait_ms)
        case Lagged():
            reason = f"the limit is {event.limit_ms:g} ms"
            return _copy(trial_shapes.JsonIncident, event, type="lag", reason=reason, ms=event.lag_ms)
        case _:
            return None


def _metrics(metrics: ConversationMetrics | None) -> trial_shapes.JsonMetrics | None:
    if metrics is None:
        return None
    return _copy(
        trial_shapes.JsonMetrics,
        metrics,
        token_usage=_copy(trial_shapes.JsonTokenUsage, metrics.token_usage),
        simulator_quality=_copy_known(trial_shapes.JsonSimulatorQuality, metrics.simulator_quality),
    )


def _cost(summary: CostSummary) -> trial_shapes.JsonCost:
    total = summary.total
    return trial_shapes.JsonCost(
        calls=total.calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost=total.cost,
        complete=summary.complete,
        list_prices=summary.list_prices,
        by_purpose={purpose: _spent(spent) for purpose, spent in summary.by_purpose.items()},
        by_model={model: _spent(spent) for model, spent in summary.by_model.items()},
    )


def _spent(spent: Spent) -> trial_shapes.JsonSpent:
    return _copy(trial_shapes.JsonSpent, spent)


def _scenarios(reading: Reading) -> list[shapes.JsonScenarioRate]:
    """One entry for each scenario of the run, combinations of a matrix included, in the order of the plan."""
    targets = reading.header.targets
    return [
        _scenario(rate, found, reading.matrices.get(rate.scenario_id), targets.get(rate.scenario_id))
        for rate, found in zip(reading.rates, reading.figures.scenarios, strict=True)
    ]


def _scenario(
    rate: ScenarioRate, figures: Figures, matrix: RunMatrix | None, target: Target | None
) -> shapes.JsonScenarioRate:
    place = None
    if matrix is not None:
        place = _copy(shapes.JsonScenarioMatrix, matrix, parameters=matrix.parameters(rate.scenario_id))
    return _copy(
        shapes.JsonScenarioRate,
        rate,
        id=rate.scenario_id,
        trials=_copy(shapes.JsonTrialCounts, rate),
        pass_hat_k={str(k): chance for k, chance in figures.pass_hat_k.items()},
        until=_copy_known(shapes.JsonUntil, rate.until),
        target=_copy_known(shapes.JsonTarget, target),
        figures=_figures(figures),
        matrix=place,
    )


def _run_figures(figures: RunFigures) -> shapes.JsonRunFigures:
    return shapes.JsonRunFigures(
        targets=tuple(map(_figures, figures.targets)),
        suite=None if figures.suite is None else _figures(figures.suite),
    )


def _figures(figures: Figures) -> shapes.JsonFigures:
    return _copy(
        shapes.JsonFigures,
        figures,
        trials=_copy(shapes.JsonTrialCounts, figures.trials),
        pass_at_k={str(k): chance for k, chance in figures.pass_at_k.items()},
        pass_hat_k={str(k): chance for k, chance in figures.pass_hat_k.items()},
        latency=_times(figures.latency),
        time_to_safe=_times(figures.time_to_safe),
    )


def _times(times: TimeFigures) -> shapes.JsonTimes:
    percentiles = tuple(_copy(shapes.JsonPercentile, each) for each in times.percentiles)
    return _copy(shapes.JsonTimes, times, percentiles=percentiles)


def _matrices(reading: Reading) -> list[shapes.JsonMatrix]:
    return [_matrix(matrix, reading.rate) for matrix in reading.header.matrices]


def _matrix(matrix: RunMatrix, rates: Mapping[str, ScenarioRate]) -> shapes.JsonMatrix:
    axes: dict[str, list[shapes.JsonMatrixValue]] = {}
    for each in value_rates(matrix, rates):
        value = shapes.JsonMatrixValue(
            value=each.value,
            combinations=_copy(shapes.JsonVerdictCounts, each.combinations),
            trials=_copy(shapes.JsonTrialCounts, each.trials),
        )
        axes.setdefault(each.parameter, []).append(value)
    listed = tuple(shapes.JsonMatrixAxis(parameter=name, values=tuple(values)) for name, values in axes.items())
    return _copy(shapes.JsonMatrix, matrix, combinations=tuple(matrix.combinations), axes=listed)
