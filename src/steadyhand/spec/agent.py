"""Agent scenarios: a document of the agent format, lowered to a `Scenario`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, cast

from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import Ask, Character, Converse, Judgment, RunCode, Scenario, Setup, Step
from steadyhand.spec.agent_plugins import plugin_refs
from steadyhand.spec.agent_rules import check_agent_rules
from steadyhand.spec.agent_shapes import AgentShape, CharacterShape, RunStepShape
from steadyhand.spec.conversation import lower_conversation
from steadyhand.spec.default_id import default_id
from steadyhand.spec.document import Document
from steadyhand.spec.evaluations import Catalogue, read_evaluations
from steadyhand.spec.findings import Findings
from steadyhand.spec.mappings import mappings
from steadyhand.spec.naming import Path
from steadyhand.spec.setup import digest_with, lower_setup, read_sql
from steadyhand.spec.validation import validate
from steadyhand.spec.virtual_paths import read_virtual_fs

Specs = dict[tuple[int, str], tuple[EvaluationSpec, ...]]


def read_agent(
    document: Document, findings: Findings, *, catalogue: Catalogue, environments: Collection[str]
) -> Scenario | None:
    """The scenario, or None when `findings` holds an error."""
    data = cast("dict[str, Any]", document.data)
    shape = validate(AgentShape, data, (), findings)
    check_agent_rules(data, environments, findings)
    specs = _read_specs(data, catalogue, findings)
    setup = cast("dict[str, Any]", data["setup"]) if isinstance(data.get("setup"), dict) else {}
    virtual_fs = read_virtual_fs(setup.get("virtual_fs"), ("setup", "virtual_fs"), findings)
    sql = read_sql(setup.get("database"), document, findings)
    _check_weights(data, specs, findings)
    if shape is None or findings.failed:
        return None
    sql_file = shape.setup.database.sql_file if shape.setup.database else None
    return _lower(
        document,
        shape,
        specs,
        setup=lower_setup(shape.setup, document, virtual_fs=virtual_fs, sql=sql),
        digest=digest_with(document, sql_file, sql),
    )


def _groups(data: dict[str, Any]) -> Iterator[tuple[int, str, Path, Any]]:
    """Every list of evaluations: the step's index, the stage, its path, and what is there."""
    for index, step in mappings(data.get("run")):
        yield index, "step", ("run", index, "evaluations"), step.get("evaluations")
        conversation = step.get("conversation")
        if isinstance(conversation, dict):
            for stage in ("turn", "final"):
                key = f"{stage}_evaluations"
                entries = cast("dict[str, Any]", conversation).get(key)
                yield index, stage, ("run", index, "conversation", key), entries
            for number, entry in mappings(cast("dict[str, Any]", conversation).get("script")):
                path = ("run", index, "conversation", "script", number, "evaluations")
                yield index, f"script {number}", path, entry.get("evaluations")


def _read_specs(data: dict[str, Any], catalogue: Catalogue, findings: Findings) -> Specs:
    return {
        (index, stage): read_evaluations(entries, path, catalogue, findings)
        for index, stage, path, entries in _groups(data)
    }


def _check_weights(data: dict[str, Any], specs: Specs, findings: Findings) -> None:
    """Weights count under `weighted` only, and there they must not all be zero."""
    judgment = data.get("judgment")
    strategy = cast("dict[str, Any]", judgment).get("strategy") if isinstance(judgment, dict) else None
    checks = [spec for group in specs.values() for spec in group]
    if strategy == "weighted":
        if checks and not any(spec.weight for spec in checks) and not findings.failed:
            findings.error(("judgment",), "every evaluation has weight 0, so nothing could pass", "bad-value")
        return
    for _, _, path, entries in _groups(data):
        for index, entry in mappings(entries):
            if "weight" in entry:
                message = "is used by the strategy weighted only"
                findings.warning((*path, index, "weight"), message, "unused-key", key=True)
    if not checks and not findings.failed:
        findings.warning((), "evaluates nothing: its verdict can only be inconclusive", "no-evaluations")


def _lower(document: Document, shape: AgentShape, specs: Specs, *, setup: Setup, digest: str) -> Scenario:
    return Scenario(
        id=shape.id or default_id(document.file),
        name=shape.name,
        description=shape.description,
        place=document.locate(()),
        digest=digest,
        steps=tuple(_step(document, index, step, specs) for index, step in enumerate(shape.run)),
        judgment=Judgment(strategy=shape.judgment.strategy, threshold=shape.judgment.threshold),
        environment=shape.environment.type,
        setup=setup,
        plugins=plugin_refs(document),
        agent=shape.agent,
        character=_character(shape.character) if shape.character else None,
        context=shape.context,
        tags=tuple(shape.tags),
        metadata=shape.metadata,
        trials=shape.trials,
        pass_rate=shape.pass_rate,
    )


def _step(document: Document, index: int, shape: RunStepShape, specs: Specs) -> Step:
    task: Ask | RunCode | Converse
    if shape.conversation is not None:
        config = lower_conversation(
            shape.conversation,
            document,
            ("run", index, "conversation"),
            turn=specs[index, "turn"],
            final=specs[index, "final"],
            scripted=tuple(
                specs.get((index, f"script {number}"), ()) for number in range(len(shape.conversation.script))
            ),
            opened=bool(shape.input),
        )
        opening = (Message(role="user", content=shape.input),) if shape.input else ()
        task = Converse(opening=opening, config=config)
    elif shape.code is not None:
        task = RunCode(code=shape.code, lang=shape.lang or "bash")
    else:
        task = Ask(messages=(Message(role="user", content=shape.input or ""),))
    return Step(
        index=index,
        name=shape.name or f"step {index + 1}",
        place=document.locate(("run", index)),
        task=task,
        evaluations=specs[index, "step"],
        timeout_ms=shape.timeout,
    )


def _character(shape: CharacterShape) -> Character:
    temperature = shape.llm.temperature if shape.llm.temperature is not None else shape.temperature
    return Character(
        name=shape.name,
        bio=(shape.bio,) if isinstance(shape.bio, str) else tuple(shape.bio),
        system=shape.system,
        model=shape.llm.model,
        temperature=temperature,
    )
