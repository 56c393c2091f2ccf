"""One trial in progress: what its parts may use, and what has happened so far."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import CoroutineType
from typing import Any, TypeVar, cast

import msgspec

from steadyhand.engine.limits import LagMonitor, SystemClock
from steadyhand.engine.model_call import Caller, OpenGate, RetryPolicy
from steadyhand.engine.prepared_check import PreparedCheck, PreparedStep, prepared_check
from steadyhand.errors import LimitExceeded, PluginError
from steadyhand.language.thoughts import DEFAULT_TAGS, Marks, marks_of
from steadyhand.ports.agent import (
    EVERYTHING_SEEN,
    Addresses,
    Agent,
    Gateway,
    Judge,
    Shows,
    TrialContext,
    UserSimulator,
    shows_of,
)
from steadyhand.ports.environment import Database, EnvironmentProvider, TrialDatabase
from steadyhand.ports.evaluator import AnyEvaluator
from steadyhand.ports.model import ChatModel, Clock, Gate
from steadyhand.ports.observer import EventSink
from steadyhand.ports.services import ScriptSandbox, Services
from steadyhand.records.base import check_fields, plain_fields, utc_now
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.config import Price
from steadyhand.records.evaluation import NOT_RUNNING, EvaluationSpec, LatencyTier, Material, RubricScore
from steadyhand.records.event import ActionTaken, AnyEvent, Event, Noted, Observed, ServiceCalled, Thought, ToolsOffered
from steadyhand.records.result import ConversationTurn, ExecutionResult
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import RunCode, Scenario, Step

TerminationFunction = Callable[[tuple[ConversationTurn, ...], TrialContext], "bool | str | Awaitable[bool | str]"]
"""A plugin's own condition for ending a conversation. A non-empty string means yes, and gives the reason."""

ScoreRubric = Callable[[Sequence[Material], LatencyTier | None, TrialContext], Awaitable[RubricScore]]
E = TypeVar("E", bound=AnyEvent)
_DONE = frozenset((ActionTaken, ServiceCalled))
_REPORTED = frozenset((ActionTaken, Observed, Thought, ToolsOffered))
"""What an agent tells of itself. Other events are ours."""
_NO_ADDRESSES = Addresses()


def no_termination_function(name: str) -> TerminationFunction:
    raise PluginError(f"no plugin provides the termination function {name!r}")


def no_price(model: str) -> Price | None:
    return None


class TrialParts(msgspec.Struct, kw_only=True):
    """A built trial: everything it needs, as objects rather than names.

    `enforce_deadline` cuts off a model's answer at `critical_ms` of its latency budget. `score_rubric` runs after all
    checks, with what a judge is shown of the last step and the latency tier. `missing_plugins` are named in the
    scenario but not installed: their actions and services were never offered to the agent.
    """

    scenario: Scenario
    key: TrialKey
    environment: EnvironmentProvider
    evaluator: Callable[[str], AnyEvaluator]
    agent: Agent | None = None
    judge: Judge | None = None
    embedders: Mapping[str, ChatModel] = msgspec.field(default_factory=dict[str, ChatModel])
    """The models that checks declare with `embeds_with`, as they name them."""
    user: UserSimulator | None = None
    services: Services | None = None
    gateway: Gateway | None = None
    database: TrialDatabase | None = None
    termination: Callable[[str], TerminationFunction] = no_termination_function
    model_name: str | None = None
    seed: int = 0
    live: bool = False
    clock: Clock = msgspec.field(default_factory=SystemClock)
    gate: Gate = msgspec.field(default_factory=OpenGate)
    lag: LagMonitor | None = None
    retry: RetryPolicy = msgspec.field(default_factory=RetryPolicy)
    sinks: Sequence[EventSink] = ()
    scripts: ScriptSandbox | None = None
    runs_files: bool = True
    """Whether checks may run code from files: not on a stored trial, for which nothing was trusted."""
    price_of: Callable[[str], Price | None] = no_price
    checks: dict[int, PreparedCheck] = msgspec.field(default_factory=dict["int", "PreparedCheck"])
    """By `id()` of a check's specification; shared by the trials of a run."""
    steps: dict[int, PreparedStep] = msgspec.field(default_factory=dict["int", "PreparedStep"])
    """By `id()` of a step; shared like `checks`."""
    doubts: Mapping[int, str] = msgspec.field(default_factory=dict[int, str])
    """Why the judge of a check may not decide it, keyed like `checks`."""
    notes: Sequence[str] = ()
    missing_plugins: Sequence[str] = ()
    enforce_deadline: bool = False
    thoughts: Marks | None = msgspec.field(default_factory=lambda: marks_of(DEFAULT_TAGS))
    """The marks around thoughts in the text of an answer; None if there are none."""
    judge_timeline: bool = False
    """Whether the judge may be asked about parts of an answer, to find when a check held that only it could decide."""
    score_rubric: ScoreRubric | None = None


