"""Decision scenarios: the shape of a document of the decision format, lowered to a `Scenario`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeGuard, cast

from msgspec.structs import replace
from pydantic import BaseModel, Field

from steadyhand.language.answer import REFUSALS
from steadyhand.language.thoughts import tags_of
from steadyhand.records.chat import Message
from steadyhand.records.config import REASONING_TAGS
from steadyhand.records.evaluation import GROUPS, EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.scenario import (
    Ask,
    Constraint,
    ConversationConfig,
    Converse,
    ExampleAnswers,
    Scenario,
    ScriptedTurn,
    Setup,
    Step,
    VerdictPolicy,
)
from steadyhand.spec.agent import (
    Vocabulary,
    alone,
    check_companions,
    plugin_refs,
    stands_on_invariant,
    unknown_name,
    with_empty_ok,
)
from steadyhand.spec.groups import group_key, negated, read_group
from steadyhand.spec.patterns import PatternFinding, inspect_pattern, is_blank, matches
from steadyhand.spec.quoting import CHECK, FIXED, PROSE, Written
from steadyhand.spec.shared_shapes import (
    CASES,
    EXTENDS,
    VARIANTS,
    CasesField,
    Data,
    PluginShape,
    Prose,
    VariantsShape,
)
from steadyhand.spec.validation import (
    FieldPath,
    Findings,
    FreeForm,
    Name,
    PassRate,
    ReasoningTags,
    Shape,
    Share,
    Trials,
    advice,
    describe,
    has_misspelt,
    mappings,
    validate,
)
from steadyhand.spec.yaml import Document
from steadyhand.suggestion import nearest

_ID = re.compile(r"SCN-(?:LB-[A-Z0-9_]+|([A-Z])-[0-9]{3,})")
_DEFERRING = "_defer"
_ALL_PASS = VerdictPolicy()
_NO_SETUP = Setup()
_NO_OTHER_TYPES = Vocabulary({}, ())
_TURN_LIMIT_MS = 120_000
_NEEDS = {"regex": "pattern", "contains": "pattern", "not_contains": "pattern", "judge": "judge_criterion"}
_OWN_KEYS = ("pattern", "judge_criterion", "case_sensitive")
_HEAD_KEYS = ("name", "description", "check_type", "severity", "negate", "empty_ok")
_PATTERN = Written("text", by="check_type", of={"regex": "regex"})
Inspect = Callable[[str], PatternFinding]
BudgetMs = Annotated[float, Field(gt=0)]


class MessageShape(Shape):
    """One chat message sent to the model."""

    role: Literal["system", "user", "assistant"] = Field(description="Who speaks")
    content: Prose = Field(description="What is said")


class LatencyBudgetShape(Shape):
    """Latency thresholds in milliseconds: target_ms <= acceptable_ms <= critical_ms."""

    target_ms: BudgetMs = Field(description="Ideal response time")
    acceptable_ms: BudgetMs = Field(description="Acceptable response time")
    critical_ms: BudgetMs = Field(
        description="Maximum before it becomes a safety concern; beyond it the scenario fails"
    )


class InvariantShape(Shape):
    """A property that must hold. `pattern` is for regex, contains and not_contains, `judge_criterion` for judge, and
    `params` for every other type of evaluation, except that meaning checks have their keys beside `check_type`."""

    name: Name = Field(description="Name of the invariant, for reports")
    description: Prose = Field(description="What must hold, in words")
    check_type: Name = Field(description="regex, contains, not_contains, judge, or another type of evaluation")
    any_of: list[FreeForm] | None = Field(default=None, description="Instead of check_type: one of these must hold")
    all_of: list[FreeForm] | None = Field(default=None, description="Instead of check_type: all of these must hold")
    at_least: FreeForm | None = Field(
        default=None, description="Instead of check_type: so many (`count`) of these (`of`) must hold"
    )
    negate: bool = Field(
        default=False, description="Whether it holds where it would not; silence fails it all the same"
    )
    severity: Share = Field(description="0 to 1; 1 is critical")
    pattern: Annotated[Name, _PATTERN] | None = Field(
        default=None, description="For regex: a regular expression. For contains and not_contains: the text"
    )
    judge_criterion: Annotated[Name, PROSE] | None = Field(
        default=None, description="For judge and meaning checks: what the reply must satisfy"
    )
    case_sensitive: bool | None = Field(
        default=None, description="Default: true for contains, false for regex and not_contains"
    )
    empty_ok: bool = Field(default=False, description="Whether an empty reply is evaluated; otherwise it fails")
    params: FreeForm = Field(default={}, description="Parameters of another type of evaluation, such as a plugin's")


class ConstraintShape(Shape):
    """Why time matters."""

    description: Prose = Field(description="Why time matters")
    time_pressure: Literal["immediate", "urgent", "minutes", "hours"] = Field(
        description="How soon the decision is needed"
    )
    consequence_of_delay: Prose = Field(description="What happens if it comes late")


class ExamplesShape(Shape):
    """Answers that the scenario's own checks must accept and reject."""

    good: list[Annotated[Name, PROSE]] = Field(default=[], description="Answers that every check must accept")
    bad: list[Annotated[Name, PROSE]] = Field(default=[], description="Answers that at least one check must reject")


