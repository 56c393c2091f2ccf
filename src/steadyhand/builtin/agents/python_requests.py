"""Our side of a trial whose agent runs in a child process: answers the calls that the agent makes on its trial."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.builtin.agents.python_wire import ActionCard, Moment, Opening, Present, portable
from steadyhand.children.channel import Channel, MalformedMessage, read
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Addresses, Judgement, Question, TrialContext
from steadyhand.ports.environment import OnThisMachine
from steadyhand.records.base import UnreadableValue
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.event import AnyEvent
from steadyhand.records.scenario import Scenario

_ENVIRONMENT = frozenset({"run", "read", "write", "list_files", "capture", "folder"})


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
        match name:
            case "event":
                event: AnyEvent = read(payload, AnyEvent)
                try:
                    self._trial.emit(event)
                except UnreadableValue as error:
                    raise MalformedMessage(f"malformed event: {error}") from error
            case "export":
                self._trial.environment.export(read(payload, dict[str, str]))
            case "register_mock":
                key, number = read(payload, tuple[str, int])
                if self._trial.services is not None:
                    self._trial.services.register_mock(key, self._mock(number))
            case _:
                raise MalformedMessage(f"unknown post {name!r}")

    def _mock(self, number: int) -> Callable[..., Any]:
        async def answer(*args: Any, **named: Any) -> Any:
            return read(await self._channel.call("mock", [number, portable(args), portable(named)]))

        return answer

    async def serve(self, name: str, payload: msgspec.Raw) -> Any:
        trial, services = self._trial, self._trial.services
        match name:
            case "environment":
                return await self._environment(*read(payload, tuple[str, list[Any], dict[str, Any]]))
            case "call":
                number, model, request = read(payload, tuple[int, str, ChatRequest])
                return await trial.call(RemoteModel(self._channel, number, model), request)
            case "judge" if trial.judge is not None:
                question: Question = read(payload, Question)
                found: Judgement = await trial.judge.ask(question, trial)
                return found
            case "rows" if trial.database is not None:
                sql, timeout_s = read(payload, tuple[str, float])
                return portable(await trial.database.rows(sql, timeout_s=timeout_s))
            case "service" if services is not None:
                service, method, args, named = read(payload, tuple[str, str, list[Any], dict[str, Any]])
                return portable(await services.call(service, method, args, named))
            case "perform" if services is not None:
                action, params, recorded = read(payload, tuple[str, dict[str, Any], bool])
                return portable(await services.perform(action, params, recorded=recorded))
            case "offered" if services is not None:
                return list(await services.offered())
            case "broken" if services is not None:
                broken = await services.broken()
                return None if broken is None else str(broken)
            case _:
                raise MalformedMessage(f"unknown call {name!r}")

    async def _environment(self, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        if method not in _ENVIRONMENT:
            raise MalformedMessage(f"unknown environment call {method!r}")
        found = await getattr(self._trial.environment, method)(*args, **named)
        return str(found) if isinstance(found, Path) else found


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