class RunningTrial:
    """Implements `TrialContext` for the parts, and keeps the events for the record.

    `undecided` lists answers that were cut off through no fault of the model. With any of these, the trial cannot pass.
    `disturbances` lists limits that cannot be checked because this process was not running.
    `zero` is when the trial began, by its clock.
    """

    def __init__(self, parts: TrialParts) -> None:
        self.parts: TrialParts = parts
        self.scenario: Scenario = parts.scenario
        self.environment: EnvironmentProvider = parts.environment
        self.seed: int = parts.seed
        self.events: list[AnyEvent] = []
        self.undecided: list[str] = []
        self.disturbances: list[str] = []
        self._random: random.Random | None = None
        self.step: int | None = None
        self.turn: int | None = None
        self.addresses: Addresses = _NO_ADDRESSES
        self._raised_failure: Exception | None = None
        self.started_at: str = utc_now()
        self._now = parts.clock.now
        self.zero: float = self._now()
        self.caller: Caller = Caller(
            policy=parts.retry,
            gate=parts.gate,
            clock=parts.clock,
            lag=parts.lag,
            seed=parts.seed,
            now_ms=self.elapsed_ms,
            emit=self.emit,
        )

    @property
    def random(self) -> random.Random:
        """Seeded by the trial; created on first use, because few trials need it."""
        if self._random is None:
            self._random = random.Random(self.parts.seed)  # noqa: S311 - repeatability, not secrecy
        return self._random

    @property
    def trial_id(self) -> str:
        return str(self.parts.key)

    @property
    def clock(self) -> Clock:
        return self.parts.clock

    @property
    def services(self) -> Services | None:
        return self.parts.services

    @property
    def database(self) -> Database | None:
        return self.parts.database

    @property
    def judge(self) -> Judge | None:
        return self.parts.judge

    @property
    def scripts(self) -> ScriptSandbox | None:
        return self.parts.scripts

    def price_of(self, model: str) -> Price | None:
        return self.parts.price_of(model)

    @property
    def live(self) -> bool:
        return self.parts.live

    @property
    def asks_agent(self) -> bool:
        """Whether the current step is the agent's. A `code` step runs a program written by the scenario's author."""
        step = self.step
        return self.parts.agent is not None and (
            step is None or not isinstance(self.scenario.steps[step].task, RunCode)
        )

    @property
    def shows(self) -> Shows:
        agent = self.parts.agent
        return EVERYTHING_SEEN if agent is None or not self.asks_agent else self.shows_of(agent)

    def shows_of(self, agent: Agent) -> Shows:
        """What the agent declares, plus what was seen: an agent that called a service of the trial has its address."""
        shows = shows_of(agent)
        if (
            shows.on_report
            and shows.actions == "self_reported"
            and not any(type(each) in _DONE for each in self.events)
        ):
            shows = msgspec.structs.replace(shows, actions="not_seen")
        if self.parts.gateway is not None:
            shows = self.parts.gateway.shows(shows)
            if shows.services == "not_seen" and any(type(event) is ServiceCalled for event in self.events):
                shows = msgspec.structs.replace(shows, services="seen")
        if self.live and self.parts.database is not None and shows.acts:
            # A live trial uses the real database, and the agent may have access to it too.
            shows = msgspec.structs.replace(shows, database="seen")
        return shows

    @property
    def variables(self) -> Mapping[str, Any]:
        step = self.scenario.steps[self.step] if self.step is not None else None
        return {
            "scenario": self.scenario.name,
            "scenario_id": self.scenario.id,
            "step": step.name if step else None,
            "step_index": self.step,
            "turn": self.turn,
            "user_id": "user",
            "agent_id": self.parts.agent.name if self.parts.agent else None,
            **self.scenario.context,
        }

    def elapsed_ms(self) -> float:
        return ((self._now() - self.zero) * 1e6 + 0.5) // 1 / 1e3  # `ms_of`, two dozen times a trial

    def emit(self, event: AnyEvent) -> None:
        """Record an event, with the step and turn it happened in. External values in it are made plain.

        Raises `UnreadableValue` for values that cannot be, and `TypeError` for a wrong one in what an agent reports.
        """
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance] - a third-party agent may not follow the port
            raise TypeError(f"`emit` was given a {type(event).__name__}; expected an event, such as ActionTaken(...)")
        event = plain_fields(event)
        if type(event) in _REPORTED:
            check_fields(event)
        if event.step is None and self.step is not None:
            event = msgspec.structs.replace(event, step=self.step, turn=self.turn)
        self.events.append(event)
        for sink in self.parts.sinks:
            sink.emit(event)

    def prepared(self, spec: EvaluationSpec) -> PreparedCheck:
        """The check, prepared once for all trials of a run. Raises what its evaluator, or the lack of one, raises."""
        return self.parts.checks.get(id(spec)) or prepared_check(spec, self.parts.checks, self.parts.evaluator)

    def seen_by(self, check: PreparedCheck) -> TrialContext:
        """The trial as the check may use it: without the judge, unless the check declares that it needs one, and
        without the model under test as a judge if it declares that too."""
        judge = self.parts.judge
        if judge is None or (check.needs_judge and not (judge.self_judged and check.explicit_judge_only)):
            return self
        return cast("TrialContext", UnjudgedTrial(self))

    def prepared_step(self, step: Step) -> PreparedStep:
        """The step, prepared once for all trials of a run."""
        known = self.parts.steps.get(id(step))
        if known is None:
            known = self.parts.steps[id(step)] = PreparedStep(step, self.prepared)
        return known

    def warn(self, message: str) -> None:
        self.emit(Noted(at_ms=self.elapsed_ms(), message=message, level="warning"))

    def disturbed(self, doubt: str) -> None:
        """We were not running, and what that left undecided cannot be held against the agent: the trial is measured
        again, and is an error if that does not help."""
        self.disturbances.append(doubt)
        self.emit(Noted(at_ms=self.elapsed_ms(), message=doubt, level="warning", topic=NOT_RUNNING))

    def away_since(self, start_ms: float) -> tuple[tuple[float, float], ...]:
        """When this process was not running after `start_ms`, in milliseconds of the trial."""
        if self.parts.lag is None:
            return ()
        zero = self.zero
        if not (stalls := self.parts.lag.long_stalls(zero + start_ms / 1000.0)):
            return ()
        return tuple([((began - zero) * 1000.0, (ended - zero) * 1000.0) for began, ended in stalls])

    def since(self, mark: int, kind: type[E]) -> list[E]:
        """The events of one kind since `mark`, an earlier `len(events)`."""
        return [event for event in self.events[mark:] if type(event) is kind]

    async def raise_broken(self) -> None:
        """Raise the error of a broken mock or plugin, once. It is an error of the trial even if the agent caught it."""
        services = self.parts.services
        broken = None if services is None else await services.broken()
        if broken is not None and broken is not self._raised_failure:
            self._raised_failure = broken
            raise broken

    def call(self, model: ChatModel, request: ChatRequest) -> CoroutineType[Any, Any, ChatResponse]:
        return self.caller.call(model, request)


class UnjudgedTrial:
    """A trial without its judge, for checks that do not declare that they need one."""

    judge: None = None

    def __init__(self, trial: RunningTrial) -> None:
        self._trial: RunningTrial = trial

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trial, name)


class StepResult:
    """`limit` is set if the step ran out of time, which means that it failed."""

    def __init__(self, step: Step, result: ExecutionResult, limit: LimitExceeded | None = None) -> None:
        self.step: Step = step
        self.result: ExecutionResult = result
        self.limit: LimitExceeded | None = limit
