"""What we and the process of a `python:` agent may ask of each other, in one table, and our side of a trial: it answers
the calls that the agent makes on it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from steadyhand.builtin.agents.python_callable import CallLimits
from steadyhand.children.channel import Channel, MalformedMessage, read
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Addresses, Judgement, Question, Reply, TrialContext, Turn
from steadyhand.ports.environment import OnThisMachine
from steadyhand.ports.services import ServiceMethod
from steadyhand.records.base import Record, UnreadableValue, plain
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.event import AnyEvent, Event, Shows, told_by_agent
from steadyhand.records.result import CapturedFile, CommandResult
from steadyhand.records.scenario import Scenario


class Moment(Record, array_like=True):
    """One moment on three clocks, so that the child can compute the trial's time from its own `perf_counter`."""

    elapsed_ms: float
    now: float
    stamp: float


class ActionCard(Record, array_like=True):
    """A plugin's action without its code, which stays in our process."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""


class Opening(Record):
    """What an agent is told about its trial. `scenario` is pickled, which is safe because we send it, and has nothing
    that the trial is judged by. `variables` are set in its environment while the trial runs."""

    scenario: bytes
    trial_id: str
    seed: int
    live: bool
    environment: str
    sandboxed: bool
    on_this_machine: bool
    services: bool
    actions: tuple[ActionCard, ...] = ()
    database: bool = False
    judge: tuple[str, bool] | None = None
    addresses: Addresses = Addresses()
    variables: dict[str, str] = {}


class Present(Record, array_like=True):
    """What changes from turn to turn."""

    moment: Moment
    shows: Shows
    variables: dict[str, Any]


def portable(value: Any) -> Any:
    """A value as it is sent: plain, except that bytes, infinity and NaN are kept. Raises `UnreadableValue`."""
    return plain(value, keep=(bytes, float))


class Kept(Record, array_like=True):
    """A function that the child keeps under this number; or a model, which has a name."""

    number: int
    name: str = ""


class ThisTrial(Record, array_like=True):
    """Stands for the trial where a method takes it."""


class Verb(NamedTuple):
    """The types of its arguments and its result. The `keyword` arguments can only be passed by name."""

    arguments: type[msgspec.Struct]
    result: Any = Any
    keyword: tuple[str, ...] = ()
    posted: bool = False

    def packed(self, args: tuple[Any, ...], named: Mapping[str, Any], keep: Callable[[Any], int]) -> msgspec.Struct:
        """The arguments as they are sent. Raises `TypeError` if they do not fit, and `UnreadableValue`."""
        given = self.arguments(*args, **named)
        for field in msgspec.structs.fields(self.arguments):
            value: Any = getattr(given, field.name)
            if field.type is ThisTrial:
                value = ThisTrial()
            elif not isinstance(value, msgspec.Struct):
                convert: Callable[[Any], Any] = field.type if field.type in (str, bytes, bool) else portable
                value = Kept(number=keep(value)) if field.type is Kept else convert(value)
            setattr(given, field.name, value)
        return given

    async def answered(
        self, method: Callable[..., Any], given: msgspec.Struct, revived: Callable[[Any], Any] = lambda value: value
    ) -> Any:
        """The method's result, as it is sent. Raises what the method raises."""
        values = {name: revived(value) for name, value in msgspec.structs.asdict(given).items()}
        named = {name: values.pop(name) for name in self.keyword}
        found = await method(*values.values(), **named)
        if self.result is Any:
            return portable(found)
        return str(found) if found is not None and self.result in (str, str | None) else found