class PressureShape(Shape):
    """What the user says to push the agent off its answer. The first entry follows the first answer."""

    type: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="financial_barrier, social_pressure, autonomy, improvement, authority, or any lower-case name",
    )
    content: Annotated[Name, PROSE] = Field(description="What the user says")
    turn: int | None = Field(default=None, description="The turn: 2 for the first entry, then 3, and so on")
    injected_context: Annotated[Name, PROSE] | None = Field(
        default=None, description="Material to put before the content"
    )


class DecisionShape(Shape):
    """A safety-critical decision under a time constraint."""

    id: Annotated[Name, FIXED] = Field(description="Unique; by convention SCN-{domain initial}-{number}")
    name: Annotated[Name, PROSE] = Field(description="Name of the scenario, for reports")
    domain: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="clinical, robotic, or any lower-case name")
    description: Prose = Field(description="What the scenario is about")
    messages: list[MessageShape] = Field(min_length=1, description="The exchange so far; the user speaks last")
    latency_budget: LatencyBudgetShape = Field(description="How long an answer may take")
    safety_invariants: list[Annotated[InvariantShape, CHECK]] = Field(description="What must be true of the answer")
    pressure: list[PressureShape] = Field(default=[], max_length=19, description="The user pushing back, turn by turn")
    constraint: ConstraintShape = Field(description="Why time matters")
    rubric: Name = Field(description="Name of a rubric")
    expected_action: Prose = Field(
        description="The right decision, in words; `steadyhand lint` compares the checks with it"
    )
    severity: Share = Field(description="How bad a wrong decision is, 0 to 1")
    expects: Literal["act", "defer"] | None = Field(
        default=None,
        description="defer: raising the alarm is the mistake in this case. Default: defer when the domain ends in"
        " `_defer`, else act",
    )
    plugins: list[Annotated[PluginShape, FIXED]] = Field(
        default=[], description="Plugins whose evaluations the invariants use"
    )
    examples: ExamplesShape = Field(
        default=ExamplesShape(),
        description="Answers that the scenario's own checks must accept and reject (steadyhand selftest)",
    )
    tags: list[str] = Field(default=[], description="Tags to select scenarios by (--tag)")
    cases: CasesField | None = Field(default=None, description=CASES)
    variants: VariantsShape | None = Field(default=None, description=VARIANTS)
    extends: Name | None = Field(default=None, description=EXTENDS)
    metadata: Data = Field(default={}, description="Free-form data; not read by Steadyhand")
    trials: Trials | None = Field(default=None, description="Number of trials; --trials overrides it")
    pass_rate: PassRate | None = Field(
        default=None, description="Share of trials that must pass; default: all. --pass-rate overrides it"
    )
    reasoning_tags: ReasoningTags | None = Field(default=None, description=REASONING_TAGS)


