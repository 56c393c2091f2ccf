"""The `elizaos` agent: an agent on a running ElizaOS server, reached through its REST API.

Tested against version 1.7.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from urllib.parse import unquote, urldefrag, urlsplit

from pydantic import Field

from steadyhand.builtin.agents.addresses import filled_addresses, limit_of, reached_through, shown_url
from steadyhand.builtin.agents.elizaos_api import AUTH_VARIABLE, ElizaosApi
from steadyhand.builtin.agents.options import TimedOptions
from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.errors import AgentError, SetupError
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import Addresses, Reply, Shows, TrialContext, Turn

_READY_S = 30.0
_RUN_S = 10.0
_LOOK_AGAIN_S = 0.1
_COPIED = (
    "name", "username", "system", "bio", "messageExamples", "postExamples", "topics", "adjectives", "knowledge",
    "plugins", "settings", "style", "templates",
)  # fmt: skip
"""The fields that define an agent; the server's other fields are its own."""
_COPY = "57ead9a9-"
"""The prefix of the ids of our copies, which have the same name as the original agent."""


def report_run(events: Sequence[dict[str, Any]], reporter: TrajectoryReporter, *, started_ms: float) -> None:
    """Report what the run did, in order. `started_ms` is when the run began, in milliseconds of the trial.

    An action without an end is reported as failed.
    """
    begun: list[tuple[str, float | None]] = []
    models: list[str] = []
    zero = next((at for event in events if (at := _time(event)) is not None), None)

    def at_ms(moment: float | None) -> float:
        return started_ms if moment is None or zero is None else started_ms + max(0.0, moment - zero)

    for event in events:
        data = _data(event)
        match event.get("type"):
            case "ACTION_STARTED":
                begun.append((_name(data), _time(event)))
            case "ACTION_COMPLETED":
                name = _name(data)
                start = _take(begun, name)
                end = _time(event)
                duration = end - start if start is not None and end is not None else 0.0
                failed = data.get("success", True) is not True
                params = data.get("params")
                reporter.action(
                    name,
                    cast("dict[str, Any]", params) if isinstance(params, dict) else {},
                    status="error" if failed else "success",
                    duration_ms=max(0.0, duration),
                    at_ms=at_ms(start if start is not None else end),
                )
                reporter.observation(name, data.get("result", data.get("error")), at_ms=at_ms(end))
            case "MODEL_USED":
                took = data.get("executionTime")
                time = f"{took:.0f} ms" if isinstance(took, int | float) else "time unknown"
                models.append(f"{data.get('modelType', 'a model')} ({time})")
            case _:
                pass
    for name, start in begun:
        reporter.action(name, {}, status="error", at_ms=at_ms(start))
        reporter.observation(name, "it started but did not finish", at_ms=at_ms(start))
    if models:
        reporter.note(f"model calls inside ElizaOS, as it reports them: {', '.join(models)}")


def ended(events: Sequence[dict[str, Any]]) -> bool:
    """Whether the list reaches to the end of the run: without that, actions may be missing from it."""
    return any(event.get("type") == "RUN_ENDED" for event in events)


def unfinished(events: Sequence[dict[str, Any]]) -> bool:
    """Whether some action, or the run, has no end yet."""
    types = [event.get("type") for event in events]
    return types.count("ACTION_STARTED") > types.count("ACTION_COMPLETED") or not ended(events)


def _take(begun: list[tuple[str, float | None]], name: str) -> float | None:
    """When the oldest unfinished action of this name began."""
    for index, (known, start) in enumerate(begun):
        if known == name:
            del begun[index]
            return start
    return None


def _data(event: dict[str, Any]) -> dict[str, Any]:
    data = event.get("data")
    return cast("dict[str, Any]", data) if isinstance(data, dict) else event


def _name(data: dict[str, Any]) -> str:
    return str(data.get("actionName") or "unnamed action")


def _time(event: dict[str, Any]) -> float | None:
    time = event.get("timestamp")
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None


class ElizaosOptions(TimedOptions):
    """With `settings`, each trial has its own agent: a copy of the one on the server, with these settings merged in.
    `{name}` in them is replaced by an address of the trial. `settle_s` is how long to wait for the copy to connect,
    because the server reports an agent as active before that is done."""

    settings: dict[str, Any] = {}
    settle_s: float = Field(default=5.0, ge=0)

    def filled(self, addresses: Addresses) -> dict[str, Any]:
        """Raises `SetupError` for an unknown address."""
        return cast("dict[str, Any]", _filled(self.settings, addresses.names, "agent elizaos: settings"))


def _filled(value: Any, names: Mapping[str, str], where: str) -> Any:
    match value:
        case str():
            return filled_addresses(value, names, where)
        case dict():
            held = cast("dict[str, Any]", value)
            return {key: _filled(each, names, f"{where}.{key}") for key, each in held.items()}
        case list():
            return [_filled(each, names, where) for each in cast("list[Any]", value)]
        case _:
            return value