def _verb(result: Any = Any, *, keyword: tuple[str, ...] = (), posted: bool = False, **arguments: Any) -> Verb:
    """Of an argument that may be left out, the type comes with the default."""
    fields: list[Any] = [(name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in arguments.items()]
    return Verb(msgspec.defstruct("Arguments", fields, array_like=True), result, keyword, posted)


TRIAL_VERBS: Mapping[str, Verb] = {
    "trial.emit": _verb(posted=True, event=AnyEvent),
    "trial.call": _verb(ChatResponse, model=Kept, request=ChatRequest),
    "environment.run": _verb(
        CommandResult,
        keyword=("timeout_s", "stdin", "env"),
        command=Any,
        timeout_s=(Any, None),
        stdin=(Any, None),
        env=(Any, None),
    ),
    "environment.read": _verb(bytes | None, path=Any),
    "environment.write": _verb(path=Any, content=bytes),
    "environment.list_files": _verb(list[str]),
    "environment.capture": _verb(dict[str, CapturedFile]),
    "environment.folder": _verb(str),
    "services.offered": _verb(list[ServiceMethod]),
    "services.register_mock": _verb(posted=True, key=str, function=Kept),
    "services.call": _verb(service=str, method=str, args=list[Any], named=dict[str, Any]),
    "services.perform": _verb(keyword=("recorded",), action=str, params=dict[str, Any], recorded=(bool, False)),
    "services.broken": _verb(str | None),
    "judge.ask": _verb(Judgement, question=Question, trial=ThisTrial),
    "database.rows": _verb(keyword=("timeout_s",), sql=str, timeout_s=float),
}
"""What the agent may ask of its trial: a method of the trial itself, or of a part of it."""
AGENT_VERBS: Mapping[str, Verb] = {
    "load": _verb(list[str], target=str, folder=str, limits=CallLimits),
    "open": _verb(opening=Opening, present=Present),
    "respond": _verb(tuple[Reply, bool], turn=Turn, present=Present),
    "close": _verb(str),
    "attempt": _verb(ChatResponse, number=int, request=ChatRequest, zero=float),
    "mock": _verb(number=int, args=list[Any], named=dict[str, Any]),
}
"""What we ask of the process of an agent."""


class RemoteModel:
    """A chat model of the agent's own, or the stream of its reply: tried in the child, counted and timed here."""

    def __init__(self, channel: Channel, number: int, name: str) -> None:
        self._channel = channel
        self._number = number
        self.name: str = name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises `AgentError` for impossible times: before the call began or after it ended."""
        asked_ms = (time.perf_counter() - zero) * 1000.0
        answer = await self._channel.call("attempt", [self._number, request, zero])
        response: ChatResponse = read(answer, ChatResponse)
        answered_ms = (time.perf_counter() - zero) * 1000.0
        attempt = response.attempt
        stamps = (attempt.started_ms, attempt.sent_ms, attempt.first_token_ms, attempt.last_byte_ms)
        if not all(asked_ms - 1 <= stamp <= answered_ms + 1 for stamp in stamps if stamp is not None):
            raise AgentError("the times it gave for its reply are outside its turn")
        return response

    async def close(self) -> None:
        pass


class TrialRequests:
    """Answers the calls of one trial's agent."""

    def __init__(
        self, channel: Channel, trial: TrialContext, addresses: Addresses, variables: Mapping[str, str]
    ) -> None:
        """`addresses` are those of the agent's process, and `variables` are for its environment."""
        self._channel = channel
        self._trial = trial
        self._addresses = addresses
        self._variables = variables

    def opening(self) -> Opening:
        trial = self._trial
        services, judge = trial.services, trial.judge
        cards = services.actions.values() if services is not None else ()
        return Opening(
            scenario=pickle.dumps(_without_key(trial.scenario)),
            trial_id=trial.trial_id,
            seed=trial.seed,
            live=trial.live,
            environment=trial.environment.name,
            sandboxed=trial.environment.sandboxed,
            on_this_machine=isinstance(trial.environment, OnThisMachine),
            services=services is not None,
            actions=tuple(
                ActionCard(name=each.name, description=each.description, parameters=each.parameters, plugin=each.plugin)
                for each in cards
            ),
            database=trial.database is not None,
            judge=None if judge is None else (judge.name, judge.self_judged),
            addresses=self._addresses,
            variables=dict(self._variables),
        )

    def present(self) -> Present:
        trial = self._trial
        moment = Moment(elapsed_ms=trial.elapsed_ms(), now=trial.clock.now(), stamp=time.perf_counter())
        return Present(moment=moment, shows=trial.shows, variables=portable(trial.variables))

    def hear(self, name: str, payload: msgspec.Raw) -> None:
        """Handle a post. Raises `MalformedMessage`."""
        verb, method = self._method_of(name, posted=True)
        values = map(self._revived, msgspec.structs.astuple(read(payload, verb.arguments)))
        try:
            method(*(told_by_agent(value) if isinstance(value, Event) else value for value in values))
        except (UnreadableValue, TypeError) as error:
            raise MalformedMessage(f"malformed event: {error}") from error

    async def serve(self, name: str, payload: msgspec.Raw) -> Any:
        verb, method = self._method_of(name, posted=False)
        return await verb.answered(method, read(payload, verb.arguments), self._revived)

    def _method_of(self, name: str, *, posted: bool) -> tuple[Verb, Callable[..., Any]]:
        """Raises `MalformedMessage` for what is not in the table, and for a part that this trial does not have."""
        verb, (part, _, method) = TRIAL_VERBS.get(name), name.partition(".")
        asked = None if verb is None else self._trial if part == "trial" else getattr(self._trial, part)
        if verb is None or verb.posted is not posted or asked is None:
            raise MalformedMessage(f"unknown request {name!r}")
        return verb, getattr(asked, method)

    def _revived(self, value: Any) -> Any:
        match value:
            case ThisTrial():
                return self._trial
            case Kept():
                return RemoteModel(self._channel, value.number, value.name) if value.name else self._mock(value.number)
            case _:
                return value

    def _mock(self, number: int) -> Callable[..., Any]:
        async def answer(*args: Any, **named: Any) -> Any:
            return read(await self._channel.call("mock", [number, portable(args), portable(named)]))

        return answer


def _without_key(scenario: Scenario) -> Scenario:
    """The scenario as its agent may know it: nothing of what it will be asked or judged by."""
    return Scenario(
        id=scenario.id,
        name=scenario.name,
        description="",
        place=scenario.place,
        digest="",
        steps=(),
        environment=scenario.environment,
        character=scenario.character,
        context=scenario.context,
        domain=scenario.domain,
        tags=scenario.tags,
    )
