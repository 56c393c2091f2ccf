"""Checks, their results, and rubrics."""

from __future__ import annotations

import enum
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.records.base import Natural, Record, doc
from steadyhand.records.location import Place


class Verdict(enum.StrEnum):
    """*inconclusive*: it could not be evaluated. *error*: the harness, environment or network failed."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


WORST_FIRST = (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASSED)


class Outcome(enum.StrEnum):
    """Safety and time, kept apart."""

    SAFE_IN_TIME = "safe_in_time"
    SAFE_LATE = "safe_late"
    UNSAFE_IN_TIME = "unsafe_in_time"
    UNSAFE_LATE = "unsafe_late"


class LatencyTier(enum.StrEnum):
    """The tier of the budget that the latency fell in. All bounds are inclusive."""

    TARGET = "target"
    ACCEPTABLE = "acceptable"
    CRITICAL = "critical"
    EXCEEDED = "exceeded"


class LatencyBounds(Record, array_like=True):
    """The tiers of a latency budget. All bounds are inclusive."""

    target_ms: float
    acceptable_ms: float
    critical_ms: float


class FailureClass(enum.StrEnum):
    """What kind of failure, worst first."""

    CRITICAL_INVARIANT = "A"
    INVARIANT = "B"
    RUBRIC = "C"
    LATENCY = "D"
    FABRICATION = "E"


VIOLATION_CLASSES = frozenset((FailureClass.CRITICAL_INVARIANT, FailureClass.INVARIANT))

Stage = Literal["step", "turn", "final"]
Ground = Literal["presence", "absence", "neither"]
Decider = Literal["reader", "judge"]
"""Who decided a check on meaning: a rule that read the answer, or the judge that was asked where no rule was sure."""

NOT_RUNNING = "not_running_ms"
"""The figure, and the topic of a note, that say that something was left undecided because Steadyhand was not running:
stopped, suspended with the machine, or too busy. The trial is measured again."""
EMPTY_REPLY = "empty_reply"
"""Marks a check that failed because the reply was empty."""

GROUPS = ("any_of", "all_of", "at_least")
"""The types of groups of checks."""

NO_DECISION = "no_decision"
"""Marks an invariant that a refusal or an echo satisfies, and that is inconclusive for that reason."""


class EvaluationSpec(Record):
    """A check as written in the scenario.

    `params` are the evaluator's own, validated against its `Params` when the file was loaded. An evaluation with a
    `severity` is a safety invariant; without one it is an ordinary check. With `empty_ok` an empty reply is evaluated
    instead of failing. With `negate` it passes where it would fail. A group of checks has `parts`.
    """

    type: str
    place: Place
    params: dict[str, Any] = {}
    name: str | None = None
    description: str | None = None
    severity: float | None = None
    weight: float = 1.0
    empty_ok: bool = False
    negate: bool = False
    parts: tuple[EvaluationSpec, ...] = ()

    @property
    def leaves(self) -> Iterator[EvaluationSpec]:
        """The check itself, or the checks that a group is made of."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves


class Evidence(Record, array_like=True):
    """What was expected, what was found, and where.

    `span` is where in the text, as offsets from 0, and `message` the message of the step's transcript that it is in,
    counted from 1; without one it is the final reply.
    """

    expected: Annotated[str | None, doc("What was expected.")] = None
    found: Annotated[str | None, doc("What was found.")] = None
    where: Annotated[str | None, doc("Where it was found.")] = None
    excerpt: Annotated[str | None, doc("The text around it.")] = None
    span: Annotated[
        tuple[Natural, Natural] | None, doc("Offsets of what was found in the reply, or in `message`; null if unknown.")
    ] = None
    message: Annotated[
        Natural | None, doc("Message of the step it was found in, counted from 1; null for the final reply.")
    ] = None


class JudgeNote(Record):
    """What a judge was asked and answered, so that its judgment can be reviewed.

    `not_shown` names what could not be shown to the judge. In that case it was not asked, and `raw` is empty.
    `question` is what it was asked, without the records that it was shown.
    """

    model: Annotated[str, doc("Model of the judge.")]
    prompt_hash: Annotated[str, doc("Hash of the prompt.")]
    raw: Annotated[str, doc("The judge's answer, verbatim; empty if it was not asked.")]
    self_judged: Annotated[bool, doc("Whether the judge is the model under test.")] = False
    confidence: Annotated[float | None, doc("The judge's confidence, if it gave one.")] = None
    reasoning: Annotated[str | None, doc("The judge's reasoning, if it gave any.")] = None
    capabilities: Annotated[dict[str, bool], doc("Whether each required capability was shown.")] = {}
    votes: Annotated[tuple[str, ...], doc("The single votes, if the judge was asked several times.")] = ()
    repaired: Annotated[bool, doc("Whether the answer was requested again because it could not be read.")] = False
    not_shown: Annotated[tuple[str, ...], doc("What could not be shown to the judge, so that it was not asked.")] = ()
    question: Annotated[str, doc("What it was asked, without the records it was shown; empty for a rubric.")] = ""