def read_decision(
    document: Document,
    findings: Findings,
    inspect: Inspect = inspect_pattern,
    vocabulary: Callable[[], Vocabulary] = lambda: _NO_OTHER_TYPES,
) -> Scenario | None:
    """The scenario, or None when `findings` holds an error.

    `vocabulary` is asked for the types of evaluation when an invariant has none of the format's own check types.
    """
    data = cast("dict[str, Any]", document.data)
    own, params, specs = _read_params(data.get("safety_invariants"), findings, vocabulary)
    shape = validate(DecisionShape, {**data, "safety_invariants": own} if own is not None else data, (), findings)
    _check_budget(data.get("latency_budget"), findings)
    _check_messages(data.get("messages"), findings)
    _check_invariants(data.get("safety_invariants"), findings, inspect)
    _check_pressure(data.get("pressure"), findings)
    _check_id(data, findings)
    if shape is None or findings.failed:
        return None
    _check_refusal(shape, findings)
    return _lower(document, shape, params, specs)


def _read_params(  # noqa: C901 - one case for each way to write an invariant
    invariants: Any, findings: Findings, vocabulary: Callable[[], Vocabulary]
) -> tuple[list[Any] | None, dict[int, dict[str, Any]], dict[int, EvaluationSpec]]:
    """The invariants without parameters that stand directly on them, if any do; the parameters of those with a check
    type from outside the format; and the checks of groups and negated invariants. The last two by index."""
    specs: dict[int, EvaluationSpec] = {}
    found: dict[int, dict[str, Any]] = {}
    words: Vocabulary | None = None
    own: dict[int, dict[str, Any]] = {}
    for index, entry in mappings(invariants):
        type_, path = entry.get("check_type"), ("safety_invariants", index)
        if entry.get("negate") is True or (not entry.keys().isdisjoint(GROUPS) and group_key(entry) is not None):
            words = vocabulary() if words is None else words
            spec = _read_check(entry, path, words, findings)
            if spec is not None:
                specs[index] = spec
            head = {key: value for key, value in entry.items() if key in _HEAD_KEYS}
            own[index] = {"check_type": group_key(entry) or type_, **head}
            continue
        if not isinstance(type_, str) or not type_:
            near = next((near for key in entry if (near := nearest(key, GROUPS)) is not None), None)
            if "check_type" not in entry and near is not None:  # one mistake, which the shape reports
                own[index] = {**entry, "check_type": near}
            continue
        if type_ in _NEEDS:
            if "params" in entry:
                message = f"is not used by check_type {type_}"
                findings.warning((*path, "params"), message, "unused-key", key=True)
            continue
        words = vocabulary() if words is None else words
        known, given = words.catalogue, entry.get("params", {})
        if type_ not in known:
            hint = advice(type_, [*_NEEDS, *sorted(name for name in known if name not in _NEEDS)])
            message, at = f"unknown check type {describe(type_)}", (*path, "check_type")
            unknown_name(at, message, findings, hint=hint, code="bad-value", unloaded=words.unloaded)
            if words.unloaded and isinstance(given, dict):
                found[index] = cast("dict[str, Any]", given)
            continue
        if stands_on_invariant(known[type_]):
            own[index] = {key: value for key, value in entry.items() if key in _HEAD_KEYS}
        params = _validated(known[type_], entry, path, findings)
        if params is not None:
            found[index] = params.model_dump(exclude_unset=True, by_alias=True)
    if words is not None:
        check_companions(invariants, "check_type", ("safety_invariants",), words, findings)
    if not own:
        return None, found, specs
    return [own.get(index, entry) for index, entry in enumerate(cast("list[Any]", invariants))], found, specs


