"""Agent scenarios: a document of the agent format, lowered to a `Scenario`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from steadyhand.errors import UsageError
from steadyhand.language.thoughts import tags_of
from steadyhand.records.base import shorten
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import GROUPS, EvaluationSpec
from steadyhand.records.scenario import (
    Ask,
    Character,
    Converse,
    PluginRef,
    RunCode,
    Scenario,
    Setup,
    Step,
    VerdictPolicy,
)
from steadyhand.spec.faults import check_faults
from steadyhand.spec.groups import group_key, negated, read_group
from steadyhand.spec.patterns import inspect_pattern
from steadyhand.spec.setup import check_services, digest_with, lower_setup, read_sql, read_virtual_fs
from steadyhand.spec.shared_shapes import EvaluationHead, GroupHead, PluginShape
from steadyhand.spec.validation import FieldPath, Findings, advice, describe, has_misspelt, lowered, mappings, validate
from steadyhand.spec.yaml import Document
from steadyhand.suggestion import nearest

if TYPE_CHECKING:
    from steadyhand.spec.agent_shapes import AgentShape, CharacterShape, RunStepShape

Catalogue = Mapping[str, type[BaseModel]]
Specs = dict[tuple[int, str], tuple[EvaluationSpec, ...]]
COMMON_KEYS = tuple(EvaluationHead.model_fields)
_ANSWERS = ("response", "responseFn", "error")
_ENDING = re.compile(r"(?:\.scenario)?(?:\.ya?ml|\.json)?\Z", re.IGNORECASE)


class Vocabulary(NamedTuple):
    """The evaluation types with their parameters, and the environments, that a scenario may name.

    `unloaded` are its plugins that were not loaded and may define more names: an unknown name is then a warning.
    """

    catalogue: Catalogue
    environments: Collection[str] | None
    unloaded: Sequence[str] = ()


UNLOADED = "unloaded-plugin"
"""The code of a warning about a name that only an unloaded plugin could define."""


def unknown_name(
    path: FieldPath, message: str, findings: Findings, *, hint: str, code: str, unloaded: Sequence[str]
) -> None:
    """An error with a hint, or a warning if an unloaded plugin may define the name."""
    if not unloaded:
        findings.error(path, f"{message}{hint}", code)
        return
    findings.warning(path, f"{message}; {not_checked(unloaded)}", UNLOADED)


def not_checked(unloaded: Sequence[str]) -> str:
    """Why a name is unknown, with the next step."""
    listed = " or ".join(unloaded)
    return f"not checked: {listed} may define it, but is only loaded by `run`; add --plugin to check it here"


Extend = Callable[[Sequence[PluginRef], Sequence[str]], Vocabulary]
"""The vocabulary with some plugins, named by these files; they are found beside the first."""


def vocabulary_of(document: Document, findings: Findings, base: Vocabulary, extend: Extend | None) -> Vocabulary:
    """The base, extended by the scenario's plugins. A plugin that cannot be loaded is a finding."""
    refs = plugin_refs(document)
    if extend is None or not refs:
        return base
    try:
        return extend(refs, (document.file, *document.sources))
    except UsageError as error:
        findings.error(("plugins",), str(error), "plugin")
        return base


def plugin_refs(document: Document) -> tuple[PluginRef, ...]:
    """The valid references; shape validation reports the others."""
    data = cast("dict[str, Any]", document.data)
    entries = data.get("plugins")
    if not isinstance(entries, list):
        return ()
    found: list[PluginRef] = []
    for index, entry in enumerate(cast("list[Any]", entries)):
        try:
            shape = PluginShape.model_validate({"name": entry} if isinstance(entry, str) else entry)
        except ValidationError:
            continue
        found.append(lowered(PluginRef, shape, place=document.locate(("plugins", index))))
    return tuple(found)


def read_agent(document: Document, findings: Findings, vocabulary: Vocabulary) -> Scenario | None:
    """The scenario, or None when `findings` holds an error."""
    from steadyhand.spec.agent_shapes import AgentShape  # slow to import, and no decision needs it

    data = cast("dict[str, Any]", document.data)
    shape = validate(AgentShape, data, (), findings)
    _check_rules(data, vocabulary, findings)
    specs = {
        (index, stage): read_evaluations(entries, path, vocabulary, findings)
        for index, stage, path, entries in evaluation_lists(data)
    }
    setup = cast("dict[str, Any]", data["setup"]) if isinstance(data.get("setup"), dict) else {}
    virtual_fs = read_virtual_fs(setup.get("virtual_fs"), ("setup", "virtual_fs"), findings)
    sql = read_sql(setup.get("database"), document, findings)
    _check_weights(data, specs, findings)
    if shape is None or findings.failed:
        return None
    laid_out = lower_setup(shape.setup, document, virtual_fs=virtual_fs, sql=sql)
    check_faults(shape.setup, laid_out, findings)
    if findings.failed:
        return None
    sql_file = shape.setup.database.sql_file if shape.setup.database else None
    return _lower(
        document,
        shape,
        specs,
        setup=laid_out,
        digest=digest_with(document, sql_file, sql),
    )


