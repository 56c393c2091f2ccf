"""The `conversation` of a run step, lowered to its record."""

from __future__ import annotations

from typing import Any, cast

from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import (
    ConversationConfig,
    DebugOptions,
    ScriptedTurn,
    TerminationCondition,
    TerminationJudge,
    UserSimulatorConfig,
)
from steadyhand.spec.agent_shapes import ConversationShape, ScriptedTurnShape
from steadyhand.spec.validation import FieldPath, Findings, has_misspelt, lowered, mappings
from steadyhand.spec.yaml import Document


def lower_conversation(
    shape: ConversationShape,
    document: Document,
    path: FieldPath,
    *,
    turn: tuple[EvaluationSpec, ...],
    final: tuple[EvaluationSpec, ...],
    scripted: tuple[tuple[EvaluationSpec, ...], ...],
    opened: bool,
) -> ConversationConfig:
    """`scripted` holds the checks of the script's entries; `opened` is whether the step has an `input`."""
    return lowered(
        ConversationConfig,
        shape,
        max_turns=shape.max_turns or len(shape.script) + opened,
        user_simulator=shape.user_simulator and lowered(UserSimulatorConfig, shape.user_simulator),
        script=tuple(
            ScriptedTurn(say=entry.say, type=entry.type, evaluations=checks)
            for entry, checks in zip(shape.script, scripted, strict=True)
        ),
        termination_conditions=tuple(
            lowered(
                TerminationCondition,
                each,
                place=document.locate((*path, "termination_conditions", index)),
                llm_judge=each.llm_judge and lowered(TerminationJudge, each.llm_judge),
            )
            for index, each in enumerate(shape.termination_conditions)
        ),
        turn_evaluations=turn,
        final_evaluations=final,
        debug_options=lowered(DebugOptions, shape.debug_options),
    )


_UNCONDITIONAL = ("max_turns_reached", "conversation_stuck")
_WAYS = ("keywords", "llm_judge", "function")


def check_conversation(conversation: dict[str, Any], path: FieldPath, findings: Findings, *, opened: bool) -> None:
    """`opened` is whether the step has an `input`, which is the user's first message."""
    script = conversation.get("script")
    scripted = len(cast("list[Any]", script)) if isinstance(script, list) else 0
    simulated = conversation.get("user_simulator") is not None
    known = ConversationShape.model_fields
    if not simulated and not scripted and not has_misspelt(conversation, known, {"user_simulator", "script"}):
        message = "required key `user_simulator` is missing; a conversation without a `script` needs one"
        findings.error((*path, "user_simulator"), message, "missing-key")
    turns = conversation.get("max_turns")
    if turns is None:
        if (simulated or not scripted) and not has_misspelt(conversation, known, {"max_turns"}):
            findings.error((*path, "max_turns"), "required key `max_turns` is missing", "missing-key")
    elif isinstance(turns, int) and not isinstance(turns, bool) and 2 <= turns < scripted + opened:
        # The checks of a line that is never said would silently not run.
        message = f"expected at least {scripted + opened}, enough for the whole script; found {turns}"
        findings.error((*path, "max_turns"), message, "out-of-range")
    for index, entry in mappings(script):
        _check_entry(entry, (*path, "script", index), findings, simulated=simulated)
    for index, condition in mappings(conversation.get("termination_conditions")):
        _check_condition(condition, (*path, "termination_conditions", index), findings)


def _check_entry(entry: dict[str, Any], path: FieldPath, findings: Findings, *, simulated: bool) -> None:
    says, simulates = entry.get("say") is not None, entry.get("simulate") is True
    if says and simulates:
        findings.error((*path, "simulate"), "found both `say` and `simulate`; keep one of them", "conflict", key=True)
    elif simulates and not simulated:
        message = "needs a `user_simulator` in the conversation"
        findings.error((*path, "simulate"), message, "missing-key", key=True)
    elif not says and not simulates and not has_misspelt(entry, ScriptedTurnShape.model_fields, {"say", "simulate"}):
        findings.error(path, "the user says nothing; expected `say` or `simulate: true`", "missing-key")


def _check_condition(condition: dict[str, Any], path: FieldPath, findings: Findings) -> None:
    type_ = condition.get("type")
    if not isinstance(type_, str) or type_ in _UNCONDITIONAL or any(condition.get(way) for way in _WAYS):
        return
    message = "can never apply; add `keywords`, an `llm_judge` or a plugin's `function`"
    findings.warning(path, message, "never-applies")
