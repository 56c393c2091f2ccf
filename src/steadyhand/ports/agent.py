"""The agent under test, and its trial, judge, gateway and user. `services.py` has the services that it acts through."""

from __future__ import annotations

import hashlib
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel, Clock
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.records.config import Price
from steadyhand.records.evaluation import JudgeNote, Material, Rubric, RubricScore
from steadyhand.records.event import EVERYTHING_SEEN, AnyEvent, Shows, Sight, Visible
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import Scenario, UserSimulatorConfig

if TYPE_CHECKING:
    from steadyhand.ports.environment import Database
    from steadyhand.ports.services import ScriptSandbox, Services


__all__ = ["EVERYTHING_SEEN", "Agent", "Reply", "Shows", "Sight", "TrialContext", "Turn", "Visible", "shows_of"]


class Turn(Record):
    """What the agent must answer: the whole exchange so far, ending with the user's message.

    `cut_after_ms` is for an agent whose turn is one model call, as `ChatRequest.cut_after_ms`; others ignore it.
    """

    messages: tuple[Message, ...]
    number: int = 1
    deadline: float | None = None
    cut_after_ms: float | None = None


class Reply(Record):
    """What the agent says at the end of its turn.

    `duration_ms` is the agent's own time for the turn. Set it if `respond` includes time of ours, such as fetching a
    log of what the agent did. It is not used from a `python:` agent, which is itself under test.
    """

    text: str
    duration_ms: float | None = None


