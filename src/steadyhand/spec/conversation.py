"""The `conversation` of a run step, lowered to its record."""

from __future__ import annotations

from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import (
    ConversationConfig,
    DebugOptions,
    ScriptedTurn,
    TerminationCondition,
    TerminationJudge,
    UserSimulatorConfig,
)
from steadyhand.spec.document import Document
from steadyhand.spec.naming import Path
from steadyhand.spec.shapes.conversation import ConversationShape, TerminationConditionShape, UserSimulatorShape


def lower_conversation(
    shape: ConversationShape,
    document: Document,
    path: Path,
    *,
    turn: tuple[EvaluationSpec, ...],
    final: tuple[EvaluationSpec, ...],
    scripted: tuple[tuple[EvaluationSpec, ...], ...],
    opened: bool,
) -> ConversationConfig:
    """`scripted` are the checks of the script's entries; `opened` is whether the step has words to begin with."""
    debug = shape.debug_options
    return ConversationConfig(
        max_turns=shape.max_turns or len(shape.script) + opened,
        user_simulator=_simulator(shape.user_simulator) if shape.user_simulator else None,
        script=tuple(
            ScriptedTurn(say=entry.say, type=entry.type, evaluations=checks)
            for entry, checks in zip(shape.script, scripted, strict=True)
        ),
        timeout_per_turn_ms=shape.timeout_per_turn_ms,
        total_timeout_ms=shape.total_timeout_ms,
        termination_conditions=tuple(
            _condition(condition, document, (*path, "termination_conditions", index))
            for index, condition in enumerate(shape.termination_conditions)
        ),
        turn_evaluations=turn,
        final_evaluations=final,
        debug_options=DebugOptions(
            log_user_simulation=debug.log_user_simulation,
            log_turn_decisions=debug.log_turn_decisions,
            export_full_transcript=debug.export_full_transcript,
        ),
    )


def _simulator(shape: UserSimulatorShape) -> UserSimulatorConfig:
    return UserSimulatorConfig(
        persona=shape.persona,
        objective=shape.objective,
        model_type=shape.model_type,
        temperature=shape.temperature,
        max_tokens=shape.max_tokens,
        style=shape.style,
        constraints=tuple(shape.constraints),
        emotional_state=shape.emotional_state,
        knowledge_level=shape.knowledge_level,
    )


def _condition(shape: TerminationConditionShape, document: Document, path: Path) -> TerminationCondition:
    judge = shape.llm_judge
    return TerminationCondition(
        type=shape.type,
        place=document.locate(path),
        description=shape.description,
        keywords=tuple(shape.keywords),
        function=shape.function,
        llm_judge=TerminationJudge(prompt=judge.prompt, threshold=judge.threshold) if judge else None,
    )
