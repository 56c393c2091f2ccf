"""What is under test."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from steadyhand.ports.environment import EnvironmentProvider, TrialDatabase
from steadyhand.ports.model import ChatModel, Clock
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.records.evaluation import JudgeNote, Material, Rubric, RubricScore
from steadyhand.records.event import EVERYTHING_SEEN, AnyEvent, Shows, Sight, Visible
from steadyhand.records.location import Place
from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import Scenario, UserSimulatorConfig

if TYPE_CHECKING:
    from steadyhand.ports.environment import Database


__all__ = ["EVERYTHING_SEEN", "Agent", "Reply", "Shows", "Sight", "TrialContext", "Turn", "Visible", "shows_of"]


class Turn(Record):
    """What the agent is asked now: the whole exchange so far, ending with the user's message.

    `cut_after_ms` is for `ChatRequest.cut_after_ms` of an agent whose turn is one model call; others leave it.
    """

    messages: tuple[Message, ...]
    number: int = 1
    deadline: float | None = None
    cut_after_ms: float | None = None


class Reply(Record):
    """What the agent says at the end of its turn.

    `duration_ms` is the agent's own time for the turn, set when part of `respond` was ours: reading up what it did.
    """

    text: str
    duration_ms: float | None = None


class TrialContext(Protocol):
    """What a trial offers to the parts that take part in it."""

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
        """Who judges; None when nobody was named and the agent has no model of its own."""
        ...

    @property
    def services(self) -> Services | None:
        """The services and actions of this trial; None where nobody built any."""
        ...

    @property
    def database(self) -> Database | None:
        """The trial's database; None when the scenario sets none up."""
        ...

    @property
    def addresses(self) -> Addresses:
        """Where an agent that is not ours reaches this trial; none without a gateway."""
        ...

    @property
    def live(self) -> bool:
        """Whether mocks and seeding are to be ignored."""
        ...

    @property
    def shows(self) -> Shows:
        """What can be seen of what is done in the present step: by its agent or, in a `code` step, by its program."""
        ...

    @property
    def variables(self) -> Mapping[str, Any]:
        """What mocks match `context` against: scenario, step, turn, ids, and the scenario's own `context`."""
        ...

    def elapsed_ms(self) -> float:
        """Milliseconds since the trial began; what `at_ms` of an event is set to."""
        ...

    def emit(self, event: AnyEvent) -> None: ...

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        """Ask a model: queued, retried, timed and recorded. Raises `ModelError` when all attempts failed."""
        ...


class Agent(Protocol):
    """Opened for a trial, answers turns, closed. One instance serves one trial. It may declare `AgentFacts`.

    `respond` raises `AgentError` or `ModelError` when it could not answer; what it did on the way it reports through
    `TrialContext.emit`.
    """

    @property
    def name(self) -> str:
        """What reports call it, such as `model:openai/gpt`."""
        ...

    async def open(self, trial: TrialContext) -> None: ...

    async def respond(self, turn: Turn) -> Reply: ...

    async def close(self) -> None:
        """Safe to call twice, and after a failed `open`."""
        ...


class AgentFacts(NamedTuple):
    """What an agent declares, as attributes of these names; each may be left out."""

    shows: Shows = Shows()
    """What it lets us see of what it does. An agent that declares nothing shows nothing but its reply: a check on what
    it did is inconclusive until its author says that silence means it was not done."""

    uses_plugins: bool = True
    """Whether it gets its tools from the scenario's plugins. One that brings its own misses nothing when a plugin is
    missing here."""

    uses_network: bool = False
    """Whether our event loop talks to it over the network. Its factory, usually its class, declares this."""

    runs_target: bool = True
    """Whether its target, what stands after the `:` of its name, is code that runs on this machine. One from outside
    the project then needs --trust. Its factory declares this; one that takes a URL says False."""

    key_variable: str = ""
    """The variable of the key that it sends to its target unless another one is configured. Its factory declares this.
    No such key is sent where a scenario chose the target, and the user is told."""

    uses_gateway: bool = False
    """Whether it tells its program the addresses of the trial, so that what the program asks of models, services and
    mocks goes through us. Its factory declares this."""

    closes_at_once: bool = False
    """Whether `close`, as the agent stands, waits for nothing."""


def agent_facts(agent: object) -> AgentFacts:
    """What the agent, or the factory, declares; the defaults for what it does not."""
    return AgentFacts(*(getattr(agent, name, default) for name, default in AgentFacts._field_defaults.items()))