class TrialContext(Protocol):
    """What a trial offers to its parts."""

    @property
    def scenario(self) -> Scenario: ...

    @property
    def trial_id(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def random(self) -> random.Random:
        """The trial's seeded generator."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def environment(self) -> EnvironmentProvider: ...

    @property
    def judge(self) -> Judge | None:
        """The judge; None if none was named and the agent has no model of its own."""
        ...

    @property
    def services(self) -> Services | None:
        """The services and actions of this trial, or None."""
        ...

    @property
    def database(self) -> Database | None:
        """The trial's database; None if the scenario sets up none."""
        ...

    @property
    def scripts(self) -> ScriptSandbox | None:
        """Where the JavaScript of checks runs; None if no check of the run has any."""
        ...

    def price_of(self, model: str) -> Price | None:
        """The price of `provider/model`; None if it is not known."""
        ...

    @property
    def addresses(self) -> Addresses:
        """The addresses at which an external agent reaches this trial; empty without a gateway."""
        ...

    @property
    def live(self) -> bool:
        """Whether mocks and seeding are ignored."""
        ...

    @property
    def shows(self) -> Shows:
        """What can be seen of the actions in the current step, by its agent or, in a `code` step, its program."""
        ...

    @property
    def variables(self) -> Mapping[str, Any]:
        """What the `context` of mocks is matched against: scenario, step, turn, ids and the scenario's `context`."""
        ...

    def elapsed_ms(self) -> float:
        """Milliseconds since the trial began, for `at_ms` of events."""
        ...

    def emit(self, event: AnyEvent) -> None: ...

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        """Ask a model: queued, retried, timed and recorded. Raises `ModelError` if all attempts fail."""
        ...


class Agent(Protocol):
    """One instance serves one trial: it is opened, answers turns, and is closed. It may declare `AgentFacts`.

    `respond` raises `AgentError` or `ModelError` if it cannot answer. It reports its actions through
    `TrialContext.emit`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in reports, such as `model:openai/gpt`."""
        ...

    async def open(self, trial: TrialContext) -> None: ...

    @abstractmethod
    async def respond(self, turn: Turn) -> Reply: ...

    async def close(self) -> None:
        """Safe to call twice, and after a failed `open`."""
        ...


class AgentFacts(NamedTuple):
    """What an agent declares, as attributes of these names. All are optional."""

    shows: Shows = Shows()
    """What we can see of its actions. By default only its reply: checks on its actions are inconclusive until its
    author declares that silence means inaction."""

    uses_plugins: bool = True
    """Whether it gets its tools from the scenario's plugins. An agent with its own tools is not affected by a missing
    plugin."""

    uses_network: bool = False
    """Whether our event loop talks to it over the network. Declared by its factory, usually its class."""

    runs_target: bool = True
    """Whether its target, the part after the `:` of its name, is code that runs on this machine. An agent from outside
    the project then needs --trust. Its factory declares this; one that takes a URL sets it to False."""

    names_python: bool = False
    """Whether its target is `file.py:name` or `module:name`. A resume then looks for changes in what that imports as
    well, and not only in the files that the target names. Its factory declares this."""

    key_variable: str = ""
    """The variable of the key that it sends to its target unless another one is configured. Its factory declares this.
    The key is not sent if a scenario chose the target, and the user gets a message."""

    uses_gateway: bool = False
    """Whether it gives its program the addresses of the trial, so that its calls to models, services and mocks go
    through the gateway. Its factory declares this."""

    closes_at_once: bool = False
    """Whether `close`, in the agent's current state, returns without waiting."""

    asks_model: Literal["once", "repeatedly", "unknown"] = "unknown"
    """How often it asks the model under test in a turn, for the estimate of --dry-run: once, or once and possibly more
    often. Its factory declares this."""

    own_tools: tuple[str, ...] | None = None
    """The names of the tools that it may have besides the trial's actions and services, if there are no others. By
    default they are not known. Its factory declares this."""

    isolation: IsolationKind | None = None
    """What keeps its process from what the trial is judged by; None if we start no process for it."""

    opened_key_files: tuple[str, ...] = ()
    """What its process was seen to open of what the trial is judged by. The trial is then inconclusive."""


def agent_facts(agent: object) -> AgentFacts:
    """What the agent or factory declares, with defaults for the rest."""
    return AgentFacts(*(getattr(agent, name, default) for name, default in AgentFacts._field_defaults.items()))


_NOT_DECLARED = AgentFacts()


def shows_of(agent: Agent) -> Shows:
    shows: Shows = getattr(agent, "shows", _NOT_DECLARED.shows)
    return shows


def closes_at_once(part: Agent | EnvironmentProvider) -> bool:
    """Whether `close` or `teardown`, in its current state, returns without waiting: the attribute of this name, or
    False."""
    return bool(getattr(part, "closes_at_once", _NOT_DECLARED.closes_at_once))


def reserve_workspaces(agent: Agent | None) -> Path | None:
    """The folder that its trial's workspace has to be in, which is kept for it until `close`; None for any.

    An agent whose process is already running and sees one folder has a method of this name.
    """
    reserve: Callable[[], Path | None] | None = getattr(agent, "reserve_workspaces", None)
    return None if reserve is None else reserve()


class Question(Record):
    """What to judge. `json_schema` replaces our answer schema; `votes` is the number of times to ask.

    `unseen` is the part of the agent's actions that the materials cannot show. The judge fills it in from the trial,
    and says whether its answer depends on it.
    """

    prompt: str
    materials: tuple[Material, ...]
    capabilities: tuple[str, ...] = ()
    json_schema: dict[str, Any] | None = None
    model_type: str | None = None
    temperature: float | None = None
    votes: int | None = None
    unseen: tuple[Visible, ...] = ()


class Judgement(Record):
    """The judge's validated answer. `fields` is the whole object.

    `confidence` is how sure the judge is that the answer is yes: 0 certainly no, 1 certainly yes. `needs_unseen` means
    that the answer depends on `Question.unseen`.
    """

    judgment: str
    note: JudgeNote
    confidence: float | None = None
    reasoning: str = ""
    achieved: dict[str, bool] = {}
    fields: dict[str, Any] = {}
    needs_unseen: bool = False


class NoJudgement(Exception):
    """There is no judgement: no judge, an outage, or an unreadable answer. The check is inconclusive."""

    def __init__(self, reason: str, *, note: JudgeNote | None = None) -> None:
        super().__init__(reason)
        self.note: JudgeNote | None = note


class Judge(Protocol):
    @property
    @abstractmethod
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    @abstractmethod
    def self_judged(self) -> bool:
        """Whether the model under test judges itself."""
        ...

    @abstractmethod
    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        """Raises `NoJudgement`."""
        ...


def warm_up(judge: Judge | None) -> None:
    """Have the judge load what it will need, if it declares a method of this name: called before anything is timed."""
    declared = getattr(judge, "warm_up", None)
    if declared is not None:
        declared()


def instructions_digest(judge: Judge) -> str:
    """A digest of how the judge words its questions: its attribute of this name, else empty.

    A calibration is valid only for the prompt it was made with, so a judge with its own prompt declares it.
    """
    return str(getattr(judge, "instructions_digest", ""))


@runtime_checkable
class RubricJudge(Protocol):
    """A judge that can also score rubrics. Without one, rubrics are not scored."""

    async def score(
        self, rubric: Rubric, materials: Sequence[Material], trial: TrialContext, *, timeliness: float | None
    ) -> RubricScore:
        """Score the reply by the rubric. `timeliness` is the score for latency, None if that was not graded.

        Never raises for a model's answer: a score that could not be determined is missing, and `reason` says why.
        """
        ...


class Addresses(Record):
    """The addresses at which an external agent reaches its trial.

    `names` are what a mapping in the configuration may use (`openai_base_url`); `variables` are those that are set in
    the agent's environment anyway. `token` distinguishes these addresses from those of other trials.
    """

    token: str = ""
    names: dict[str, str] = {}
    variables: dict[str, str] = {}

    def traceparent(self, turn: int) -> str | None:
        """The W3C trace context of the trial's n-th turn, 0 for the whole trial; None if traces are not received."""
        trace_id = self.names.get("trace_id")
        return None if trace_id is None else f"00-{trace_id}-{turn_span_id(trace_id, turn)}-01"


def turn_span_id(trace_id: str, turn: int) -> str:
    """The span that represents one of our turns."""
    return hashlib.sha256(f"{trace_id} {turn}".encode()).hexdigest()[:16]


class Gateway(Protocol):
    """The gateway between an external agent and its trial. One per trial; opened before the agent and closed after
    it."""

    async def open(self, trial: TrialContext) -> Addresses: ...

    async def hear_out(self) -> None:
        """The agent has replied: let the model calls end that it disconnected from, without waiting for others."""
        ...

    async def settle(self) -> None:
        """The agent has ended a turn: wait, for a limited time, for outstanding reports."""
        ...

    def shows(self, declared: Shows) -> Shows:
        """What can be seen of the agent, given what it declares and what has been received."""
        ...

    async def close(self) -> None:
        """Nothing reaches the trial from here on. Safe to call twice, and after a failed `open`."""
        ...

    def doubts(self) -> tuple[str, ...]:
        """After `close`: actions that were reported too late for the checks on them."""
        ...


class AgentProcess(NamedTuple):
    """The process of an agent that we started. `mark` is on everything that it starts; see `children/daemons.py`."""

    pid: int
    mark: str


class ReusableAddresses(Protocol):
    """Provides addresses that outlive a trial, for a program that reads them once and then serves many trials, and
    keeps the addresses of agents that we start from being used by others."""

    def reusable(self, model: ChatModel | None) -> Addresses:
        """Addresses that are inactive until they are assigned to a trial."""
        ...

    def point(self, reusable: Addresses, trial: TrialContext, process: AgentProcess) -> Addresses:
        """Assign the addresses to this trial, which the process serves from now on. Returns them with what else this
        trial has, such as its trace id. They become inactive when the trial ends."""
        ...

    def rest(self, reusable: Addresses) -> None:
        """The process that has these addresses serves no trial."""
        ...

    def expect(self, trial: TrialContext) -> None:
        """A process for this trial is being started. Its requests wait until it is named with `claim`."""
        ...

    def claim(self, trial: TrialContext, process: AgentProcess) -> None:
        """From now on the trial's addresses are only for this process and what it starts."""
        ...


ASKED_AGAIN = "simulated_user_asked_again"
"""Topic of the note that a simulated reply was rejected. Its `figures` have the `reason`, and `kept: true` if the
second attempt was no better and was used anyway."""


class UserSimulator(Protocol):
    """Plays the user. One instance serves one trial. Its factory may declare `needs_model`."""

    @abstractmethod
    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        """The user's next message; with an empty `history`, the first one.

        Raises a `TrialError`, such as `ModelError`, if there is none. A reply that was requested again is recorded as a
        `Noted` event with the topic `ASKED_AGAIN`.
        """
        ...


def user_needs_model(factory: object) -> bool:
    """Whether it takes a chat model to play the user: the factory's attribute `needs_model`, or True."""
    return bool(getattr(factory, "needs_model", True))
