"""A stand-in for an ElizaOS server: the part of its REST API that a conversation needs, on loopback.

    async with ElizaosServer(ElizaosAnswer(text="Hello.", actions=("REPLY",))) as server:
        ... server.url ... server.heard

In its own process: `python -m support.elizaos_server --port 0 --text Hello`, which prints one JSON line with
`port` and `url`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self
from urllib.parse import parse_qs

import msgspec

from steadyhand.records.base import Record
from steadyhand.testing.model_server import Request, ServerConnection, hang_up
from steadyhand.testing.wire import plain_response

_SESSION = re.compile(r"/api/messaging/sessions/([^/]+)(/messages)?")
_AGENT = re.compile(r"/api/agents/([^/]+)(?:/start)?")
_RUN = re.compile(r"/api/agents/[^/]+/runs(?:/([^/?]+))?")


class ElizaosAction(Record):
    """An action of a run. `ends` is False for one that began and never completed."""

    name: str
    success: bool = True
    result: Any = None
    ends: bool = True


class ElizaosAnswer(Record):
    """What the agent says and does in a turn.

    `later` is what its last action said. `silent` leaves out the response, as the server does when the agent says
    nothing. `hang` never answers; `status` and `body` replace the answer. `list_behind` is how many times the list of
    runs is still the old one.
    """

    text: str = ""
    thought: str = ""
    later: str | None = None
    actions: Sequence[ElizaosAction] = ()
    silent: bool = False
    delay_s: float = 0.0
    hang: bool = False
    status: int = 200
    body: bytes | None = None
    list_behind: int = 0


class _Session(msgspec.Struct):
    channel: str
    heard: list[str]


Behaviour = ElizaosAnswer | Callable[[list[str]], ElizaosAnswer]
"""One answer for all turns, or a function of everything the user has said in the session."""


class ElizaosServer:
    """Serves until left. `heard` is what was said in each session, by id; `deleted` are the sessions that were
    ended."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        names: Sequence[str] = ("Eliza",),
        token: str = "",
        starting: int = 0,
        port: int = 0,
        runs: Literal["kept", "lost", "empty", "begun"] = "kept",
    ) -> None:
        """`starting` is how many times no agent is listed; the last time, one is listed that is not active.

        `runs="lost"` never lists a run; `runs="empty"` lists them but has no events for them, `runs="begun"` only the
        first one.
        """
        self.behaviour: Behaviour = behaviour
        self.sessions: dict[str, _Session] = {}
        self.deleted: list[str] = []
        self.characters: dict[str, dict[str, Any]] = {}
        """Agents that were created, by their id."""
        self.started: list[str] = []
        self.removed: list[str] = []
        self._agents: dict[str, str] = {str(uuid.uuid5(uuid.NAMESPACE_DNS, name)): name for name in names}
        self._token = token
        self._starting = starting
        self._port = port
        self._keeps_runs = runs != "lost"
        self._most_events = {"empty": 0, "begun": 1}.get(runs)
        self._runs: dict[str, list[dict[str, Any]]] = {}
        self._latest: dict[str, list[str]] = {}
        self._kept: dict[str, list[str]] = {}
        self._behind: int = 0
        self._server: asyncio.Server | None = None
        self._connections: set[ServerConnection] = set()
        self._arrived: asyncio.Event = asyncio.Event()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def heard(self) -> dict[str, list[str]]:
        return {session_id: list(session.heard) for session_id, session in self.sessions.items()}

    @property
    def open_connections(self) -> int:
        return sum(not connection.lost.is_set() for connection in self._connections)

    async def until_heard(self) -> None:
        """Wait until something has been said."""
        await self._arrived.wait()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        await hang_up(self._connections)

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    def _connect(self) -> ServerConnection:
        connection = ServerConnection(len(self._connections) + 1, self._handle)
        self._connections.add(connection)
        return connection

    async def _handle(self, request: Request, connection: ServerConnection) -> None:
        if self._token and request.headers.get("x-api-key") != self._token:
            _write(connection, 401, {"success": False, "error": {"code": "UNAUTHORIZED", "message": "no valid key"}})
        elif request.path == "/api/agents" and request.method == "POST":
            self._add_agent(request, connection)
        elif match := _AGENT.fullmatch(request.path):
            self._one_agent(request, connection, match[1])
        elif request.path == "/api/agents":
            _write(connection, 200, {"success": True, "data": {"agents": self._listed()}})
        elif request.path == "/api/messaging/sessions" and request.method == "POST":
            self._open_session(request, connection)
        elif match := _SESSION.fullmatch(request.path):
            await self._in_session(request, connection, match[1], said=bool(match[2]))
        elif match := _RUN.fullmatch(request.path.partition("?")[0]):
            self._show_runs(connection, run_id=match[1], query=parse_qs(request.path.partition("?")[2]))
        else:
            _write(connection, 404, {"success": False, "error": {"message": f"no such path: {request.path}"}})

    def _add_agent(self, request: Request, connection: ServerConnection) -> None:
        character = msgspec.json.decode(request.body, type=dict[str, Any])["characterJson"]
        self._agents[character["id"]] = character["name"]
        self.characters[character["id"]] = character
        _write(connection, 201, {"success": True, "data": {"id": character["id"], "character": character}})

    def _one_agent(self, request: Request, connection: ServerConnection, agent_id: str) -> None:
        """Like the real server: a copy is inactive until it is started, and a removed agent is gone."""
        if agent_id not in self._agents:
            _write(connection, 404, {"success": False, "error": {"message": "Agent not found"}})
        elif request.method == "DELETE":
            del self._agents[agent_id]
            self.removed.append(agent_id)
            connection.write(plain_response(204, b"", "application/json"))
        elif request.path.endswith("/start"):
            self.started.append(agent_id)
            _write(connection, 200, {"success": True, "data": {"id": agent_id, "status": "active"}})
        else:
            own = {"id": agent_id, "name": self._agents[agent_id], "settings": {"secrets": {"KEY": "iv:kept"}}}
            told = {**own, "plugins": ["sql"], "status": "active", "enabled": True, **self.characters.get(agent_id, {})}
            _write(connection, 200, {"success": True, "data": told})

    def _listed(self) -> list[dict[str, Any]]:
        starting, self._starting = self._starting, self._starting - 1
        if starting > 1:
            return []
        status = "inactive" if starting == 1 else "active"
        return [
            {"id": id_, "name": name, "characterName": name, "bio": "", "status": self._status(id_, status)}
            for id_, name in self._agents.items()
        ]

    def _status(self, agent_id: str, status: str) -> str:
        return "inactive" if agent_id in self.characters and agent_id not in self.started else status

    def _open_session(self, request: Request, connection: ServerConnection) -> None:
        body = msgspec.json.decode(request.body, type=dict[str, Any])
        if body.get("agentId") not in self._agents:
            _write(connection, 404, {"error": "Agent not found"})
            return
        session_id, channel = str(uuid.uuid4()), str(uuid.uuid4())
        self.sessions[session_id] = _Session(channel=channel, heard=[])
        told = {"sessionId": session_id, "channelId": channel, "agentId": body["agentId"], "userId": body["userId"]}
        _write(connection, 201, told)

    async def _in_session(self, request: Request, connection: ServerConnection, session_id: str, *, said: bool) -> None:
        session = self.sessions.get(session_id)
        if session is None or session_id in self.deleted:
            _write(connection, 404, {"error": "Session not found"})
        elif not said:
            self.deleted.append(session_id)
            _write(connection, 200, {"success": True, "message": "Session deleted"})
        else:
            body = msgspec.json.decode(request.body, type=dict[str, Any])
            session.heard.append(str(body["content"]))
            self._arrived.set()
            behaviour = self.behaviour
            answer = behaviour if isinstance(behaviour, ElizaosAnswer) else behaviour(list(session.heard))
            await self._answer(connection, session, answer)

    async def _answer(self, connection: ServerConnection, session: _Session, answer: ElizaosAnswer) -> None:
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        if answer.hang:
            await connection.lost.wait()
            return
        if answer.body is not None:
            connection.write(plain_response(answer.status, answer.body, "text/html"))
            return
        if answer.status != 200:
            _write(connection, answer.status, {"success": False, "error": {"message": answer.text}})
            return
        self._keep_run(session.channel, answer)
        told: dict[str, Any] = {"success": True, "userMessage": {"content": session.heard[-1]}}
        if not answer.silent:
            names = [action.name for action in answer.actions]
            told["agentResponse"] = {"text": answer.text, "thought": answer.thought, "actions": names, "providers": []}
            if answer.later is not None:
                told["agentResponse"]["actionCallbacks"] = {"text": answer.later, "actions": names}
        _write(connection, 200, told)

    def _keep_run(self, channel: str, answer: ElizaosAnswer) -> None:
        now = int(time.time() * 1000)
        events: list[dict[str, Any]] = [_event("RUN_STARTED", now, status="started")]
        events.append(_event("MODEL_USED", now + 1, modelType="TEXT_LARGE", provider="openai", executionTime=12))
        for number, action in enumerate(answer.actions):
            at = now + 10 * (number + 1)
            events.append(_event("ACTION_STARTED", at, actionName=action.name))
            if action.ends:
                done = {"actionName": action.name, "success": action.success, "result": action.result}
                events.append(_event("ACTION_COMPLETED", at + 5, **done))
        events.append(_event("RUN_ENDED", now + 100, status="completed"))
        run_id = str(uuid.uuid4())
        self._runs[run_id] = events[: self._most_events]
        self._behind = answer.list_behind
        if self._keeps_runs:
            self._latest.setdefault(channel, []).append(run_id)

    def _show_runs(self, connection: ServerConnection, *, run_id: str | None, query: dict[str, list[str]]) -> None:
        if run_id is not None:
            _write(connection, 200, {"success": True, "data": {"summary": {}, "events": self._runs.get(run_id, [])}})
            return
        room = query.get("roomId", [""])[0]
        known = list(self._latest.get(room, []))
        if self._behind > 0:
            self._behind -= 1
            known = known[:-1]
        if "from" not in query:  # the real server keeps such a list for 15 s; here it is kept for good
            known = self._kept.setdefault(room, known)
        runs = [{"runId": id_, "status": "completed", "startedAt": 1, "endedAt": 2} for id_ in known[-1:]]
        _write(connection, 200, {"success": True, "data": {"runs": runs, "total": len(known), "hasMore": False}})


def _event(type_: str, timestamp: int, **data: Any) -> dict[str, Any]:
    return {"type": type_, "timestamp": timestamp, "data": data}


def _write(connection: ServerConnection, status: int, body: dict[str, Any]) -> None:
    connection.write(plain_response(status, msgspec.json.encode(body), "application/json"))


async def _serve(text: str, port: int) -> None:
    async with ElizaosServer(ElizaosAnswer(text=text), port=port) as server:
        sys.stdout.write(msgspec.json.encode({"port": server.port, "url": server.url}).decode() + "\n")
        sys.stdout.flush()
        await server.serve_forever()


def main(arguments: list[str] | None = None) -> None:
    """Serve one answer until stopped."""
    parser = argparse.ArgumentParser(prog="python -m support.elizaos_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", default="Hello.")
    chosen = parser.parse_args(arguments)
    try:
        asyncio.run(_serve(chosen.text, chosen.port))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