def shows_of(agent: Agent) -> Shows:
    return agent_facts(agent).shows


class Question(Record):
    """What to judge. `json_schema` replaces the answer's own schema; `votes` is how often to ask.

    `unseen` is what the materials cannot show of what was done. The judge fills it in from the trial, and says whether
    its answer depends on it.
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
    """The judge's word, validated. `fields` is the whole object it answered with.

    `confidence` is how sure the judge is that the answer is yes: 0 certainly no, 1 certainly yes. `needs_unseen` says
    that the answer depends on what could not be shown: `Question.unseen`.
    """

    judgment: str
    note: JudgeNote
    confidence: float | None = None
    reasoning: str = ""
    achieved: dict[str, bool] = {}
    fields: dict[str, Any] = {}
    needs_unseen: bool = False


class NoJudgement(Exception):
    """There is no judgement to be had: no judge, an outage, or an answer that stayed unreadable. Inconclusive."""

    def __init__(self, reason: str, *, note: JudgeNote | None = None) -> None:
        super().__init__(reason)
        self.note: JudgeNote | None = note


class Judge(Protocol):
    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    def self_judged(self) -> bool:
        """Whether the model under test is its own judge."""
        ...

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        """Raises `NoJudgement`."""
        ...


def instructions_digest(judge: Judge) -> str:
    """A digest of how the judge words its questions: its attribute of this name, else empty.

    A calibration holds only for the wording it was made with, so a judge with a wording of its own declares it.
    """
    return str(getattr(judge, "instructions_digest", ""))


@runtime_checkable
class RubricJudge(Protocol):
    """A judge that can score rubrics offers this too; with one that does not, rubrics are not scored."""

    async def score(
        self, rubric: Rubric, materials: Sequence[Material], trial: TrialContext, *, timeliness: float | None
    ) -> RubricScore:
        """Score the reply by the rubric. `timeliness` is the clock's own score, None when latency was not graded.

        Never raises for what a model answers: a score that could not be had is absent, and `reason` says why.
        """
        ...


class ActionContext:
    """What an action may use: the trial it runs in, its services, and its plugin's `config`."""

    def __init__(self, *, trial: TrialContext, services: Services, config: Mapping[str, Any]) -> None:
        self.trial: TrialContext = trial
        self.config: Mapping[str, Any] = config
        self._services: Services = services

    def get_service(self, name: str) -> Any:
        """An object whose methods are the service's, as coroutines; mocked or real, every call an event."""
        return self._services.get_service(name)


ActionHandler = Callable[[dict[str, Any], ActionContext], Any | Awaitable[Any]]


class Action(Record):
    """`parameters` is a JSON Schema of an object, empty for any object; what an agent sends is checked against it
    before `handler` runs.

    The handler, a coroutine or a plain function (run in a thread), answers with something that JSON can hold. To
    refuse, it raises `ports.services.ServiceFault`, which the agent gets to read; anything else it raises is the
    plugin's fault and ends the trial as an error. `plugin` and `config` are filled in by the registry.
    """

    name: str
    handler: ActionHandler
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""
    config: Mapping[str, Any] = {}


MockFunction = Callable[..., Any | Awaitable[Any]]


class ServiceFault(Exception):
    """A service answered with an error, real or simulated. It is the agent's to deal with, never a trial error.

    `mock` is the mock that simulated it, None when it is real.
    """

    def __init__(
        self, message: str, *, code: str | None = None, status: int | None = None, mock: Place | None = None
    ) -> None:
        super().__init__(message)
        self.code: str | None = code
        self.status: int | None = status
        self.mock: Place | None = mock


class ProvidedService(Record):
    """A service that somebody provides: `build` makes it, anew for each trial, when it is first called.

    With `tools`, its public methods are offered to the built-in agent.
    """

    build: Callable[[], Any]
    plugin: str
    tools: bool = False


