"""The `elizaos` agent: an agent on a running ElizaOS server, reached through its REST API.

Tested against version 1.7.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, unquote, urldefrag, urlsplit

import msgspec

from steadyhand.builtin.agents.options import TimedOptions, limit_of, shown_url
from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.errors import AgentError, SetupError
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.records.base import shorten
from steadyhand.records.chat import Message

if TYPE_CHECKING:
    import aiohttp

_READY_S = 30.0
_RUN_S = 10.0
_LOOK_AGAIN_S = 0.1
AUTH_VARIABLE = "ELIZA_SERVER_AUTH_TOKEN"
_LONGEST_ANSWER = 32 * 1024 * 1024
_SHOWN = 300


class ElizaosApi:
    """The part of the REST API that a conversation needs.

    Every method raises `AgentError` if the server cannot be reached, refuses, or sends an unexpected answer.
    """

    def __init__(self, base_url: str, token: str, *, timeout_s: float) -> None:
        """Raises `SetupError` if aiohttp is not installed."""
        # Imported here and not in the first trial, where it would block the event loop and spoil measurements.
        try:
            import aiohttp
        except ImportError as error:
            raise SetupError(
                f"agent elizaos:{base_url} needs the package aiohttp ({error}): pip install 'steadyhand[elizaos]'"
            ) from error

        self._http = aiohttp
        self._base_url = base_url
        self._token = token
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def agents(self) -> list[dict[str, Any]]:
        return _list(await self._data("GET", "/api/agents"), "agents")

    async def open_session(self, agent_id: str, user_id: str) -> tuple[str, str]:
        """The ids of the session and of its channel. Runs are listed by channel, which they call room."""
        made = await self._ask("POST", "/api/messaging/sessions", {"agentId": agent_id, "userId": user_id})
        return _text(made, "sessionId"), _text(made, "channelId")

    async def send(self, session_id: str, content: str) -> dict[str, Any]:
        """The agent's response; empty if it said nothing."""
        path = f"/api/messaging/sessions/{quote(session_id)}/messages"
        answer = await self._ask("POST", path, {"content": content, "transport": "http"})
        if answer.get("success") is False:
            raise AgentError(f"{self._base_url}{path}: {_error(answer) or 'no success, and no reason given'}")
        return _mapping(answer.get("agentResponse"))

    async def close_session(self, session_id: str) -> None:
        await self._ask("DELETE", f"/api/messaging/sessions/{quote(session_id)}")

    async def latest_run(self, agent_id: str, channel_id: str) -> dict[str, Any] | None:
        # The server caches the list for 15 s unless a time is given, so we would see the previous turn's run.
        # This `from` excludes nothing.
        path = f"/api/agents/{quote(agent_id)}/runs?roomId={quote(channel_id)}&limit=1&from=1"
        runs = _list(await self._data("GET", path), "runs")
        return runs[0] if runs else None

    async def run_events(self, agent_id: str, run_id: str) -> list[dict[str, Any]]:
        return _list(await self._data("GET", f"/api/agents/{quote(agent_id)}/runs/{quote(run_id)}"), "events")

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _data(self, method: str, path: str) -> dict[str, Any]:
        answer = await self._ask(method, path)
        return _mapping(answer.get("data"))

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        where = f"{method} {self._base_url}{path}"
        session = self._session or self._open()
        try:
            async with session.request(method, self._base_url + path, json=body, allow_redirects=False) as response:
                raw = await response.content.read(_LONGEST_ANSWER)
                return self._read(where, response.status, raw)
        except TimeoutError:
            raise AgentError(f"{where}: no answer within {self._timeout_s:g} s") from None
        except self._http.ClientError as error:
            raise AgentError(f"{where}: {error or type(error).__name__}") from error

    def _open(self) -> aiohttp.ClientSession:
        headers = {"User-Agent": "steadyhand", **({"X-API-KEY": self._token} if self._token else {})}
        self._session = self._http.ClientSession(
            headers=headers,
            timeout=self._http.ClientTimeout(total=self._timeout_s),
            cookie_jar=self._http.DummyCookieJar(),
        )
        return self._session

    def _read(self, where: str, status: int, raw: bytes) -> dict[str, Any]:
        try:
            answer = msgspec.json.decode(raw, type=dict[str, Any]) if raw else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            shown = self._shown(raw.decode("utf-8", "replace"))
            raise AgentError(f"{where} answered {status} without a JSON object: {shown!r}") from None
        if status in (401, 403):
            raise AgentError(f"{where} answered {status}; set {AUTH_VARIABLE} to the server's token")
        if not 200 <= status < 300:
            raise AgentError(f"{where} answered {status}: {self._shown(_error(answer)) or 'no reason given'}")
        return answer

    def _shown(self, text: str) -> str:
        text = text.replace(self._token, "***") if self._token else text
        return shorten(text, _SHOWN)


