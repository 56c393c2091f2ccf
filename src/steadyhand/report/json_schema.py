"""The JSON Schema of the JSON report. Nothing is optional and nothing else may occur."""

from __future__ import annotations

from typing import Any, get_args

from steadyhand.judging.severity import Alarm
from steadyhand.records.chat import FinishReason, Purpose, Role
from steadyhand.records.evaluation import FailureClass, Ground, LatencyTier, Outcome, Stage, Verdict
from steadyhand.records.event import VISIBLE, Sight, Visible
from steadyhand.records.scenario import Expected
from steadyhand.report.json import REPORT_FORMAT

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_INTEGER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_MAYBE = {"type": ["boolean", "null"]}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_MAPPING = {"type": "object"}
_ANYTHING: dict[str, Any] = {}


def report_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Steadyhand report",
        **_object(
            format={"const": REPORT_FORMAT},
            run=_object(
                id=_TEXT,
                started_at=_TEXT,
                steadyhand_version=_TEXT,
                command=_list(_TEXT),
                seed=_INTEGER,
                planned=_COUNT,
                options=_MAPPING,
                prices=_MAPPING,
                own_servers=_list(_TEXT),
                free_providers=_list(_TEXT),
                pass_rate=_or_null(_NUMBER),
                pass_rates=_MAPPING,
                fingerprints=_MAPPING,
            ),
            trials=_list({"$ref": "#/$defs/trial"}),
            scenarios=_list(_scenario()),
            matrices=_list(_matrix()),
            summary=_object(
                passed=_COUNT,
                failed=_COUNT,
                inconclusive=_COUNT,
                error=_COUNT,
                not_run=_COUNT,
                missed_alarms=_COUNT,
                false_alarms=_COUNT,
                total=_COUNT,
                scenarios=_verdicts(),
                exit_code={"enum": [0, 1, 3]},
                cost=_cost(),
            ),
        ),
        "$defs": {
            "trial": _trial(),
            "evaluation": _evaluation(),
            "trajectory_entry": _trajectory_entry(),
            "call": _call(),
        },
    }


def _trial() -> dict[str, Any]:
    return _object(
        scenario=_object(
            id=_TEXT,
            name=_TEXT,
            file=_TEXT,
            digest=_TEXT,
            domain=_or_null(_TEXT),
            tags=_list(_TEXT),
            expects=_words(Expected),
        ),
        trial=_COUNT,
        seed=_INTEGER,
        agent=_TEXT,
        model=_or_null(_TEXT),
        shows=_or_null(_object(**dict.fromkeys(VISIBLE, _words(Sight)))),
        missing_plugins=_list(_TEXT),
        verdict=_one_of(Verdict),
        reason=_TEXT,
        outcome=_or_null(_one_of(Outcome)),
        **_finish(),
        latency_ms=_or_null(_NUMBER),
        latency_tier=_or_null(_one_of(LatencyTier)),
        latency_cut=_FLAG,
        latency_not_graded=_list(_TEXT),
        time_to_first_token_ms=_or_null(_NUMBER),
        time_to_safe_ms=_or_null(_NUMBER),
        first_safe_ms=_or_null(_NUMBER),
        safety_at_deadline=_or_null(_object(target=_MAYBE, acceptable=_MAYBE, critical=_MAYBE)),
        time_to_safe_excludes=_list(_TEXT),
        times_not_known=_or_null(_TEXT),
        safety_score=_or_null(_SHARE),
        failure_classes=_list(_one_of(FailureClass)),
        alarm=_or_null(_words(Alarm)),
        rubric=_or_null(_rubric()),
        termination_reason=_or_null(_TEXT),
        terminated_early=_MAYBE,
        conversations=_list(
            _object(
                step=_COUNT,
                turns=_COUNT,
                terminated_early=_FLAG,
                termination_reason=_or_null(_TEXT),
                termination_evidence=_or_null(_TEXT),
                transcript_exported=_FLAG,
            )
        ),
        evaluations=_list({"$ref": "#/$defs/evaluation"}),
        transcript=_list(_object(role=_words(Role), content=_TEXT, **_moment())),
        trajectory=_list({"$ref": "#/$defs/trajectory_entry"}),
        timing=_object(
            started_at=_TEXT,
            duration_ms=_NUMBER,
            phases=_list(_object(name=_TEXT, started_ms=_NUMBER, duration_ms=_NUMBER, error=_or_null(_TEXT))),
            calls=_list({"$ref": "#/$defs/call"}),
        ),
        errors=_list(
            _object(phase=_TEXT, message=_TEXT, type=_or_null(_TEXT), at_ms=_NUMBER, traceback=_or_null(_TEXT))
        ),
        notes=_list(_object(level=_TEXT, message=_TEXT, at_ms=_NUMBER)),
        incidents=_list(
            _object(
                type={"enum": ["retry", "wait", "lag"]},
                **_moment(),
                model=_TEXT,
                purpose=_words(Purpose),
                reason=_TEXT,
                ms=_NUMBER,
            )
        ),
        metrics=_or_null(_metrics()),
        cost=_cost(),
        earlier=_list({"$ref": "#/$defs/trial"}),
        replaced=_list({"$ref": "#/$defs/trial"}),
    )


def _scenario() -> dict[str, Any]:
    return _object(
        id=_TEXT,
        verdict=_one_of(Verdict),
        reason=_TEXT,
        required=_or_null(_SHARE),
        trials=_verdicts(not_run=_COUNT),
        share=_or_null(_SHARE),
        interval=_or_null({"type": "array", "items": _SHARE, "minItems": 2, "maxItems": 2}),
        pass_hat_k={"type": "object", "additionalProperties": _SHARE},
        matrix=_or_null(_object(name=_TEXT, file=_TEXT, parameters=_MAPPING)),
    )


