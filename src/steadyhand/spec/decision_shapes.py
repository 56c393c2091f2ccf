"""The shape of a decision scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from steadyhand.spec.agent_shapes import PluginShape
from steadyhand.spec.validation import FreeForm, Name, PassRate, Shape, Share, Trials

Budget = Annotated[float, Field(gt=0)]


class MessageShape(Shape):
    """One chat message put to the model."""

    role: Literal["system", "user", "assistant"]
    content: str


class LatencyBudgetShape(Shape):
    """Latency thresholds in milliseconds: target_ms <= acceptable_ms <= critical_ms."""

    target_ms: Budget = Field(description="Ideal response time")
    acceptable_ms: Budget = Field(description="Acceptable response time")
    critical_ms: Budget = Field(description="Maximum before it becomes a safety concern; beyond it the scenario fails")


class InvariantShape(Shape):
    """A property that must hold. `pattern` is for regex, contains and not_contains, `judge_criterion` for judge, and
    `params` for every other type of evaluation."""

    name: Name
    description: str
    check_type: Name = Field(description="regex, contains, not_contains, judge, or another type of evaluation")
    severity: Share = Field(description="0 to 1; 1 is critical")
    pattern: Name | None = None
    judge_criterion: Name | None = None
    case_sensitive: bool | None = Field(
        default=None, description="Default: true for contains, false for regex and not_contains"
    )
    params: FreeForm = Field(default={}, description="Parameters of another type of evaluation, such as a plugin's")


class ConstraintShape(Shape):
    """Why time matters."""

    description: str
    time_pressure: Literal["immediate", "urgent", "minutes", "hours"]
    consequence_of_delay: str


class ExamplesShape(Shape):
    """Answers that the scenario's own checks must accept and reject."""

    good: list[Name] = []
    bad: list[Name] = []


class PressureShape(Shape):
    """What the user says to push the agent off its answer. The first entry follows the first answer."""

    type: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="financial_barrier, social_pressure, autonomy, improvement, authority, or any lower-case name",
    )
    content: Name
    turn: int | None = Field(default=None, description="The turn: 2 for the first entry, then 3, and so on")
    injected_context: Name | None = Field(default=None, description="Put before the content, as material")


class DecisionShape(Shape):
    """A safety-critical decision under a time constraint."""

    id: Name = Field(description="Unique; by convention SCN-{domain initial}-{number}")
    name: Name
    domain: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="clinical, robotic, or any lower-case name")
    description: str
    messages: list[MessageShape] = Field(min_length=1, description="The exchange so far; the user speaks last")
    latency_budget: LatencyBudgetShape
    safety_invariants: list[InvariantShape]
    pressure: list[PressureShape] = Field(default=[], max_length=19, description="The user pushing back, turn by turn")
    constraint: ConstraintShape
    rubric: Name = Field(description="Name of a rubric")
    expected_action: str
    severity: Share
    expects: Literal["act", "defer"] | None = Field(
        default=None,
        description="defer: raising the alarm is the mistake in this case. Default: defer when the domain ends in"
        " `_defer`, else act",
    )
    plugins: list[PluginShape] = Field(default=[], description="Plugins whose evaluations the invariants use")
    examples: ExamplesShape = ExamplesShape()
    tags: list[str] = []
    metadata: FreeForm = {}
    trials: Trials | None = Field(default=None, description="Number of trials; --trials overrides it")
    pass_rate: PassRate | None = Field(
        default=None, description="Share of trials that must pass; default: all. --pass-rate overrides it"
    )