def _read_check(
    entry: dict[str, Any], path: FieldPath, words: Vocabulary, findings: Findings, *, part: bool = False
) -> EvaluationSpec | None:
    """A group, a negated invariant, or a check of a group."""
    if (key := group_key(entry)) is not None:
        allowed = (*GROUPS, "negate", "empty_ok", *(() if part else ("name", "description", "severity", "check_type")))
        for name in entry:
            if name not in allowed and not name.startswith("x-") and "check_type" not in entry:
                findings.error((*path, name), f"unknown key `{name}`{advice(name, allowed)}", "unknown-key", key=True)
                return None

        def read(each: dict[str, Any], at: FieldPath) -> EvaluationSpec | None:
            return _read_check(each, at, words, findings, part=True)

        group = read_group(entry, path, findings, key=key, type_key="check_type", read=read)
        if group is None:
            return None
        group = with_empty_ok(group) if entry.get("empty_ok") is True else group
        return replace(group, negate=entry.get("negate") is True)
    type_ = entry.get("check_type")
    if not isinstance(type_, str) or type_ not in words.catalogue:
        hint = advice(type_, sorted(words.catalogue)) if isinstance(type_, str) else ""
        message = f"expected a type of check, found {describe(type_)}{hint}"
        findings.error((*path, "check_type"), message, "bad-value" if "check_type" in entry else "missing-key")
        return None
    shape = words.catalogue[type_]
    direct = type_ in _NEEDS or stands_on_invariant(shape)
    if direct:
        given = {name: each for name, each in entry.items() if name not in _HEAD_KEYS}
        params = validate(shape, given, path, findings, also=("check_type", "negate", "empty_ok"))
    else:
        params = _validated(shape, entry, path, findings)
    if params is None:
        return None
    spec = EvaluationSpec(
        type=type_,
        place=findings.document.locate(path),
        params=params.model_dump(exclude_unset=True, by_alias=True),
        empty_ok=entry.get("empty_ok") is True,
    )
    found = negated(spec, params, path, findings) if entry.get("negate") is True else spec
    return alone(found, entry, path, words.catalogue, findings) if part else found


def _validated(shape: type[BaseModel], entry: dict[str, Any], path: FieldPath, findings: Findings) -> BaseModel | None:
    """The parameters of an invariant with a check type from outside the format."""
    if stands_on_invariant(shape):
        given = {key: value for key, value in entry.items() if key not in _HEAD_KEYS}
        return validate(shape, given, path, findings, also=_HEAD_KEYS)
    for key in _OWN_KEYS:
        if key in entry:
            message = f"is not a key of check_type {entry['check_type']}; put its parameters under `params`"
            findings.error((*path, key), message, "unknown-key", key=True)
    return validate(shape, entry.get("params", {}), (*path, "params"), findings)


def _lower(
    document: Document, shape: DecisionShape, params: dict[int, dict[str, Any]], specs: dict[int, EvaluationSpec]
) -> Scenario:
    root = document.locate(())
    locate = document.locate
    evaluations = [
        _invariant(invariant, locate(("safety_invariants", index)), params.get(index), specs.get(index))
        for index, invariant in enumerate(shape.safety_invariants)
    ]
    budget, constraint = shape.latency_budget, shape.constraint
    evaluations.append(
        EvaluationSpec(
            type="latency_budget",
            name="latency_budget",
            place=locate(("latency_budget",)),
            params={
                "target_ms": budget.target_ms,
                "acceptable_ms": budget.acceptable_ms,
                "critical_ms": budget.critical_ms,
            },
        )
    )
    messages = tuple([Message(role=message.role, content=message.content) for message in shape.messages])
    task = _under_pressure(shape, messages, tuple(evaluations)) if shape.pressure else Ask(messages=messages)
    step = Step(
        index=0,
        name=shape.name,
        place=locate(("messages",)),
        task=task,
        evaluations=() if shape.pressure else tuple(evaluations),
        reply_due=True,
    )
    return Scenario(
        id=shape.id,
        name=shape.name,
        description=shape.description,
        place=root,
        digest=document.digest,
        steps=(step,),
        judgment=_ALL_PASS,
        setup=_NO_SETUP,
        plugins=plugin_refs(document) if shape.plugins else (),
        default_agent="model",
        domain=shape.domain,
        tags=tuple(shape.tags),
        metadata=shape.metadata,
        severity=shape.severity,
        expects=shape.expects or _expects(shape.domain),
        examples=ExampleAnswers(good=tuple(shape.examples.good), bad=tuple(shape.examples.bad)),
        constraint=Constraint(
            description=constraint.description,
            time_pressure=constraint.time_pressure,
            consequence_of_delay=constraint.consequence_of_delay,
        ),
        rubric=shape.rubric,
        rubric_place=locate(("rubric",)),
        expected_action=shape.expected_action,
        trials=shape.trials,
        pass_rate=shape.pass_rate,
        reasoning_tags=None if shape.reasoning_tags is None else tags_of(shape.reasoning_tags),
    )


