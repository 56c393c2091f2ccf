"""Writes the JSON report from records. Its structure is defined in `json_shapes.py` and `json_trial_shapes.py`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from steadyhand.judging.cost import CostSummary
from steadyhand.judging.figures import Figures
from steadyhand.judging.rates import ScenarioRate, value_rates
from steadyhand.judging.trial import alarm_of
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import TotalsFold, TrialTimes
from steadyhand.records.base import Record, plain
from steadyhand.records.deed_name import tool_names
from steadyhand.records.event import (
    ActionTaken,
    AnyEvent,
    ErrorHappened,
    Lagged,
    ModelCalled,
    Noted,
    Observed,
    Retried,
    Said,
    ServiceCalled,
    Thought,
    Waited,
    action_names,
    answers_finish,
)
from steadyhand.records.run import RunMatrix, Target, TrialRecord, exported_transcript
from steadyhand.records.trajectory import without_repeated_actions
from steadyhand.report import json_shapes as shapes
from steadyhand.report import json_trial_shapes as trial_shapes
from steadyhand.report.json_shapes import OBJECTS, REPORT_FORMAT

_encoder = msgspec.json.Encoder(enc_hook=repr)
S = TypeVar("S", bound=Record)


def to_json(reading: Reading) -> Generator[bytes]:
    """The report in pieces, one line per trial, so that a run of any length is written as it is read.

    The summary comes last because it is counted from the trials that were written.
    """
    reading.want(TotalsFold)
    reading.want(TrialTimes)
    tally = reading.header.canaries
    canaries = tally and _copy(shapes.JsonCanaries, tally, asked=len(tally.cases), cost=tally.spent)
    shard = None if reading.header.shard is None else str(reading.header.shard)
    yield b'{"format":%d,\n"run":%b,\n"trials":[' % (
        REPORT_FORMAT,
        _encode(_copy(shapes.JsonRun, reading.header, canaries=canaries, shard=shard)),
    )
    separator = b"\n"
    for trial in reading.read():
        yield separator + _encode(_trial(trial, reading))
        separator = b",\n"
    summary = _copy(
        shapes.JsonSummary,
        reading.summary,
        total=reading.summary.finished,
        scenarios=_copy(shapes.JsonVerdictCounts, reading.scenarios),
        exit_code=int(reading.exit_code),
        cost=_cost(reading.totals.spent),
    )
    targets, matrices = reading.header.targets, reading.matrices
    scenarios = [
        _encode(_scenario(rate, figures, matrices.get(rate.scenario_id), targets.get(rate.scenario_id)))
        for rate, figures in zip(reading.rates, reading.figures.scenarios, strict=True)
    ]
    yield b'\n],\n"scenarios":[%b],\n' % b",".join(scenarios)
    listed = [_encode(_matrix(matrix, reading.rate)) for matrix in reading.header.matrices]
    yield b'"variants":%b,\n' % _encode(reading.variants)
    faults = [
        _encode(shapes.JsonFault(scenario=each, original=origin.original, fault=origin.shown, outcomes=dict(counts)))
        for each, origin in reading.header.variants.items()
        if (counts := reading.totals.faults.get(each)) is not None
    ]
    yield b'"faults":[%b],\n' % b",".join(faults)
    yield b'"matrices":[%b],\n"figures":%b,\n' % (b",".join(listed), _encode(reading.figures))
    yield b'"summary":%b}\n' % _encode(summary)


def _encode(record: Record) -> bytes:
    shown = OBJECTS.of(record)
    try:
        return _encoder.encode(shown)
    except (ValueError, TypeError):
        return _encoder.encode(plain(shown))


def _copy(shape: type[S], record: Record, **given: Any) -> S:
    """The record in another shape: fields that are not `given` are copied by name."""
    return shape(**given, **{name: getattr(record, name) for name in shape.__struct_fields__ if name not in given})


def _trial(trial: TrialRecord, reading: Reading) -> trial_shapes.JsonTrial:
    judged, events, score = trial.judged, trial.events, trial.judged.rubric
    last = trial.conversations[-1] if trial.conversations else None
    finish = answers_finish(events)
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
        shows=trial.shows,
        missing_plugins=trial.missing_plugins,
        isolation=trial.isolation,
        ran_on=trial.ran_on,
        verdict=judged.verdict,
        reason=judged.reason,
        outcome=judged.outcome,
        finish_reason=finish and finish.reason,
        finish_raw=finish and finish.raw,
        token_limit=finish and finish.token_limit,
        latency_ms=judged.latency_ms,
        latency_tier=judged.latency_tier,
        latency_cut=judged.latency_cut,
        latency_not_graded=tuple(map(str, judged.latency_spoiled)),
        time_to_first_token_ms=judged.time_to_first_token_ms,
        time_to_safe_ms=judged.time_to_safe_ms,
        first_safe_ms=judged.first_safe_ms,
        safety_at_deadline=judged.safety_at_deadline,
        time_to_safe_excludes=judged.time_to_safe_excludes,
        invariants_over_time=judged.invariants_over_time,
        times_not_known=judged.times_unknown,
        safety_score=judged.safety_score,
        failure_classes=judged.failure_classes,
        alarm=alarm_of(trial),
        fault=judged.fault,
        rubric=score and _copy(trial_shapes.JsonRubric, score, scored=score.overall is not None, judge=score.note),
        termination_reason=last and last.termination_reason,
        terminated_early=last and last.terminated_early,
        conversations=trial.conversations,
        evaluations=trial.evaluations,
        transcript=tuple(map(_message, exported_transcript(trial))),
        trajectory=trajectory_entries(trial),
        timing=trial_shapes.JsonTiming(
            started_at=trial.started_at,
            duration_ms=trial.duration_ms,
            phases=trial.phases,
            calls=tuple([_call(event) for event in events if type(event) is ModelCalled]),
        ),
        errors=tuple(errors_of(trial)),
        notes=tuple([event for event in events if type(event) is Noted]),
        incidents=tuple([_incident(event) for event in events if isinstance(event, (Retried, Waited, Lagged))]),
        metrics=trial.metrics,
        cost=_cost(reading.cost(trial)),
        earlier=tuple([_trial(earlier, reading) for earlier in trial.earlier]),
        replaced=tuple([_trial(replaced, reading) for replaced in trial.replaced]),
    )


def _message(said: Said) -> trial_shapes.JsonMessage:
    return trial_shapes.JsonMessage(
        role=said.message.role,
        content=said.message.content,
        at_ms=said.at_ms,
        step=said.step,
        turn=said.turn,
        pressure=said.pressure,
    )


def trajectory_entries(trial: TrialRecord) -> tuple[trial_shapes.JsonTrajectoryEntry, ...]:
    """Entries of one type, in the order in which they began. Service calls are included; thoughts are not, where the
    transcript is not exported."""
    done = [event for event in trial.events if type(event) is not Said and type(event) is not ModelCalled]
    if not done:
        return ()
    kept_back = {talk.step for talk in trial.conversations if not talk.transcript_exported}
    events = [event for event in done if type(event) is not Thought or event.step not in kept_back]
    found = [entry for event in without_repeated_actions(events) if (entry := _entry(event)) is not None]
    return tuple(sorted(found, key=lambda entry: entry.at_ms))


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
    return trial_shapes.JsonTrajectoryEntry(at_ms=event.at_ms, step=event.step, turn=event.turn, **own)


def _call(event: ModelCalled) -> trial_shapes.JsonCall:
    timing, finish = event.timing, event.finish
    return trial_shapes.JsonCall(
        model=event.model,
        purpose=event.purpose,
        at_ms=event.at_ms,
        step=event.step,
        turn=event.turn,
        queued_ms=timing.queued_ms,
        attempts=timing.attempts,
        loop_lag_ms=timing.loop_lag_ms,
        latency_ms=timing.latency_ms,
        first_token_ms=timing.first_token_ms,
        chunks=timing.chunks,
        pieces_late_ms=timing.pieces_late_ms,
        spoiled=tuple(map(str, timing.spoiled)),
        usage=event.usage,
        error=event.error,
        finish_reason=finish and finish.reason,
        finish_raw=finish and finish.raw,
        token_limit=finish and finish.token_limit,
    )


def errors_of(trial: TrialRecord) -> Iterator[trial_shapes.JsonError]:
    """The errors that were emitted as events, then those found only in the record of a phase."""
    emitted = [event for event in trial.events if type(event) is ErrorHappened]
    for event in emitted:
        yield _copy(trial_shapes.JsonError, event, type=event.error_type)
    told = {event.phase for event in emitted}
    for phase in trial.phases:
        if phase.error is not None and phase.name not in told:
            at_ms = phase.started_ms + phase.duration_ms
            yield trial_shapes.JsonError(phase=phase.name, message=phase.error, type=None, at_ms=at_ms, traceback=None)


def _incident(event: Retried | Waited | Lagged) -> trial_shapes.JsonIncident:
    if isinstance(event, Lagged):
        reason = f"the limit is {event.limit_ms:g} ms"
        return _copy(trial_shapes.JsonIncident, event, type="lag", reason=reason, ms=event.lag_ms)
    kind = "retry" if isinstance(event, Retried) else "wait"
    return _copy(trial_shapes.JsonIncident, event, type=kind, ms=event.wait_ms)


def _cost(summary: CostSummary) -> trial_shapes.JsonCost:
    total = summary.total
    return trial_shapes.JsonCost(
        calls=total.calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost=total.cost,
        complete=summary.complete,
        list_prices=summary.list_prices,
        by_purpose=summary.by_purpose,
        by_model=summary.by_model,
    )


def _scenario(rate: ScenarioRate, figures: Figures, matrix: RunMatrix | None, target: Target | None) -> Record:
    """Of a scenario of the run, or of a combination of a matrix."""
    place = matrix and _copy(shapes.JsonScenarioMatrix, matrix, parameters=matrix.parameters(rate.scenario_id))
    return _copy(
        shapes.JsonScenarioRate,
        rate,
        id=rate.scenario_id,
        trials=rate,
        pass_hat_k={str(k): chance for k, chance in figures.pass_hat_k.items()},
        target=target,
        figures=figures,
        matrix=place,
    )


def _matrix(matrix: RunMatrix, rates: Mapping[str, ScenarioRate]) -> shapes.JsonMatrix:
    axes: dict[str, list[shapes.JsonMatrixValue]] = {}
    for each in value_rates(matrix, rates):
        combinations = _copy(shapes.JsonVerdictCounts, each.combinations)
        value = _copy(shapes.JsonMatrixValue, each, combinations=combinations)
        axes.setdefault(each.parameter, []).append(value)
    listed = tuple(shapes.JsonMatrixAxis(parameter=name, values=tuple(values)) for name, values in axes.items())
    return _copy(shapes.JsonMatrix, matrix, combinations=tuple(matrix.combinations), axes=listed)
