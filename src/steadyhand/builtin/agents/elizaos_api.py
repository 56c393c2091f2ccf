"""The REST API of an ElizaOS server, as far as a conversation needs it. Tested against version 1.7.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import msgspec

from steadyhand.errors import AgentError, SetupError
from steadyhand.http.client import why_not_connected
from steadyhand.records.base import shorten

if TYPE_CHECKING:
    import aiohttp

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

    async def character(self, agent_id: str) -> dict[str, Any]:
        """The agent's definition. Its secrets are encrypted, and can be sent back like that."""
        return await self._data("GET", f"/api/agents/{quote(agent_id)}")

    async def add_agent(self, character: Mapping[str, Any]) -> str:
        """Create the agent and start it. Its id."""
        made = _mapping((await self._ask("POST", "/api/agents", {"characterJson": character})).get("data"))
        agent_id = _text(made, "id")
        await self._ask("POST", f"/api/agents/{quote(agent_id)}/start")
        return agent_id

    async def remove_agent(self, agent_id: str) -> None:
        await self._ask("DELETE", f"/api/agents/{quote(agent_id)}")

    async def open_session(self, agent_id: str, user_id: str) -> tuple[str, str]:
        """The ids of the session and of its channel. Runs are listed by channel, which they call room."""
        made = await self._ask("POST", "/api/messaging/sessions", {"agentId": agent_id, "userId": user_id})
        return _text(made, "sessionId"), _text(made, "channelId")

    async def send(self, session_id: str, content: str) -> dict[str, Any]:
        """The agent's response; empty if it said nothing."""
        path = f"/api/messaging/sessions/{quote(session_id)}/messages"
        answer = await self._ask("POST", path, {"content": content, "transport": "http"})
        if answer.get("success") is False:
            raise AgentError(f"{self._base_url}{path}: {_error(answer) or 'the request failed without a reason'}")
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
        except self._http.ClientConnectorError as error:
            reason = why_not_connected(error.os_error, f"{error.host}:{error.port}", tls=bool(error.ssl))
            raise AgentError(f"{where}: {reason}") from error
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
            shown = self._without_key(raw.decode("utf-8", "replace"))
            raise AgentError(f"{where} answered {status} without a JSON object: {shown!r}") from None
        if status in (401, 403):
            raise AgentError(f"{where} answered {status}; set {AUTH_VARIABLE} to the server's token")
        if not 200 <= status < 300:
            raise AgentError(f"{where} answered {status}: {self._without_key(_error(answer)) or 'no reason given'}")
        return answer

    def _without_key(self, text: str) -> str:
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
        raise AgentError(f"ElizaOS answered without a {key}; is this an ElizaOS server of version 1?")
    return found