def _matrix() -> dict[str, Any]:
    value = _object(value=_ANYTHING, combinations=_verdicts(), trials=_verdicts(not_run=_COUNT))
    axis = _object(parameter=_TEXT, values=_list(value))
    return _object(name=_TEXT, file=_TEXT, combinations=_list(_TEXT), axes=_list(axis))


def _verdicts(**more: Any) -> dict[str, Any]:
    return _object(passed=_COUNT, failed=_COUNT, inconclusive=_COUNT, error=_COUNT, total=_COUNT, **more)


def _rubric() -> dict[str, Any]:
    return _object(
        name=_TEXT,
        scored=_FLAG,
        scores={"type": "object", "additionalProperties": _SHARE},
        overall=_or_null(_SHARE),
        fabricated=_MAYBE,
        evidence=_or_null(_TEXT),
        reason=_or_null(_TEXT),
        judge=_or_null(_judge()),
    )


def _evaluation() -> dict[str, Any]:
    text = _or_null(_TEXT)
    return _object(
        type=_TEXT,
        name=text,
        description=text,
        verdict=_one_of(Verdict),
        success=_FLAG,
        message=_TEXT,
        where=text,
        path=text,
        stage=_words(Stage),
        step=_COUNT,
        turn=_or_null(_COUNT),
        severity=_or_null({"type": "number", "minimum": 0, "maximum": 1}),
        weight=_NUMBER,
        evidence=_or_null(_object(expected=text, found=text, where=text, excerpt=text)),
        figures=_MAPPING,
        rests_on=_or_null(_words(Ground)),
        self_reported=_list(_words(Visible)),
        duration_ms=_NUMBER,
        judge=_or_null(_judge()),
    )


def _judge() -> dict[str, Any]:
    return _object(
        model=_TEXT,
        prompt_hash=_TEXT,
        raw=_TEXT,
        self_judged=_FLAG,
        confidence=_or_null(_NUMBER),
        reasoning=_or_null(_TEXT),
        capabilities={"type": "object", "additionalProperties": _FLAG},
        votes=_list(_TEXT),
        repaired=_FLAG,
        not_shown=_list(_TEXT),
    )


def _trajectory_entry() -> dict[str, Any]:
    return _object(
        type={"enum": ["thought", "action", "observation", "service_call"]},
        **_moment(),
        name=_or_null(_TEXT),
        params=_or_null(_MAPPING),
        status=_or_null({"enum": ["success", "error"]}),
        content=_ANYTHING,
        duration_ms=_or_null(_NUMBER),
        mock=_or_null(_TEXT),
        error=_or_null(_TEXT),
    )


def _call() -> dict[str, Any]:
    figure = _or_null(_NUMBER)
    return _object(
        model=_TEXT,
        purpose=_words(Purpose),
        **_moment(),
        queued_ms=_NUMBER,
        attempts=_list(
            _object(
                started_ms=_NUMBER,
                connected_ms=figure,
                sent_ms=figure,
                first_byte_ms=figure,
                first_token_ms=figure,
                last_byte_ms=figure,
                cut_ms=figure,
                status=_or_null(_INTEGER),
                reused_connection=_FLAG,
                streamed=_FLAG,
                error=_or_null(_TEXT),
                backoff_ms=_NUMBER,
            )
        ),
        loop_lag_ms=_NUMBER,
        latency_ms=figure,
        first_token_ms=figure,
        chunks=_list({"type": "array", "prefixItems": [_NUMBER, _COUNT], "minItems": 2, "maxItems": 2}),
        spoiled=_list(_TEXT),
        usage=_or_null(_object(input_tokens=_COUNT, output_tokens=_COUNT)),
        error=_or_null(_TEXT),
        **_finish(),
    )


def _finish() -> dict[str, Any]:
    return {
        "finish_reason": _or_null(_one_of(FinishReason)),
        "finish_raw": _or_null(_TEXT),
        "token_limit": _or_null(_COUNT),
    }


def _cost() -> dict[str, Any]:
    spent: dict[str, Any] = {"calls": _COUNT, "input_tokens": _COUNT, "output_tokens": _COUNT, "cost": _NUMBER}
    each = {"type": "object", "additionalProperties": _object(**spent)}
    return _object(**spent, complete=_FLAG, list_prices=_FLAG, by_purpose=each, by_model=each)


def _metrics() -> dict[str, Any]:
    return _object(
        total_duration_ms=_NUMBER,
        turn_count=_COUNT,
        avg_turn_duration_ms=_NUMBER,
        llm_calls_per_turn=_NUMBER,
        token_usage=_object(
            total=_COUNT, user_simulation=_COUNT, agent_responses=_COUNT, evaluations=_COUNT, complete=_FLAG
        ),
        simulator_quality=_or_null(
            _object(
                turns_simulated=_COUNT,
                asked_again=_COUNT,
                still_flawed=_COUNT,
                reasons={"type": "object", "additionalProperties": _COUNT},
            )
        ),
    )


def _moment() -> dict[str, Any]:
    return {"at_ms": _NUMBER, "step": _or_null(_COUNT), "turn": _or_null(_COUNT)}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _one_of(words: type[Verdict | Outcome | LatencyTier | FailureClass | FinishReason]) -> dict[str, Any]:
    return {"enum": [word.value for word in words]}


def _words(literal: Any) -> dict[str, Any]:
    return {"enum": list(get_args(literal))}