class ServiceMethod(Record):
    """A service's method that an agent may call directly. `service` is empty for a mock that covers every service."""

    service: str
    method: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Services(Protocol):
    """One per trial; opened in the set-up phase and closed in tear-down."""

    async def open(self, trial: TrialContext) -> None: ...

    @property
    def actions(self) -> Mapping[str, Action]:
        """The plugins' actions, by name."""
        ...

    async def perform(self, action: str, params: dict[str, Any], *, recorded: bool = False) -> Any:
        """Run an action. `params` already fit its schema. It is an event, unless the caller has it `recorded` itself.

        Raises `ServiceFault`, or the `TrialError` it ended in.
        """
        ...

    async def offered(self) -> Sequence[ServiceMethod]:
        """The methods an agent may call without an action: mocked ones that nobody provides, and those of services
        whose plugin says so."""
        ...

    def get_service(self, name: str) -> Any:
        """An object whose methods are the service's, as coroutines. A name that nobody provides still answers: each
        call is matched against the mocks, and what none matches raises `ServiceFault`."""
        ...

    def register_mock(self, key: str, function: MockFunction) -> None:
        """Answer calls of `service.method` with the function."""
        ...

    async def call(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a method: mocks first, then the real service. Raises `ServiceFault`, `MockError` or `PluginError`."""
        ...

    async def broken(self) -> Exception | None:
        """The first failure of a mock or plugin in this trial, also one that its caller caught.

        It is an error of the trial; a `ServiceFault` is not. Waits for a mock's JavaScript that its caller gave up on.
        """
        ...

    async def close(self) -> None: ...


class Addresses(Record):
    """Where an agent that is not ours reaches its trial.

    `names` are what a mapping in the configuration may use (`openai_base_url`); `variables` are those that are set in
    the agent's environment anyway. `token` is what tells these addresses from those of other trials.
    """

    token: str = ""
    names: dict[str, str] = {}
    variables: dict[str, str] = {}

    def traceparent(self, turn: int) -> str | None:
        """The W3C trace context of the trial's n-th turn, 0 for the whole trial; None where no trace is received."""
        trace_id = self.names.get("trace_id")
        return None if trace_id is None else f"00-{trace_id}-{turn_span_id(trace_id, turn)}-01"


def turn_span_id(trace_id: str, turn: int) -> str:
    """The span that stands for a turn of ours."""
    return hashlib.sha256(f"{trace_id} {turn}".encode()).hexdigest()[:16]


class Gateway(Protocol):
    """How an agent that is not ours reaches its trial. One per trial; opened before the agent and closed after it."""

    async def open(self, trial: TrialContext) -> Addresses: ...

    async def settle(self) -> None:
        """The agent has ended a turn: wait, for a bounded time, for what it still has to tell."""
        ...

    def shows(self, declared: Shows) -> Shows:
        """What can be seen of the agent, given what it declares and what has come of it here."""
        ...

    async def close(self) -> None:
        """Nothing reaches the trial from here on. Safe to call twice, and after a failed `open`."""
        ...

    def doubts(self) -> tuple[str, ...]:
        """After `close`: what was told of the agent's actions too late for the checks on them."""
        ...


class StandingAddresses(Protocol):
    """Gives out addresses that outlive a trial, for a program that reads them once and then serves many."""

    def standing(self, model: ChatModel | None) -> Addresses:
        """Addresses that lead nowhere until they are pointed at a trial."""
        ...

    def point(self, standing: Addresses, trial: TrialContext | None) -> None:
        """Let the addresses lead to this trial, or nowhere. They stop leading to a trial when it ends."""
        ...


ASKED_AGAIN = "simulated_user_asked_again"
"""Topic of the note that a simulated reply was refused. Its `figures` have the `reason`, and `kept: true` when the
second try was no better and was used all the same."""


class UserSimulator(Protocol):
    """Speaks for the user. One instance serves one trial."""

    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        """The user's next message; with an empty `history`, the first one.

        Raises a `TrialError`, such as `ModelError`, when there is none to be had. A reply that had to be asked for
        again is told by a `Noted` event with the topic `ASKED_AGAIN`.
        """
        ...


class OfferedDatabase(TrialDatabase, Protocol):
    """A trial's database that the agent is offered as a service too."""

    def service(self) -> ProvidedService: ...


class ScriptSandbox(Protocol):
    """No I/O, no access to Python, bounded time and memory. Values go in and out as JSON."""

    async def evaluate(
        self, expression: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The value of an expression over the variables, which it can read but not change.

        `seed` makes `Math.random` repeatable, `now_ms` stops the clock at that moment. Raises `MockError` when it
        throws or exceeds a limit.
        """
        ...

    async def call(
        self, function: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The result of a function called with the variables' values, in their order. Raises `MockError`."""
        ...

    def check(self, source: str) -> str | None:
        """What is wrong with the source's syntax, or None."""
        ...

    def close(self) -> None: ...
