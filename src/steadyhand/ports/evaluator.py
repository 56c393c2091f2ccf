"""A check on what an agent said and did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec
from pydantic import BaseModel, ConfigDict

from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.records.deed_name import NamedDeed
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, LatencyBounds
from steadyhand.records.event import Shows, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Scenario


class EvaluationParams(BaseModel):
    """Base of an evaluator's parameters in the file: strict, and unknown keys are errors.

    `type`, `description` and `weight` are removed first; a subclass declares only its own fields.
    """

    on_invariant: ClassVar[bool] = False
    """Whether the parameters stand directly on a safety invariant, instead of under `params`."""

    stands_alone: ClassVar[str] = ""
    """Why it cannot be negated or in a group, if it cannot. `not_negated` is why it cannot be negated."""
    not_negated: ClassVar[str] = ""

    needs_beside: ClassVar[tuple[str, ...]] = ()
    """Types of evaluation of which at least one must stand in the same list."""

    # A subclass may have a method `opposite() -> (type, params)`: the check that `negate` stands for, where that is not
    # just the other verdict. It raises `ValueError` if there is none.

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class EvaluationContext(msgspec.Struct, kw_only=True):
    """What a check may use besides the result.

    The environment and the database are as the step or turn left them: the next one has not begun. `turn` is the number
    of the checked turn, None for a whole step.
    """

    trial: TrialContext
    spec: EvaluationSpec
    turn: int | None = None
    embedder: ChatModel | None = None
    """The model that the check declares with `embeds_with`; see `ModelFacts.embedder`."""

    @property
    def span(self) -> Literal["step", "turn"]:
        """The scope of the result; its times count from the start of it."""
        return "step" if self.turn is None else "turn"

    @property
    def scenario(self) -> Scenario:
        return self.trial.scenario

    @property
    def environment(self) -> EnvironmentProvider:
        return self.trial.environment

    @property
    def shows(self) -> Shows:
        """What can be seen of the actions in this step. A check that declares `reads` need not look at it."""
        return self.trial.shows


Spoken = Literal["reply", "agent"]
TextCheck = Callable[[str], Awaitable[bool | None]]
"""Whether a check would pass with this reply; None if neither it nor its opposite would. Raises `TimeoutError` if it
takes too long."""


class AnyEvaluator(Protocol):
    """One kind of check, named by `type` in the file. Stateless: one instance serves every trial.

    All but `type`, `params` and `evaluate` are optional, with the defaults given here.
    """

    type: ClassVar[str]
    params: ClassVar[type[EvaluationParams]]

    reads: ClassVar[frozenset[Visible]] = frozenset()
    """What it reads of the agent's actions, besides the messages. If the agent does not show all of it, the check is
    inconclusive and `evaluate` is not called."""

    fails_for_good: ClassVar[bool] = False
    """Whether a failure on part of an answer is a failure on the whole. If not, an answer that was cut off by our token
    limit is inconclusive."""

    deterministic: ClassVar[bool] = False
    """Whether the result depends only on the reply and the parameters, so that `selftest` can run it."""

    only_forbids: ClassVar[bool] = False
    """Whether it passes unless something is said, so that a refusal to answer satisfies it. A check with `on_text` need
    not declare this: it is tried on refusals."""

    explicit_judge_only: ClassVar[bool] = False
    """Whether only an explicitly named judge may be asked, never the model under test."""

    runs_commands: ClassVar[bool] = False
    """Whether it runs a command that the file gives. One from outside the project then needs --trust."""

    def reads_with(self, params: Any) -> frozenset[Visible]:
        """What of `reads` it reads with these parameters; by default all. Only with parameters that read none of it is
        a check `deterministic`."""
        return self.reads

    def runs_file(self, params: Any) -> str | None:
        """The file of code that it runs on this machine, relative to the scenario: it needs --trust like a command, and
        agents cannot read it."""
        return None

    def script(self, params: Any) -> str | None:
        """The JavaScript that it has the trial's sandbox evaluate, so that a syntax error is found before the run."""
        return None

    async def evaluate(self, params: Any, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        """Check `result`. `params` is an instance of `self.params`.

        Return `passed`, `failed` or `inconclusive`. An exception makes the evaluation an *error*, never a failure of
        the agent.
        """
        ...

    def reads_text(self, params: Any) -> Spoken | None:
        """What it judges of what the agent said: its final `reply`, or all the messages of the `agent`.

        If a reader would see nothing of that, the check fails and `evaluate` is not called, unless the file says
        `empty_ok: true`. By default the reply for a `deterministic` check, else None.
        """
        return None

    def needs_judge(self, params: Any) -> bool:
        """Whether a check with these parameters uses `context.trial.judge`. It is only available if this is true."""
        return False

    def embeds_with(self, params: Any) -> str | None:
        """The model that it compares texts with, as `provider/model` or an alias. Such a check is not `deterministic`
        with these parameters."""
        return None

    def names_deeds(self, params: Any) -> Sequence[NamedDeed]:
        """The actions and service calls that a check with these parameters names, so that a name which nobody offers
        is found before the run."""
        return ()

    def on_text(self, params: Any) -> TextCheck | None:
        """The check as a function of the reply's text, if it reads nothing else.

        It can then be run on partial answers, to find the time from which it held.
        """
        return None

    def latency_bounds(self, params: Any) -> LatencyBounds | None:
        """The budget, if the check grades latency; its results then have the figures `latency_ms` and `tier`.

        A trial that lacks only this grade is measured again, `--enforce-deadline` cuts off at `critical_ms`, and
        reports show the tier.
        """
        return None


def text_read(evaluator: AnyEvaluator, params: Any) -> Spoken | None:
    declared = getattr(evaluator, "reads_text", None)
    if declared is None:
        return "reply" if deterministic(evaluator, params) else None
    return declared(params)


def reads_of(evaluator: AnyEvaluator, params: Any = None) -> frozenset[Visible]:
    declared = getattr(evaluator, "reads_with", None)
    if declared is not None and params is not None:
        return declared(params)
    found: frozenset[Visible] = getattr(evaluator, "reads", frozenset())
    return found


def only_forbids(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "only_forbids", False))