def evaluation_lists(data: dict[str, Any]) -> Iterator[tuple[int, str, FieldPath, Any]]:
    """Every list of evaluations: the step's index, the stage, its path, and its entries."""
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


def read_evaluations(
    entries: Any, path: FieldPath, vocabulary: Vocabulary, findings: Findings
) -> tuple[EvaluationSpec, ...]:
    """The valid ones among `entries`. Shape validation reports anything that is not a list of mappings."""
    if not isinstance(entries, list):
        return ()
    found: list[EvaluationSpec] = []
    for index, entry in enumerate(cast("list[Any]", entries)):
        if isinstance(entry, dict):
            spec = _read(cast("dict[str, Any]", entry), (*path, index), vocabulary, findings)
            if spec is not None:
                found.append(spec)
    check_companions(entries, "type", path, vocabulary, findings)
    return tuple(found)


def stands_on_invariant(params: type[BaseModel]) -> bool:
    """Whether parameters of this type stand directly on a safety invariant, as they declare."""
    return bool(getattr(params, "on_invariant", False))


def check_companions(entries: Any, key: str, path: FieldPath, vocabulary: Vocabulary, findings: Findings) -> None:
    """An error for each evaluation that declares what it needs beside it, where the list has none of that."""
    found = [(index, type_) for index, entry in mappings(entries) if isinstance(type_ := entry.get(key), str)]
    types = {type_ for _, type_ in found}
    for index, type_ in found:
        needed: tuple[str, ...] = getattr(vocabulary.catalogue.get(type_), "needs_beside", ())
        if needed and types.isdisjoint(needed):
            message = f"{type_} needs another check beside it, of type {', '.join(needed[:-1])} or {needed[-1]}"
            findings.error((*path, index, key), message, "needs-beside")


def _read(entry: dict[str, Any], path: FieldPath, vocabulary: Vocabulary, findings: Findings) -> EvaluationSpec | None:
    if (key := group_key(entry)) is not None:
        return _read_group(entry, key, path, vocabulary, findings)
    type_, catalogue = entry.get("type"), vocabulary.catalogue
    if isinstance(type_, str) and type_ and type_ not in catalogue:
        message, hint = f"unknown evaluation type {describe(type_)}", advice(type_, sorted(catalogue))
        path_of_type = (*path, "type")
        unknown_name(path_of_type, message, findings, hint=hint, code="unknown-type", unloaded=vocabulary.unloaded)
        head = validate(EvaluationHead, _head(entry), path, findings)
        return _unchecked(entry, head, path, findings) if head is not None and vocabulary.unloaded else None
    if not isinstance(type_, str) or not type_:
        for key in entry:
            if (near := nearest(key, GROUPS)) is not None and key not in EvaluationHead.model_fields:
                message = f"unknown key `{key}`; did you mean `{near}`?"
                findings.error((*path, key), message, "unknown-key", key=True)
                return None
        # Without a type, all we know about the other keys is that one may be `type` misspelt.
        stray = {
            key: value for key, value in entry.items() if key in COMMON_KEYS or nearest(key, COMMON_KEYS) == "type"
        }
        validate(EvaluationHead, stray, path, findings)
        return None
    head = validate(EvaluationHead, _head(entry), path, findings)
    rest = {key: value for key, value in entry.items() if key not in COMMON_KEYS}
    params = validate(catalogue[type_], rest, path, findings, also=COMMON_KEYS)
    if head is None or params is None:
        return None
    spec = EvaluationSpec(
        type=type_,
        place=findings.document.locate(path),
        params=params.model_dump(exclude_unset=True, by_alias=True),
        description=head.description,
        weight=head.weight,
        empty_ok=head.empty_ok,
    )
    return negated(spec, params, path, findings) if head.negate else spec


def _read_group(
    entry: dict[str, Any], key: str, path: FieldPath, vocabulary: Vocabulary, findings: Findings
) -> EvaluationSpec | None:
    rest = {name: each for name, each in entry.items() if name not in (*GROUPS, "type")}
    head = validate(GroupHead, rest, path, findings, also=(key,))

    def read(part: dict[str, Any], at: FieldPath) -> EvaluationSpec | None:
        return alone(_read(part, at, vocabulary, findings), part, at, vocabulary.catalogue, findings)

    group = read_group(entry, path, findings, key=key, type_key="type", read=read)
    if head is None or group is None:
        return None
    spec = with_empty_ok(group) if head.empty_ok else group
    return replace(spec, description=head.description, weight=head.weight, negate=head.negate)


