"""A check on what an agent said and did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, LatencyBounds
from steadyhand.records.event import Shows, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Scenario


class EvaluationParams(BaseModel):
    """Base of an evaluator's parameters as they stand in the file: strict, and unknown keys are errors.

    `type`, `description` and `weight` are taken off before; a subclass declares its own fields only.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class EvaluationContext:
    """What a check may look at beside the result it judges.

    The environment and the database are as the step left them, or the turn: the next one has not begun. `turn` is the
    number of the turn that is checked, None for a whole step.
    """

    __slots__ = ("spec", "trial", "turn")

    def __init__(self, *, trial: TrialContext, spec: EvaluationSpec, turn: int | None = None) -> None:
        self.trial: TrialContext = trial
        self.spec: EvaluationSpec = spec
        self.turn: int | None = turn

    @property
    def span(self) -> Literal["step", "turn"]:
        """What the result is about, and its times count from the beginning of."""
        return "step" if self.turn is None else "turn"

    @property
    def scenario(self) -> Scenario:
        return self.trial.scenario

    @property
    def environment(self) -> EnvironmentProvider:
        return self.trial.environment

    @property
    def shows(self) -> Shows:
        """What can be seen of what was done in this step. A check that declares its `reads` need not ask."""
        return self.trial.shows


TextCheck = Callable[[str], Awaitable[bool]]
"""Says whether a check would pass with this reply. Raises `TimeoutError` when that cannot be told in time."""


class AnyEvaluator(Protocol):
    """One kind of check, named by `type` in the file. Stateless: one instance serves every trial.

    All but `type`, `params` and `evaluate` may be left out; the defaults are those given here.
    """

    type: ClassVar[str]
    params: ClassVar[type[EvaluationParams]]

    reads: ClassVar[frozenset[Visible]] = frozenset()
    """What it reads of what the agent did, beside what was said. Where the agent does not show all of it, the check is
    inconclusive and `evaluate` is not called."""

    fails_for_good: ClassVar[bool] = False
    """Whether what fails on part of an answer fails on the whole too. Otherwise an answer that was cut off by a token
    limit of ours decides nothing."""

    deterministic: ClassVar[bool] = False
    """Whether the reply and the parameters alone decide it, always the same way, so that `selftest` can try it."""

    async def evaluate(self, params: Any, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        """Check `result`. `params` is an instance of `self.params`.

        Answer with `passed`, `failed` or `inconclusive`. An exception makes the evaluation an *error*, never a
        failure of the agent.
        """
        ...

    def needs_judge(self, params: Any) -> bool:
        """Whether a check with these parameters asks `context.trial.judge`; one that does not has no judge to ask."""
        return False

    def on_text(self, params: Any) -> TextCheck | None:
        """The check on the text of a reply, when that is all it reads.

        It can then be made on what there was of an answer at any moment, and so has a time from which on it held.
        """
        return None

    def latency_bounds(self, params: Any) -> LatencyBounds | None:
        """The budget, when the check grades latency; its results then have `latency_ms` and `tier` as figures.

        A trial of which nothing but such a grade is missing is measured again, `--enforce-deadline` cuts at
        `critical_ms`, and reports show the tier.
        """
        return None


def reads_of(evaluator: AnyEvaluator) -> frozenset[Visible]:
    found: frozenset[Visible] = getattr(evaluator, "reads", frozenset())
    return found


def fails_for_good(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "fails_for_good", False))


def deterministic(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "deterministic", False))


def needs_judge(evaluator: AnyEvaluator, params: Any) -> bool:
    declared = getattr(evaluator, "needs_judge", None)
    return declared is not None and declared(params)


def text_check(evaluator: AnyEvaluator, params: Any) -> TextCheck | None:
    declared = getattr(evaluator, "on_text", None)
    return None if declared is None else declared(params)


def latency_bounds(evaluator: AnyEvaluator, params: Any) -> LatencyBounds | None:
    declared = getattr(evaluator, "latency_bounds", None)
    return None if declared is None else declared(params)