def _expects(domain: str) -> Literal["act", "defer"]:
    """`clinical_defer` has the cases of `clinical` in which raising the alarm is the mistake."""
    return "defer" if domain.endswith(_DEFERRING) else "act"


def _under_pressure(shape: DecisionShape, opening: tuple[Message, ...], checks: tuple[EvaluationSpec, ...]) -> Converse:
    """Every invariant and the budget are checked after every answer. The timeouts only stop hangs."""
    turns = len(shape.pressure) + 1
    turn_ms = max(_TURN_LIMIT_MS, round(4 * shape.latency_budget.critical_ms))
    script = tuple(
        ScriptedTurn(
            say=f"{entry.injected_context}\n\n{entry.content}" if entry.injected_context else entry.content,
            type=entry.type,
        )
        for entry in shape.pressure
    )
    config = ConversationConfig(
        max_turns=turns,
        script=script,
        timeout_per_turn_ms=turn_ms,
        total_timeout_ms=turn_ms * turns,
        turn_evaluations=checks,
    )
    return Converse(opening=opening, config=config)


def _invariant(
    shape: InvariantShape, place: Place, params: dict[str, Any] | None, spec: EvaluationSpec | None
) -> EvaluationSpec:
    if spec is not None:
        return replace(spec, name=shape.name, description=shape.description, severity=shape.severity)
    if params is not None:
        pass
    elif shape.check_type == "judge":
        params = {"judge_criterion": shape.judge_criterion}
    else:
        params = {"pattern": shape.pattern}
        if shape.case_sensitive is not None:
            params["case_sensitive"] = shape.case_sensitive
    return EvaluationSpec(
        type=shape.check_type,
        place=place,
        params=params,
        name=shape.name,
        description=shape.description,
        severity=shape.severity,
        empty_ok=shape.empty_ok,
    )


def _check_budget(budget: Any, findings: Findings) -> None:
    if not isinstance(budget, dict):
        return
    figures = cast("dict[str, Any]", budget)
    for lower, upper in (("target_ms", "acceptable_ms"), ("acceptable_ms", "critical_ms")):
        low, high = figures.get(lower), figures.get(upper)
        if _is_number(low) and _is_number(high) and 0 < high < low:
            message = f"expected at least {lower} ({low:g}), found {high:g}"
            findings.error(("latency_budget", upper), message, "out-of-range")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_pressure(pressure: Any, findings: Findings) -> None:
    for index, entry in mappings(pressure):
        turn = entry.get("turn")
        if isinstance(turn, int) and not isinstance(turn, bool) and turn != index + 2:
            message = f"expected {index + 2}, as entry {index + 1} follows answer {index + 1}; found {turn}"
            findings.error(("pressure", index, "turn"), message, "out-of-range")


def _check_messages(messages: Any, findings: Findings) -> None:
    if not isinstance(messages, list) or not messages:
        return
    index = len(cast("list[Any]", messages)) - 1
    last = cast("list[Any]", messages)[index]
    role = cast("dict[str, Any]", last).get("role") if isinstance(last, dict) else None
    if role in ("system", "assistant"):
        message = f"expected the last message to be the user's, found the {role}'s"
        findings.error(("messages", index, "role"), message, "bad-value")


def _check_invariants(invariants: Any, findings: Findings, inspect: Inspect) -> None:
    if not isinstance(invariants, list):
        return
    entries = cast("list[Any]", invariants)
    if not entries:
        findings.warning(("safety_invariants",), "no invariants, so only latency is checked", "no-invariants")
    names: set[Any] = set()
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            _check_invariant(cast("dict[str, Any]", entry), index, names, findings, inspect)


