"""A check on what an agent said and did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec
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


class Evaluator(Protocol):
    """One kind of check, named by `type` in the file. Stateless: one instance serves every trial.

    `reads` is what it reads of what the agent did, beside what was said. Where the agent does not show all of it, the
    check is inconclusive and `evaluate` is not called. It may declare `fails_for_good: ClassVar[bool]`: what fails on a
    part of an answer fails on the whole too. Without it, an answer that was cut off by a token limit of ours decides
    nothing.
    """

    type: ClassVar[str]
    params: ClassVar[type[EvaluationParams]]
    reads: ClassVar[frozenset[Visible]] = frozenset()

    async def evaluate(self, params: Any, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        """Check `result`. `params` is an instance of `self.params`.

        Answer with `passed`, `failed` or `inconclusive`. An exception makes the evaluation an *error*, never a
        failure of the agent.
        """
        ...


@runtime_checkable
class TextCheck(Protocol):
    """An evaluator may offer this too when all it reads is the text of the reply.

    Such a check can be made on what there was of an answer at any moment, and so has a time from which on it held.
    """

    def on_text(self, params: Any) -> Callable[[str], Awaitable[bool]]:
        """A function that says whether `evaluate` would pass with this reply. It raises `TimeoutError` when that
        cannot be told in time."""
        ...


@runtime_checkable
class JudgedCheck(Protocol):
    """An evaluator offers this too when it asks the trial's judge; one that does not has no judge to ask."""

    def needs_judge(self, params: Any) -> bool:
        """Whether a check with these parameters asks `context.trial.judge`."""
        ...