def alone(
    spec: EvaluationSpec | None, entry: dict[str, Any], path: FieldPath, catalogue: Catalogue, findings: Findings
) -> EvaluationSpec | None:
    """The check, unless it or one of its keys has no meaning in a group."""
    for key in ("weight", "severity"):
        if key in entry:
            findings.error(
                (*path, key), f"a check in a group has no `{key}`; give it to the group", "conflict", key=True
            )
            return None
    why: str = getattr(catalogue.get(spec.type), "stands_alone", "") if spec is not None else ""
    if spec is not None and why:
        findings.error(path, f"{spec.type} cannot be in a group: {why}", "conflict")
        return None
    return spec


def with_empty_ok(spec: EvaluationSpec) -> EvaluationSpec:
    return replace(spec, empty_ok=True, parts=tuple(map(with_empty_ok, spec.parts)))


def _unchecked(entry: dict[str, Any], head: EvaluationHead, path: FieldPath, findings: Findings) -> EvaluationSpec:
    """The check as written in the file; only a plugin knows its type."""
    return EvaluationSpec(
        type=head.type,
        place=findings.document.locate(path),
        params={key: value for key, value in entry.items() if key not in COMMON_KEYS},
        description=head.description,
        weight=head.weight,
        empty_ok=head.empty_ok,
        negate=head.negate,
    )


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in COMMON_KEYS}


def _check_rules(data: dict[str, Any], vocabulary: Vocabulary, findings: Findings) -> None:
    _check_environment(data.get("environment"), vocabulary, findings)
    _check_plugins(data.get("plugins"), findings)
    setup = data.get("setup")
    if isinstance(setup, dict):
        for index, mock in mappings(cast("dict[str, Any]", setup).get("mocks")):
            _check_mock(mock, ("setup", "mocks", index), findings)
        check_services(cast("dict[str, Any]", setup), findings)
    for index, step in mappings(data.get("run")):
        _check_step(step, ("run", index), findings)
    _check_judgment(data, findings)


def _check_environment(environment: Any, vocabulary: Vocabulary, findings: Findings) -> None:
    if not isinstance(environment, dict):
        return
    type_ = cast("dict[str, Any]", environment).get("type")
    environments = vocabulary.environments
    if isinstance(type_, str) and type_ and environments is not None and type_ not in environments:
        message, hint = f"unknown environment type {describe(type_)}", advice(type_, sorted(environments))
        path = ("environment", "type")
        unknown_name(path, message, findings, hint=hint, code="bad-value", unloaded=vocabulary.unloaded)


def _check_plugins(plugins: Any, findings: Findings) -> None:
    if not isinstance(plugins, list):
        return
    seen: dict[str, int] = {}
    for index, entry in enumerate(cast("list[Any]", plugins)):
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else entry
        if not isinstance(name, str):
            continue
        if name in seen:
            first = findings.document.locate(("plugins", seen[name]))
            message = f"plugin `{name}` is already listed on line {first.line}; keep one of them"
            findings.error(("plugins", index), message, "duplicate-plugin")
        seen.setdefault(name, index)


def _check_mock(mock: dict[str, Any], path: FieldPath, findings: Findings) -> None:
    if isinstance(schema := mock.get("parameters"), dict):
        _check_parameters(cast("dict[str, Any]", schema), (*path, "parameters"), findings)
    if any(key in mock for key in _ANSWERS):
        return
    from steadyhand.spec.agent_shapes import MockShape

    known = [field.alias or name for name, field in MockShape.model_fields.items()]
    if has_misspelt(mock, known, _ANSWERS):
        return
    message = "the mock has no answer; expected at least one of `response`, `responseFn` and `error`"
    findings.error(path, message, "missing-key")


def _check_parameters(schema: dict[str, Any], path: FieldPath, findings: Findings) -> None:
    from jsonschema import Draft202012Validator, SchemaError  # slow to import, and few scenarios need it

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        findings.error(path, f"expected a JSON Schema: {error.message}", "bad-schema")
        return
    for pattern in _patterns(schema):
        if (wrong := inspect_pattern(pattern).error) is not None:
            findings.error(path, f"bad regular expression {shorten(pattern, 60)!r}: {wrong}", "bad-pattern")
    if schema.get("type") != "object":
        findings.error(path, "expected a JSON Schema of an object; set `type: object`", "bad-schema")