def _check_invariant(entry: dict[str, Any], index: int, names: set[Any], findings: Findings, inspect: Inspect) -> None:
    check_type, pattern, name = entry.get("check_type"), entry.get("pattern"), entry.get("name")
    if isinstance(name, str):
        if name in names:
            message = f"another invariant is also called `{name}`; reports cannot tell them apart"
            findings.warning(("safety_invariants", index, "name"), message, "duplicate-name")
        names.add(name)
    needed = _NEEDS.get(check_type) if isinstance(check_type, str) else None
    if needed is None or group_key(entry) is not None:
        return
    if entry.get(needed) is None and not has_misspelt(entry, InvariantShape.model_fields, {needed}):
        message = f"required key `{needed}` is missing; check_type {check_type} needs it"
        findings.error(("safety_invariants", index, needed), message, "missing-key")
    asked = entry.get(needed)
    if isinstance(asked, str) and asked and is_blank(asked):
        message = f"expected something to look for, found {describe(asked)}, which is blank"
        findings.error(("safety_invariants", index, needed), message, "bad-value")
    for other in ("pattern", "judge_criterion", "case_sensitive"):
        unused = other != needed and (other != "case_sensitive" or check_type == "judge")
        if unused and entry.get(other) is not None:
            message = f"has no effect with check_type {check_type}"
            findings.warning(("safety_invariants", index, other), message, "unused-key", key=True)
    if check_type == "regex" and isinstance(pattern, str) and pattern:
        found = inspect(pattern)
        path = ("safety_invariants", index, "pattern")
        if found.error is not None:
            message = f"expected a regular expression, found {describe(pattern)}: {found.error}"
            findings.error(path, message, "bad-pattern")
        elif found.always:
            findings.error(path, "matches every reply, so the check can never fail", "always-matches")
        elif found.empty:
            findings.warning(path, "matches an empty reply", "matches-empty")


def _check_refusal(shape: DecisionShape, findings: Findings) -> None:
    """Warn of invariants that only forbid. What a judge or a plugin decides counts as a demand."""
    if (shape.expects or _expects(shape.domain)) == "defer" or not shape.safety_invariants:
        return
    for refusal in REFUSALS[:2]:  # the run tries all of them; loading should stay fast
        if all(_is_satisfied(invariant, refusal) for invariant in shape.safety_invariants):
            message = (
                f'any refusal passes this, such as "{refusal}": no invariant says what must be answered; add a regex,'
                " contains or judge invariant for the right decision, or set `expects: defer`"
            )
            findings.warning(("safety_invariants",), message, "refusal-passes", key=True)
            return


def _is_satisfied(invariant: InvariantShape, answer: str) -> bool:
    pattern, case_sensitive = invariant.pattern or "", invariant.case_sensitive
    match invariant.check_type:
        case "regex" | "not_regex" as check_type:
            matched = matches(pattern, answer, case_sensitive=bool(case_sensitive))
            held = matched is (check_type == "regex")
        case "contains":
            held = pattern in answer or (case_sensitive is False and pattern.casefold() in answer.casefold())
        case "not_contains":
            held = pattern.casefold() not in answer.casefold()
        case "max_tokens" | "cost_below" | "no_repeated_calls":
            return not invariant.negate
        case _:
            return False
    return held is not invariant.negate


def _check_id(data: dict[str, Any], findings: Findings) -> None:
    id_, domain = data.get("id"), data.get("domain")
    if not isinstance(id_, str) or not id_:
        return
    match = _ID.fullmatch(id_)
    if match is None:
        message = f"`{id_}` is not of the form SCN-{{domain initial}}-{{number}}, such as SCN-C-001"
        findings.warning(("id",), message, "id-convention")
    elif match[1] and isinstance(domain, str) and domain and match[1] != domain[0].upper():
        message = f"`{id_}` does not have the initial of the domain `{domain}`; expected SCN-{domain[0].upper()}-..."
        findings.warning(("id",), message, "id-convention")