def fails_for_good(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "fails_for_good", False))


def deterministic(evaluator: AnyEvaluator, params: Any = None) -> bool:
    if not getattr(evaluator, "deterministic", False) or reads_of(evaluator, params):
        return False
    return params is None or embeds_with(evaluator, params) is None


def runs_commands(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "runs_commands", False))


def run_file(evaluator: AnyEvaluator, params: Any) -> str | None:
    declared = getattr(evaluator, "runs_file", None)
    return None if declared is None else declared(params)


def script_of(evaluator: AnyEvaluator, params: Any) -> str | None:
    declared = getattr(evaluator, "script", None)
    return None if declared is None else declared(params)


def explicit_judge_only(evaluator: AnyEvaluator) -> bool:
    return bool(getattr(evaluator, "explicit_judge_only", False))


def needs_judge(evaluator: AnyEvaluator, params: Any) -> bool:
    declared = getattr(evaluator, "needs_judge", None)
    return declared is not None and declared(params)


def embeds_with(evaluator: AnyEvaluator, params: Any) -> str | None:
    declared = getattr(evaluator, "embeds_with", None)
    return None if declared is None else declared(params)


def named_deeds(evaluator: AnyEvaluator, params: Any) -> tuple[NamedDeed, ...]:
    declared = getattr(evaluator, "names_deeds", None)
    return () if declared is None else tuple(declared(params))


def text_check(evaluator: AnyEvaluator, params: Any) -> TextCheck | None:
    declared = getattr(evaluator, "on_text", None)
    return None if declared is None else declared(params)


def latency_bounds(evaluator: AnyEvaluator, params: Any) -> LatencyBounds | None:
    declared = getattr(evaluator, "latency_bounds", None)
    return None if declared is None else declared(params)
