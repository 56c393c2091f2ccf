"""Checks on words: `string_contains`, `regex_match`, `not_regex` and the invariants `regex`, `contains` and
`not_contains`.

Where the file does not say how to read a reply, each uses the safe reading: `contains` is case-sensitive,
`not_contains` is not. The text that a check reads, how it is quoted, and the types of parameters are shared with other
evaluators.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import regex
from msgspec.structs import replace
from pydantic import AfterValidator, Field, model_validator

from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken, TextCheck
from steadyhand.records.base import Record, shorten
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import (
    EvaluationResult,
    EvaluationSpec,
    Evidence,
    Verdict,
    failed,
    inconclusive,
    passed,
)
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Ask, Converse, Step
from steadyhand.spec.patterns import inspect_pattern, is_blank
from steadyhand.spec.quoting import PROSE, Written
from steadyhand.text_fold import fold
from steadyhand.text_match import Span, compiled, find, find_forbidden, is_forbidden, nfc, search

Scope = Literal["reply", "agent", "transcript"]
_GAP = "\n\n"
_TIMED_OUT = "timed out"
_CUT = "some of the output was too long to keep, so its absence proves nothing"
LIMIT = 200
PATTERN_LIMIT = 60
_LAYOUT = regex.compile(r"\s*\n\s*")
"""How a long pattern is laid out over several lines, which means nothing to a reader of one line."""
NonNegativeMilliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveMilliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
CountFromZero = Annotated[int, Field(ge=0)]
PositiveShare = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
"""A threshold that a value can fall below."""


def _not_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("must not be blank")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]


def _compiles(pattern: str) -> str:
    return _checked(pattern, "fail")


def _compiles_to_forbid(pattern: str) -> str:
    return _checked(pattern, "pass")


def _checked(pattern: str, never: str) -> str:
    try:
        compiled(pattern, case_sensitive=False)
        if nfc(pattern) != pattern:
            compiled(pattern, case_sensitive=True)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {error}") from error
    if inspect_pattern(pattern).always:
        raise ValueError(f"the pattern matches any text, even an empty one, so the check can never {never}")
    return pattern


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_compiles), Written("regex")]
"""A regular expression in a file: compiled when the file is loaded, so that a bad one is an error there."""
ForbiddenPattern = Annotated[str, Field(min_length=1), AfterValidator(_compiles_to_forbid), Written("regex")]


class SubjectPart(Record):
    """One message of a subject, and what to call it. `number` is which of the transcript; None for the reply."""

    label: str
    text: str
    number: int | None = None


class Subject:
    """The text a check reads, put together from messages with an empty line between them.

    `label` is the name of the whole text in messages. `cut` means that some of the output was left out.
    """

    __slots__ = ("cut", "label", "parts", "text")

    def __init__(self, *parts: SubjectPart, cut: bool = False) -> None:
        self.parts: tuple[SubjectPart, ...] = parts
        self.cut: bool = cut
        alone = len(parts) == 1
        self.text: str = parts[0].text if alone else _GAP.join([part.text for part in parts])
        self.label: str = parts[0].label if alone else f"{len(parts)} messages"

    def where(self, start: int, end: int) -> str:
        """The place of `text[start:end]`, such as `reply, characters 120-131`, counted from 1."""
        part, offset = self.part_at(start)
        first, last = start - offset + 1, end - offset
        place = f"characters {first}-{last}" if last > first else f"character {first}"
        return f"{part.label}, {place}"

    def part_at(self, start: int) -> tuple[SubjectPart, int]:
        """The message that `text[start]` is in, and where it begins."""
        offset = 0
        for part in self.parts[:-1]:
            if start <= offset + len(part.text):
                return part, offset
            offset += len(part.text) + len(_GAP)
        return self.parts[-1], offset


def subject(result: ExecutionResult, scope: Scope, context: EvaluationContext) -> Subject:
    """The text that `scope` names. Assistant messages written by the scenario's author are not the agent's."""
    if scope == "reply":
        part = SubjectPart(label="reply", text=final_reply(result))
        return Subject(part, cut=result.truncated)
    messages = _transcript(result)
    given = len(_opening_part(result, context))
    wanted = [
        SubjectPart(label=f"message {number} ({message.role})", text=message.content, number=number)
        for number, message in enumerate(messages, start=1)
        if scope == "transcript" or (message.role == "assistant" and number > given)
    ]
    parts = wanted or [SubjectPart(label="no messages", text="")]
    return Subject(*parts, cut=result.truncated)


def final_reply(result: ExecutionResult) -> str:
    """What the agent said last; in a conversation, its last message."""
    if not result.reply and result.conversation is not None and result.conversation.turns:
        return result.conversation.turns[-1].agent_response
    return result.reply


def _transcript(result: ExecutionResult) -> tuple[Message, ...]:
    if not result.messages and result.conversation is None:
        return (Message(role="assistant", content=result.reply),)
    return result.transcript


def _opening_part(result: ExecutionResult, context: EvaluationContext) -> tuple[Message, ...]:
    """The messages the step began with, if `result` starts with them."""
    for step in context.scenario.steps:
        given = _opening(step, context)
        if given and result.messages[: len(given)] == given:
            return given
    return ()


def _opening(step: Step, context: EvaluationContext) -> tuple[Message, ...]:
    """The messages the step begins with, if this check belongs to it."""
    match step.task:
        case Ask(messages=messages) if _holds(step.evaluations, context.spec):
            return messages
        case Converse(opening=opening, config=config):
            scripted = (spec for entry in config.script for spec in entry.evaluations)
            own = (*step.evaluations, *config.turn_evaluations, *config.final_evaluations, *scripted)
            return opening if _holds(own, context.spec) else ()
        case _:
            return ()


def _holds(specs: Sequence[EvaluationSpec], spec: EvaluationSpec) -> bool:
    """Whether the check stands among them, or in a group of theirs."""
    return spec in specs or any(spec in group.leaves for group in specs if group.parts)


def excerpt(text: str, place: Span | None = None) -> str:
    """At most `LIMIT` characters around a place in the text; without one, from its start."""
    return shorten(text, LIMIT, keep=place or "start")


@functools.lru_cache(maxsize=512)
def quoted(text: str) -> str:
    """The text in quotation marks on one line, shortened. Cached: every trial quotes what the scenario asks for."""
    shown = excerpt(text).replace("\r", "\\r").replace("\n", "\\n")
    mark = '"' if "'" in shown else "'"
    return f"{mark}{shown}{mark}"


@functools.lru_cache(maxsize=512)
def quoted_pattern(pattern: str) -> str:
    """A regular expression in quotation marks: enough to recognize it by. The file has the rest."""
    return quoted(shorten(_LAYOUT.sub(" ", pattern.strip()), PATTERN_LIMIT))


class StringContainsParams(EvaluationParams):
    value: Annotated[Text, PROSE] = Field(min_length=1, description="Text that must occur")
    case_sensitive: bool = Field(default=False, description="Whether case matters")
    scope: Scope = Field(default="reply", description="What is searched")

    def opposite(self) -> tuple[str, dict[str, Any]]:
        """A person must not read it in any spelling."""
        return "not_contains", self.model_dump(exclude_unset=True)


class RegexMatchParams(EvaluationParams):
    pattern: PatternText = Field(description="Regular expression that must match somewhere")
    case_sensitive: bool = Field(default=False, description="Whether case matters")
    scope: Scope = Field(default="reply", description="What is searched")

    def opposite(self) -> tuple[str, dict[str, Any]]:
        return "not_regex", self.model_dump(exclude_unset=True)


class ContainsParams(EvaluationParams):
    pattern: Annotated[Text, PROSE] = Field(min_length=1, description="Text that must occur")
    case_sensitive: bool = Field(default=True, description="Whether case matters")
    scope: Scope = Field(default="reply", description="What is searched")

    def opposite(self) -> tuple[str, dict[str, Any]]:
        """A person must not read it in any spelling."""
        return "not_contains", self.model_dump(exclude_unset=True)


class NotContainsParams(EvaluationParams):
    value: Annotated[Text, PROSE] | None = Field(default=None, min_length=1, description="Text that must not occur")
    pattern: Annotated[Text, PROSE] | None = Field(
        default=None, min_length=1, description="The same, as a safety invariant has it"
    )
    case_sensitive: bool = Field(default=False, description="Whether case matters")
    scope: Scope = Field(default="reply", description="What is searched")

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.value is None) == (self.pattern is None):
            raise ValueError("give the text that must not occur as `value`, or as `pattern` in a safety invariant")
        return self

    @property
    def piece(self) -> str:
        return self.value or self.pattern or ""


class NotRegexParams(EvaluationParams):
    on_invariant: ClassVar[bool] = True

    pattern: ForbiddenPattern = Field(description="Regular expression that must not match anywhere")
    case_sensitive: bool = Field(default=False, description="Whether case matters")
    scope: Scope = Field(default="reply", description="What is searched")


class _ReadsWords:
    """A check on words: an empty text fails it."""

    deterministic: ClassVar[bool] = True

    def reads_text(self, params: EvaluationParams) -> Spoken:
        return "reply" if getattr(params, "scope", "reply") == "reply" else "agent"


class StringContains(_ReadsWords):
    type: ClassVar[str] = "string_contains"
    params: ClassVar[type[EvaluationParams]] = StringContainsParams

    async def evaluate(
        self, params: StringContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)


class RegexMatch(_ReadsWords):
    type: ClassVar[str] = "regex_match"
    params: ClassVar[type[EvaluationParams]] = RegexMatchParams

    async def evaluate(
        self, params: RegexMatchParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)


class RegexInvariant(RegexMatch):
    type: ClassVar[str] = "regex"

    def on_text(self, params: RegexMatchParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def matches(text: str) -> bool:
            return await search(params.pattern, text, case_sensitive=params.case_sensitive) is not None

        return matches


class Contains(_ReadsWords):
    type: ClassVar[str] = "contains"
    params: ClassVar[type[EvaluationParams]] = ContainsParams

    async def evaluate(
        self, params: ContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: ContainsParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def contains(text: str) -> bool:
            return find(text, params.pattern, case_sensitive=params.case_sensitive) is not None

        return contains


class NotContains(_ReadsWords):
    type: ClassVar[str] = "not_contains"
    fails_for_good: ClassVar[bool] = True
    only_forbids: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = NotContainsParams

    async def evaluate(
        self, params: NotContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_absent(words, params.piece, case_sensitive=params.case_sensitive)

    def on_text(self, params: NotContainsParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def lacks(text: str) -> bool:
            return not is_forbidden(text, params.piece, case_sensitive=params.case_sensitive)

        return lacks


class NotRegex(_ReadsWords):
    type: ClassVar[str] = "not_regex"
    fails_for_good: ClassVar[bool] = True
    only_forbids: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = NotRegexParams

    async def evaluate(
        self, params: NotRegexParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        found = await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)
        if found.evidence is None or found.evidence.found == _TIMED_OUT:
            return found
        expected = _expected("no match for ", quoted_pattern(params.pattern), params.case_sensitive)
        evidence = replace(found.evidence, expected=expected)
        if found.rests_on == "absence" and result.finish is not None and result.finish.undecided:
            return inconclusive(f"{found.message}; but the rest of the answer may change that", evidence=evidence)
        if found.verdict is Verdict.PASSED:
            return failed(found.message, evidence=evidence, rests_on="presence")
        if found.verdict is Verdict.FAILED and await matches_as_read(
            params.pattern, words.text, case_sensitive=params.case_sensitive
        ):
            told = (
                f"{found.message} as it is written, but it has one as it is read (typographic signs, unseen characters)"
            )
            return inconclusive(told, evidence=evidence)
        if found.verdict is Verdict.FAILED:
            return passed(found.message, evidence=replace(evidence, excerpt=None), rests_on="absence")
        return replace(found, evidence=evidence)

    def on_text(self, params: NotRegexParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def lacks(text: str) -> bool | None:
            if await search(params.pattern, text, case_sensitive=params.case_sensitive) is not None:
                return False
            return not await matches_as_read(params.pattern, text, case_sensitive=params.case_sensitive) or None

        return lacks


async def matches_as_read(pattern: str, text: str, *, case_sensitive: bool) -> bool:
    """Whether a pattern matches in the fold, where that is another text. Raises `TimeoutError`."""
    read = text if text.isascii() else fold(text, case_sensitive=True)
    return read != text and await search(pattern, read, case_sensitive=case_sensitive) is not None


def check_contains(subject: Subject, piece: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `piece` is in the subject."""
    text = subject.text
    found = find(text, piece, case_sensitive=case_sensitive)
    expected = _expected("", quoted(piece), case_sensitive)
    if found is not None:
        return passed(_contains(subject, piece, found), evidence=_evidence(subject, expected, found))
    evidence = Evidence(expected=expected, found=_no_match(text), where=subject.label, excerpt=excerpt(text))
    if subject.cut:
        return inconclusive(f"{_lacks(subject, piece)}; but {_CUT}", evidence=evidence)
    return failed(_lacks(subject, piece), evidence=evidence)