def _error(answer: Mapping[str, Any]) -> str:
    error: object = answer.get("error") or answer.get("message")
    if isinstance(error, Mapping):
        error = cast("Mapping[str, object]", error).get("message")
    return "" if error is None else str(error)


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found: object = data.get(key)
    if not isinstance(found, list):
        raise AgentError(f"ElizaOS answered without a list of {key}; is this an ElizaOS server of version 1?")
    return [_mapping(each) for each in cast("list[object]", found)]


def _text(answer: dict[str, Any], key: str) -> str:
    found = answer.get(key)
    if not isinstance(found, str) or not found:
        raise AgentError(f"ElizaOS opened a session without a {key}; is this an ElizaOS server of version 1?")
    return found


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
                reporter.action(
                    name,
                    _params(data),
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
        reporter.observation(name, "it began and did not end", at_ms=at_ms(start))
    if models:
        reporter.note(f"model calls inside ElizaOS, as it reports them: {', '.join(models)}")


def unfinished(events: Sequence[dict[str, Any]]) -> bool:
    """Whether some action has no end yet."""
    types = [event.get("type") for event in events]
    return types.count("ACTION_STARTED") > types.count("ACTION_COMPLETED")


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


def _params(data: dict[str, Any]) -> dict[str, Any]:
    params = data.get("params")
    return cast("dict[str, Any]", params) if isinstance(params, dict) else {}


def _time(event: dict[str, Any]) -> float | None:
    time = event.get("timestamp")
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None


class ElizaosAgent:
    """`elizaos:URL`, or `elizaos:URL#NAME` on a server with several agents. Each trial has its own session.

    The server remembers the conversation, so only new messages are sent. What the agent did is read from its run after
    each turn; this does not count as the agent's time. Option: `timeout_s`, the time limit of a turn if the scenario
    sets none.
    """

    shows: Shows = Shows(
        actions="seen",
        advice="the services, the workspace and the database of the trial do not reach an ElizaOS server: check the "
        "actions that call or write them (`trajectory_contains_action`), or look at them in a `code` step",
    )
    uses_plugins: bool = False
    uses_network: bool = True
    runs_target: bool = False
    key_variable: ClassVar[str] = AUTH_VARIABLE
    options: ClassVar[type[Options]] = TimedOptions

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` for an invalid URL, and if aiohttp is not installed."""
        url, name = urldefrag(settings.target)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise SetupError(
                f"agent elizaos:{shown_url(settings.target)}: expected elizaos:URL or elizaos:URL#AGENT, such as "
                f"elizaos:http://127.0.0.1:3000; a token goes into {AUTH_VARIABLE}"
            )
        self._name: str = f"elizaos:{settings.target}"
        self._limit_s: float = read_options(TimedOptions, settings.options, "agent elizaos").timeout_s
        self._wanted: str = unquote(name)
        token = settings.variables.get(AUTH_VARIABLE, "").strip() if settings.default_key else ""
        self._api: ElizaosApi = ElizaosApi(url.rstrip("/"), token, timeout_s=self._limit_s)
        self._trial: TrialContext | None = None
        self._reporter: TrajectoryReporter | None = None
        self._agent_id: str = ""
        self._session: tuple[str, str] | None = None
        self._known: int = 0
        self._runs: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    async def open(self, trial: TrialContext) -> None:
        """Waits half a minute for the agent to become active."""
        self._trial = trial
        self._reporter = TrajectoryReporter(trial)
        self._agent_id = await self._active_agent(trial)
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
            raise AgentError(f"{self._name}: no reply within {limit_s:g} s") from None
        except asyncio.CancelledError:
            # The server goes on with this turn. In a new session its reply cannot be mistaken for the next one.
            self._session, self._known = None, 0
            raise
        self._known = len(turn.messages) + 1
        return Reply(text=str(response.get("text") or ""), duration_ms=took_ms)

    async def close(self) -> None:
        session, self._session = self._session, None
        self._trial = self._reporter = None
        try:
            if session is not None:
                with contextlib.suppress(AgentError):  # the session expires on its own
                    await self._api.close_session(session[0])
        finally:
            await self._api.close()

    async def _begin(self) -> None:
        self._session = await self._api.open_session(self._agent_id, str(uuid.uuid4()))
        self._known = 0

    async def _active_agent(self, trial: TrialContext) -> str:
        give_up = trial.clock.now() + _READY_S
        while True:
            agents = await self._api.agents()
            found = self._pick(agents) if agents else {}  # a server that is starting up lists none yet
            if found.get("status") == "active":
                return str(found.get("id"))
            if trial.clock.now() >= give_up:
                what = f"the agent {found.get('name')!r} is {found.get('status')!r}" if found else "there is no agent"
                raise AgentError(f"{self._name}: {what}, after {_READY_S:g} s of waiting for an active one")
            await trial.clock.sleep(_LOOK_AGAIN_S)

    def _pick(self, agents: list[dict[str, Any]]) -> dict[str, Any]:
        wanted = self._wanted.casefold()
        fitting = [
            agent
            for agent in agents
            if not wanted or wanted in {str(agent.get(key)).casefold() for key in ("id", "name", "characterName")}
        ]
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(sorted(str(agent.get("name")) for agent in agents)) or "none"
        what = f"no agent {self._wanted!r}" if not fitting else f"{len(fitting)} agents that fit"
        raise AgentError(f"{self._name}: the server has {what} (its agents: {names}); name one as elizaos:URL#NAME")

    def _news(self, turn: Turn) -> str:
        """What the server has not been sent yet. A session accepts user messages only, so several messages are sent as
        one transcript."""
        unheard = turn.messages[self._known :]
        if len(unheard) == 1 and unheard[0].role == "user":
            return unheard[0].content
        assert self._reporter is not None
        self._reporter.note(
            f"ElizaOS takes one message of the user at a time; {len(unheard)} messages were sent to it as one text",
            level="warning",
        )
        return "\n\n".join(_written(message) for message in unheard)

    async def _read_run(self, turn: Turn, response: dict[str, Any], began_ms: float) -> None:
        """Report what the agent did. Even a silent turn has a run, so a missing or empty one raises `AgentError`:
        checks on the actions would have nothing to go by."""
        assert self._trial is not None
        assert self._reporter is not None
        thought = response.get("thought")
        if isinstance(thought, str) and thought.strip():
            self._reporter.thought(thought)
        run_id = await self._finished_run(self._trial, turn.deadline)
        if run_id is None:
            raise AgentError(
                f"{self._name}: the run of this turn did not appear in time, so it is unknown what the agent did"
            )
        events = await self._api.run_events(self._agent_id, run_id)
        if unfinished(events):  # the end of an action may be stored a moment after the end of the run
            await self._trial.clock.sleep(_LOOK_AGAIN_S)
            events = await self._api.run_events(self._agent_id, run_id)
        if not events:
            raise AgentError(f"{self._name}: the run of this turn has no events, so it is unknown what the agent did")
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


def _written(message: Message) -> str:
    return f"{message.role}: {message.content}"