def _patterns(schema: Any) -> Iterator[str]:
    """Those in a JSON Schema."""
    parts: Iterable[Any] = cast("list[Any]", schema) if isinstance(schema, list) else schema.values()
    for each in parts:
        if isinstance(each, dict | list):
            yield from _patterns(each)
    if isinstance(schema, dict):
        found = cast("dict[str, Any]", schema)
        named: Any = found.get("patternProperties")
        yield from cast("dict[str, Any]", named) if isinstance(named, dict) else ()
        if isinstance(found.get("pattern"), str):
            yield found["pattern"]


def _check_step(step: dict[str, Any], path: FieldPath, findings: Findings) -> None:
    given = [key for key in ("input", "code", "conversation") if step.get(key) is not None]
    if not given:
        from steadyhand.spec.agent_shapes import RunStepShape

        if not has_misspelt(step, RunStepShape.model_fields, {"input", "code", "conversation"}):
            message = "the step does nothing; expected `input`, `code` or `conversation`"
            findings.error(path, message, "missing-key")
    elif "code" in given and len(given) > 1:
        message = f"found both `code` and `{given[0] if given[0] != 'code' else given[1]}`; give `code` its own step"
        findings.error((*path, "code"), message, "conflict", key=True)
    if step.get("lang") is not None and "code" not in given:
        findings.warning((*path, "lang"), "has no effect without `code`", "unused-key", key=True)
    conversation = step.get("conversation")
    if isinstance(conversation, dict):
        from steadyhand.spec.conversation import check_conversation

        opened = bool(step.get("input"))
        check_conversation(cast("dict[str, Any]", conversation), (*path, "conversation"), findings, opened=opened)


def _check_judgment(data: dict[str, Any], findings: Findings) -> None:
    judgment = data.get("judgment")
    if not isinstance(judgment, dict):
        return
    strategy = cast("dict[str, Any]", judgment).get("strategy")
    threshold = cast("dict[str, Any]", judgment).get("threshold")
    if strategy == "weighted" and threshold is None:
        if not has_misspelt(cast("dict[str, Any]", judgment), ("strategy", "threshold"), {"threshold"}):
            message = "required key `threshold` is missing; the strategy weighted needs it"
            findings.error(("judgment", "threshold"), message, "missing-key")
    elif isinstance(strategy, str) and strategy in {"all_pass", "any_pass", "majority_pass"} and threshold is not None:
        message = f"has no effect with the strategy {strategy}; only weighted has a threshold"
        findings.error(("judgment", "threshold"), message, "conflict", key=True)


def _check_weights(data: dict[str, Any], specs: Specs, findings: Findings) -> None:
    """Weights count under `weighted` only, and there they must not all be zero."""
    judgment = data.get("judgment")
    strategy = cast("dict[str, Any]", judgment).get("strategy") if isinstance(judgment, dict) else None
    checks = [spec for group in specs.values() for spec in group]
    if strategy == "weighted":
        if checks and not any(spec.weight for spec in checks) and not findings.failed:
            findings.error(("judgment",), "every evaluation has weight 0, so nothing could pass", "bad-value")
        return
    for _, _, path, entries in evaluation_lists(data):
        for index, entry in mappings(entries):
            if "weight" in entry:
                message = "has no effect; only the strategy weighted uses it"
                findings.warning((*path, index, "weight"), message, "unused-key", key=True)
    if not checks and not findings.failed:
        findings.warning((), "evaluates nothing, so its verdict can only be inconclusive", "no-evaluations")


def _lower(document: Document, shape: AgentShape, specs: Specs, *, setup: Setup, digest: str) -> Scenario:
    return Scenario(
        id=shape.id or default_id(document.file),
        name=shape.name,
        description=shape.description,
        place=document.locate(()),
        digest=digest,
        steps=tuple(_step(document, index, step, specs) for index, step in enumerate(shape.run)),
        judgment=VerdictPolicy(strategy=shape.judgment.strategy, threshold=shape.judgment.threshold),
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
        reasoning_tags=None if shape.reasoning_tags is None else tags_of(shape.reasoning_tags),
    )


def _step(document: Document, index: int, shape: RunStepShape, specs: Specs) -> Step:
    task: Ask | RunCode | Converse
    if shape.conversation is not None:
        from steadyhand.spec.conversation import lower_conversation

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


def default_id(file: str) -> str:
    """An id from a file's name: `Refund Flow.scenario.yaml` is `refund-flow`."""
    name = PurePath(file).name
    return slug(_ENDING.sub("", name))


def slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text.lower()).strip("-") or "scenario"