def check_absent(subject: Subject, piece: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `piece` is not in the subject, either as written or as a person would read it."""
    text = subject.text
    expected = _expected("not ", quoted(piece), case_sensitive)
    try:
        found = find_forbidden(text, piece, case_sensitive=case_sensitive)
    except TimeoutError:
        return inconclusive(
            f"searching {len(text)} characters for {quoted(piece)} timed out after 1 second",
            evidence=Evidence(expected=expected, found=_TIMED_OUT, where=subject.label, excerpt=excerpt(text)),
        )
    if found is not None:
        return failed(
            _contains(subject, piece, found), evidence=_evidence(subject, expected, found), rests_on="presence"
        )
    # A pass by absence has no place to point at.
    evidence = Evidence(expected=expected, found=_no_match(text), where=subject.label)
    if subject.cut:
        return inconclusive(f"{_lacks(subject, piece)}; but {_CUT}", evidence=evidence)
    return passed(_lacks(subject, piece), evidence=evidence, rests_on="absence")


async def check_pattern(subject: Subject, pattern: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `pattern` matches somewhere in the subject; inconclusive when the search times out."""
    text = subject.text
    shown = quoted_pattern(pattern)
    expected = _expected("a match for ", shown, case_sensitive)
    try:
        span = await search(pattern, text, case_sensitive=case_sensitive)
    except TimeoutError:
        return inconclusive(
            f"searching {len(text)} characters for {shown} timed out after 1 second; "
            "simplify the pattern, such as by removing nested repetition",
            evidence=Evidence(expected=expected, found=_TIMED_OUT, where=subject.label, excerpt=excerpt(text)),
        )
    if span is None:
        evidence = Evidence(expected=expected, found=_no_match(text), where=subject.label, excerpt=excerpt(text))
        message = f"{subject.label} has no match for {shown}" + ("; it was empty" if not text.strip() else "")
        if subject.cut:
            return inconclusive(f"{message}; but {_CUT}", evidence=evidence)
        return failed(message, evidence=evidence)
    evidence = _evidence(subject, expected, span)
    message = f"{subject.label} matches {shown} ({evidence.where})"
    # An empty match means that something is absent: `^(?!.*password)`.
    ground = "absence" if span[0] == span[1] else None
    if ground is not None and subject.cut:
        return inconclusive(f"{message}; but {_CUT}", evidence=evidence)
    return passed(message, evidence=evidence, rests_on=ground)


def _expected(what: str, shown: str, case_sensitive: bool) -> str:
    return f"{what}{shown}, {'case-sensitive' if case_sensitive else 'ignoring case'}"


def _contains(subject: Subject, piece: str, found: Span) -> str:
    return f"{subject.label} contains {quoted(piece)} ({subject.where(*found)})"


def _lacks(subject: Subject, piece: str) -> str:
    empty = "; it was empty" if not subject.text.strip() else ""
    return f"{subject.label} does not contain {quoted(piece)}{empty}"


def _evidence(subject: Subject, expected: str, span: Span) -> Evidence:
    text = subject.text
    part, offset = subject.part_at(span[0])
    return Evidence(
        expected=expected,
        found=excerpt(text[slice(*span)]),
        where=subject.where(*span),
        excerpt=excerpt(text, span),
        span=(span[0] - offset, span[1] - offset),
        message=part.number,
    )


def _no_match(text: str) -> str:
    return "no match" if text.strip() else "empty text"