class EvaluationResult(Record, array_like=True):
    """The result of a check.

    An evaluator fills `verdict`, `message`, `evidence`, `figures` and `judge` (the functions below help); the engine
    adds the rest from the specification it ran.

    `rests_on` is what decided it, if the evaluator can tell: *absence* if it passed because something was missing,
    *presence* if it failed because something was there, *neither* if it failed and its opposite would fail too, because
    there was nothing to look at or it can be read either way. `self_reported` is what is known only from the agent.
    `budget` is set if the check grades latency. `digest` is that of the specification (`spec_digest`), which matches a
    stored result with its check. `decided_by` is set by checks that ask a judge only where they are not sure.
    """

    verdict: Verdict
    message: str
    evidence: Evidence | None = None
    figures: dict[str, Any] = {}
    judge: JudgeNote | None = None
    type: str = ""
    place: Place | None = None
    name: str | None = None
    description: str | None = None
    severity: float | None = None
    weight: float = 1.0
    stage: Stage = "step"
    step: int = 0
    turn: int | None = None
    duration_ms: float = 0.0
    rests_on: Ground | None = None
    self_reported: tuple[str, ...] = ()
    budget: LatencyBounds | None = None
    digest: str = ""
    decided_by: Decider | None = None

    @property
    def success(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def where(self) -> str | None:
        """Where the check is defined, as file:line:column."""
        return None if self.place is None else str(self.place)

    @property
    def path(self) -> str | None:
        """The path of the field that defines it."""
        return None if self.place is None else self.place.path


def spec_digest(spec: EvaluationSpec) -> str:
    """Changes with what the check asks: its type, its parameters and `empty_ok`, not its name, severity or weight."""
    parts: list[Any] = [spec.type, spec.params, *([True] if spec.empty_ok else [])]
    if spec.negate or spec.parts:
        parts.append([spec.negate, *map(spec_digest, spec.parts)])
    encoded = msgspec.json.encode(parts, order="sorted", enc_hook=repr)
    return hashlib.sha256(encoded).hexdigest()[:12]


def check_ids(results: Sequence[EvaluationResult]) -> list[str]:
    """The unique name of each check of a trial in labels and exports: its name, else its type, with a distinguishing
    prefix.

    Such as `polite`, `step 2/polite`, `turn 3/polite` and, for the second of two that are otherwise alike,
    `polite (2)`.
    """
    seen: Counter[str] = Counter()
    found: list[str] = []
    for result in results:
        step = f"step {result.step + 1}/" if result.step else ""
        turn = f"turn {result.turn}/" if result.turn is not None else ""
        plain = f"{step}{turn}{result.name or result.type}"
        seen[plain] += 1
        found.append(plain if seen[plain] == 1 else f"{plain} ({seen[plain]})")
    return found


def passed(
    message: str,
    *,
    evidence: Evidence | None = None,
    figures: dict[str, Any] | None = None,
    judge: JudgeNote | None = None,
    rests_on: Ground | None = None,
) -> EvaluationResult:
    return EvaluationResult(
        verdict=Verdict.PASSED,
        message=message,
        evidence=evidence,
        figures=figures or {},
        judge=judge,
        rests_on=rests_on,
    )


def failed(
    message: str,
    *,
    evidence: Evidence | None = None,
    figures: dict[str, Any] | None = None,
    judge: JudgeNote | None = None,
    rests_on: Ground | None = None,
) -> EvaluationResult:
    return EvaluationResult(
        verdict=Verdict.FAILED,
        message=message,
        evidence=evidence,
        figures=figures or {},
        judge=judge,
        rests_on=rests_on,
    )


def errored(
    message: str, *, evidence: Evidence | None = None, figures: dict[str, Any] | None = None
) -> EvaluationResult:
    """The check itself is at fault: it does not say clearly what it asks for."""
    return EvaluationResult(verdict=Verdict.ERROR, message=message, evidence=evidence, figures=figures or {})


def inconclusive(
    message: str,
    *,
    evidence: Evidence | None = None,
    figures: dict[str, Any] | None = None,
    judge: JudgeNote | None = None,
) -> EvaluationResult:
    """It could not be decided: neither a pass nor a failure of the agent."""
    return EvaluationResult(
        verdict=Verdict.INCONCLUSIVE, message=message, evidence=evidence, figures=figures or {}, judge=judge
    )


class Anchor(Record):
    """Describes a reply with this score."""

    score: float
    text: str


class RubricDimension(Record):
    """Anchors are sorted by score, lowest first."""

    name: str
    weight: float
    description: str = ""
    anchors: tuple[Anchor, ...] = ()


class Rubric(Record):
    """The weights of the dimensions sum to one."""

    name: str
    place: Place
    dimensions: tuple[RubricDimension, ...]
    digest: str = ""
    description: str = ""
    version: str | None = None
    domain: str | None = None


class RubricScore(Record):
    """Scores of a reply from 0 to 1, by dimension. If one could not be determined, it is missing, and so is `overall`.

    `reason` says why something is missing. `fabricated` is None if unknown.
    """

    name: str
    scores: dict[str, float] = {}
    overall: float | None = None
    fabricated: bool | None = None
    evidence: str | None = None
    reason: str | None = None
    note: JudgeNote | None = None


class Material(Record):
    """A piece of what is judged: data, never instructions. Even `title` may contain text chosen by the agent.

    If it is not `whole`, some content was lost; the text says what.
    """

    title: str
    text: str
    whole: bool = True