def _merged(below: Any, above: Any) -> Any:
    """`above` merged over `below`, objects key by key."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    under, over = cast("dict[str, Any]", below), cast("dict[str, Any]", above)
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


_ADVICE = (
    "an ElizaOS server cannot reach the trial on its own: give its agent the services at {mcp_url} in "
    "[agents.elizaos.settings], check the actions that call or write them (`trajectory_contains_action`), or look at "
    "them in a `code` step"
)


class ElizaosAgent:
    """`elizaos:URL`, or `elizaos:URL#NAME` on a server with several agents. Each trial has its own session.

    The server remembers the conversation, so only new messages are sent. What the agent did is read from its run after
    each turn; this does not count as the agent's time. The server does not report the arguments of actions. Options:
    `timeout_s`, the time limit of a turn if the scenario sets none; `settings`, for a copy of the agent that is made
    for each trial.
    """

    uses_plugins: bool = False
    uses_network: bool = True
    uses_gateway: ClassVar[bool] = True
    runs_target: bool = False
    key_variable: ClassVar[str] = AUTH_VARIABLE
    options: ClassVar[type[Options]] = ElizaosOptions

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` for an invalid URL, and if aiohttp is not installed."""
        url, name = urldefrag(settings.target)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise SetupError(
                f"agent elizaos:{shown_url(settings.target)}: expected elizaos:URL or elizaos:URL#AGENT, such as "
                f"elizaos:http://127.0.0.1:3000; a token goes into {AUTH_VARIABLE}"
            )
        self.name: str = f"elizaos:{settings.target}"
        self._options: ElizaosOptions = read_options(ElizaosOptions, settings.options, "agent elizaos")
        self._options.filled(Addresses() if settings.gateway is None else settings.gateway.reusable(settings.model))
        led = reached_through([str(self._options.settings)])
        relays = "base_url}" in str(self._options.settings)
        self.shows: Shows = Shows(
            actions="seen",
            services="seen" if "services" in led else "not_seen",
            database="seen" if "database" in led else "not_seen",
            model_calls="seen" if relays else "not_seen",
            arguments=False,
            advice=_ADVICE,
        )
        self._limit_s: float = self._options.timeout_s
        self._wanted: str = unquote(name)
        token = settings.variables.get(AUTH_VARIABLE, "").strip() if settings.default_key else ""
        self._api: ElizaosApi = ElizaosApi(url.rstrip("/"), token, timeout_s=self._limit_s)
        self._trial: TrialContext | None = None
        self._reporter: TrajectoryReporter | None = None
        self._agent_id: str = ""
        self._copy: str | None = None
        self._session: tuple[str, str] | None = None
        self._known: int = 0
        self._runs: set[str] = set()

    async def open(self, trial: TrialContext) -> None:
        """Waits half a minute for the agent to become active."""
        self._trial = trial
        self._reporter = TrajectoryReporter(trial)
        self._agent_id = await self._active_agent(trial)
        if self._options.settings:
            self._agent_id = self._copy = await self._own_agent(trial)
            await self._active_agent(trial)
            await trial.clock.sleep(self._options.settle_s)
        await self._begin()

    async def respond(self, turn: Turn) -> Reply:
        trial, reporter = self._trial, self._reporter
        assert trial is not None, "respond before open"
        assert reporter is not None
        if self._session is None:
            await self._begin()
        assert self._session is not None
        session_id, _ = self._session
        limit_s = limit_of(turn, self._limit_s)
        limit = asyncio.timeout(limit_s)
        began, began_ms = trial.clock.now(), trial.elapsed_ms()
        try:
            async with limit:
                response = await self._api.send(session_id, self._news(turn))
                took_ms = (trial.clock.now() - began) * 1000.0
                await self._read_run(turn, response, began_ms)
        except TimeoutError:
            raise AgentError(f"{self.name}: no reply within {limit_s:g} s") from None
        except asyncio.CancelledError:
            # The server continues with this turn. In a new session, its late reply cannot be mistaken for the next one.
            self._session, self._known = None, 0
            raise
        self._known = len(turn.messages) + 1
        return Reply(text=_reply_text(response), duration_ms=took_ms)

    async def close(self) -> None:
        session, self._session = self._session, None
        self._trial = self._reporter = None
        try:
            if session is not None:
                with contextlib.suppress(AgentError):  # the session expires on its own
                    await self._api.close_session(session[0])
            if self._copy is not None:
                copy, self._copy = self._copy, None
                await self._api.remove_agent(copy)
        finally:
            await self._api.close()

    async def _begin(self) -> None:
        self._session = await self._api.open_session(self._agent_id, str(uuid.uuid4()))
        self._known = 0

    async def _own_agent(self, trial: TrialContext) -> str:
        """A copy of the agent whose settings point to this trial."""
        known = await self._api.character(self._agent_id)
        character = {key: known[key] for key in _COPIED if known.get(key) is not None}
        character["settings"] = _merged(known.get("settings") or {}, self._options.filled(trial.addresses))
        return await self._api.add_agent({**character, "id": _COPY + str(uuid.uuid4())[len(_COPY) :]})

    async def _active_agent(self, trial: TrialContext) -> str:
        give_up = trial.clock.now() + _READY_S
        while True:
            agents = await self._api.agents()
            found = self._pick(agents) if agents else {}  # a server that is starting up lists none yet
            if found.get("status") == "active":
                return str(found.get("id"))
            if trial.clock.now() >= give_up:
                what = f"the agent {found.get('name')!r} is {found.get('status')!r}" if found else "there is no agent"
                raise AgentError(f"{self.name}: {what}, after {_READY_S:g} s of waiting for an active one")
            await trial.clock.sleep(_LOOK_AGAIN_S)

    def _pick(self, agents: list[dict[str, Any]]) -> dict[str, Any]:
        if self._copy is not None:
            return next((agent for agent in agents if agent.get("id") == self._copy), dict[str, Any]())
        wanted = self._wanted.casefold()
        fitting = [
            agent
            for agent in agents
            if not str(agent.get("id")).startswith(_COPY)
            and (not wanted or wanted in {str(agent.get(key)).casefold() for key in ("id", "name", "characterName")})
        ]
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(sorted(str(agent.get("name")) for agent in agents)) or "none"
        what = f"no agent {self._wanted!r}" if not fitting else f"{len(fitting)} matching agents"
        raise AgentError(f"{self.name}: the server has {what} (its agents: {names}); name one as elizaos:URL#NAME")

    def _news(self, turn: Turn) -> str:
        """What the server has not been sent yet. A session accepts user messages only, so several messages are sent as
        one transcript."""
        unheard = turn.messages[self._known :]
        if len(unheard) == 1 and unheard[0].role == "user":
            return unheard[0].content
        assert self._reporter is not None
        self._reporter.note(
            f"ElizaOS accepts one user message at a time; {len(unheard)} messages were sent as one text",
            level="warning",
        )
        return "\n\n".join(f"{message.role}: {message.content}" for message in unheard)

    async def _read_run(self, turn: Turn, response: dict[str, Any], began_ms: float) -> None:
        """Report what the agent did. Even a turn without actions has a run, so a missing or empty one raises
        `AgentError`: the actions would be unknown."""
        assert self._trial is not None
        assert self._reporter is not None
        thought = response.get("thought")
        if isinstance(thought, str) and thought.strip():
            self._reporter.thought(thought)
        run_id = await self._finished_run(self._trial, turn.deadline)
        if run_id is None:
            raise AgentError(
                f"{self.name}: the run of this turn did not appear in time, so it is unknown what the agent did"
            )
        events = await self._api.run_events(self._agent_id, run_id)
        if unfinished(events):  # the end of an action may be stored a moment after the end of the run
            await self._trial.clock.sleep(_LOOK_AGAIN_S)
            events = await self._api.run_events(self._agent_id, run_id)
        if not ended(events):
            found = "no events" if not events else "no RUN_ENDED among its events"
            raise AgentError(f"{self.name}: the run of this turn has {found}, so it is unknown what the agent did")
        report_run(events, self._reporter, started_ms=began_ms)

    async def _finished_run(self, trial: TrialContext, deadline: float | None) -> str | None:
        """The new run. The list lags a little behind, so it is polled, but not past the deadline: the agent has
        answered, and our polling must not make it late."""
        assert self._session is not None
        give_up = trial.clock.now() + _RUN_S
        if deadline is not None:
            give_up = min(give_up, deadline - 2 * _LOOK_AGAIN_S)
        while True:
            run = await self._api.latest_run(self._agent_id, self._session[1])
            run_id = str(run.get("runId")) if run else ""
            if run and run_id not in self._runs and (run.get("endedAt") or run.get("status") not in (None, "started")):
                self._runs.add(run_id)
                return run_id
            if trial.clock.now() >= give_up:
                return None
            await trial.clock.sleep(_LOOK_AGAIN_S)


def _reply_text(response: Mapping[str, Any]) -> str:
    """What it said first, and what its last action said after that: the server passes on nothing else."""
    later = response.get("actionCallbacks")
    parts = [response, *([cast("Mapping[str, Any]", later)] if isinstance(later, Mapping) else [])]
    texts = [str(part.get("text") or "").strip() for part in parts]
    return "\n\n".join(dict.fromkeys(text for text in texts if text))
