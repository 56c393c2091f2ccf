"""A stand-in for E2B on loopback: it understands what the `e2b` package sends, and commands really run.

    async with E2BServer() as server:
        environment = E2BEnvironment(EnvironmentSettings(..., variables=server.variables))

It speaks E2B's REST interface for creating and killing sandboxes, and envd's interface inside them: files over HTTP,
and processes and folders over Connect RPC with JSON. **It is not a sandbox**: commands run on this machine, in a
temporary folder. Terminals, watching folders, snapshots and whatever else the package offers get a 501.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import unquote

from support.e2b_machine import Machine

if TYPE_CHECKING:
    from aiohttp import web

ENVD_VERSION = "0.6.4"
_END_OF_STREAM = 2
_SIGNALS = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9}


class E2BServer:
    """Serves until left. `machines` are the living sandboxes, by id; `requests` are the requests that created them."""

    def __init__(self, api_key: str = "e2b_0000000000000000000000000000000000000000") -> None:
        self.api_key: str = api_key
        self.machines: dict[str, Machine] = {}
        self.requests: list[dict[str, Any]] = []
        self._tokens: dict[str, str] = {}
        self._port: int = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def variables(self) -> dict[str, str]:
        """Settings that make the package talk to this server."""
        return {"E2B_API_KEY": self.api_key, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    async def __aenter__(self) -> Self:
        from aiohttp import web

        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v2/sandboxes", self._create)
        app.router.add_delete("/sandboxes/{id}", self._kill)
        app.router.add_get("/health", self._health)
        app.router.add_get("/files", self._download)
        app.router.add_post("/files", self._upload)
        app.router.add_post("/process.Process/Start", self._start)
        app.router.add_post("/{service}/{method}", self._unary)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = cast("tuple[str, int]", self._runner.addresses[0])[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for machine in self.machines.values():
            await machine.close()
        self.machines.clear()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _create(self, request: web.Request) -> web.Response:
        if request.headers.get("X-API-Key") != self.api_key:
            return _problem(401, "Invalid API key")
        asked = cast("dict[str, Any]", await request.json())
        self.requests.append(asked)
        name, token = f"i{secrets.token_hex(8)}", secrets.token_hex(16)
        self.machines[name], self._tokens[name] = Machine(), token
        told = {"templateID": asked["templateID"], "sandboxID": name, "clientID": "stand-in"}
        return _json({**told, "envdVersion": ENVD_VERSION, "envdAccessToken": token}, status=201)

    async def _kill(self, request: web.Request) -> web.Response:
        from aiohttp import web

        if request.headers.get("X-API-Key") != self.api_key:
            return _problem(401, "Invalid API key")
        machine = self.machines.pop(request.match_info["id"], None)
        if machine is None:
            return _problem(404, "sandbox not found")
        await machine.close()
        return web.Response(status=204)

    def _machine(self, request: web.Request) -> Machine:
        """The sandbox that a request is for. Answers like the proxy in front of the sandboxes."""
        from aiohttp import web

        name = request.headers.get("E2b-Sandbox-Id", "")
        if name not in self.machines:
            said = {"sandboxId": name, "message": "The sandbox was not found", "code": 502}
            raise web.HTTPBadGateway(text=json.dumps(said), content_type="application/json")
        if request.headers.get("X-Access-Token") != self._tokens[name]:
            raise web.HTTPUnauthorized(text='{"code": 401, "message": "unauthorized"}', content_type="application/json")
        return self.machines[name]

    async def _health(self, request: web.Request) -> web.Response:
        from aiohttp import web

        self._machine(request)
        return web.Response(status=204)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        path = request.query["path"]
        place = self._machine(request).place(path)
        if not place.exists():
            return _problem(404, f"path '{path}' does not exist")
        if not place.is_file():
            return _problem(400, f"path '{path}' is a directory")
        return web.Response(body=place.read_bytes(), content_type="application/octet-stream")

    async def _upload(self, request: web.Request) -> web.Response:
        machine = self._machine(request)
        written: list[dict[str, Any]] = []
        async for path, content in _uploaded(request):
            place = machine.place(path)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            except OSError as error:
                return _problem(400, f"error opening file '{path}': {error.strerror}")
            written.append({"path": machine.shown(place), "name": place.name, "type": "file"})
        return _json(written)

    async def _start(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        machine = self._machine(request)
        asked = cast("dict[str, Any]", json.loads((await request.read())[5:]))
        response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        await response.prepare(request)
        ending: dict[str, Any] = {}
        try:
            async with contextlib.aclosing(machine.start(asked["process"], stdin=asked.get("stdin", True))) as events:
                async for event in events:
                    await response.write(_envelope({"event": _encoded(event)}))
        except OSError as error:
            ending = {"error": {"code": "invalid_argument", "message": str(error)}}
        if machine.gone and request.transport is not None:
            request.transport.abort()
            return response
        await response.write(_envelope(ending, flags=_END_OF_STREAM))
        await response.write_eof()
        return response

    async def _unary(self, request: web.Request) -> web.Response:
        machine = self._machine(request)
        asked = cast("dict[str, Any]", json.loads(await request.read() or b"{}"))
        method = request.match_info["method"]
        match request.match_info["service"], method:
            case "process.Process", "SendInput" | "CloseStdin" | "SendSignal":
                return await _to_process(machine, method, asked)
            case "filesystem.Filesystem", "ListDir":
                return _list(machine, asked)
            case "filesystem.Filesystem", "MakeDir":
                place = machine.place(asked["path"])
                if place.is_dir():
                    return _fault(409, "already_exists", f"directory already exists: {asked['path']}")
                place.mkdir(parents=True)
                return _json({"entry": _entry(machine, place)})
            case "filesystem.Filesystem", "Stat":
                return _stat(machine, asked["path"])
            case "filesystem.Filesystem", "Remove":
                _remove(machine.place(asked["path"]))
                return _json({})
            case _:
                return _fault(501, "unimplemented", f"the stand-in does not know {request.path}")


async def _to_process(machine: Machine, method: str, asked: dict[str, Any]) -> web.Response:
    pid = int(asked["process"]["pid"])
    if method == "SendInput":
        known = await machine.write_stdin(pid, base64.b64decode(asked["input"]["stdin"]))
    elif method == "CloseStdin":
        known = machine.close_stdin(pid)
    else:
        known = machine.send_signal(pid, _SIGNALS[asked["signal"]])
    return _json({}) if known else _fault(404, "not_found", f"process with pid {pid} not found")


async def _uploaded(request: web.Request) -> AsyncIterator[tuple[str, bytes]]:
    if request.content_type != "multipart/form-data":
        yield request.query["path"], await request.read()
        return
    async for part in await request.multipart():
        content = bytes(await part.read())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue, reportOptionalMemberAccess] - nested parts are not sent
        name = cast("str", part.filename)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportOptionalMemberAccess] - as above
        yield request.query.get("path", unquote(name)), content


def _list(machine: Machine, asked: dict[str, Any]) -> web.Response:
    top = machine.place(asked["path"])
    if not top.is_dir():
        return _missing(asked["path"])
    depth = asked.get("depth") or 1
    entries: list[dict[str, Any]] = []
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        level = len(here.relative_to(top).parts) + 1
        entries += [_entry(machine, here / name) for name in (*folders, *files)]
        if level >= depth:
            folders.clear()
    return _json({"entries": entries})


def _stat(machine: Machine, path: str) -> web.Response:
    place = machine.place(path)
    return _json({"entry": _entry(machine, place)}) if os.path.lexists(place) else _missing(path)


def _entry(machine: Machine, place: Path) -> dict[str, Any]:
    found = place.lstat()
    kind = "FILE_TYPE_DIRECTORY" if place.is_dir() else "FILE_TYPE_FILE" if place.is_file() else "FILE_TYPE_UNSPECIFIED"
    entry: dict[str, Any] = {
        "name": place.name,
        "type": kind,
        "path": machine.shown(place),
        "size": str(found.st_size),
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": "user",
        "group": "user",
    }
    if place.is_symlink():
        entry["symlinkTarget"] = str(place.readlink())
    return entry


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _encoded(event: dict[str, Any]) -> dict[str, Any]:
    data = event.get("data")
    return {"data": {name: base64.b64encode(chunk).decode() for name, chunk in data.items()}} if data else event


def _envelope(message: dict[str, Any], flags: int = 0) -> bytes:
    body = json.dumps(message).encode()
    return bytes([flags]) + len(body).to_bytes(4, "big") + body


def _json(body: object, status: int = 200) -> web.Response:
    from aiohttp import web

    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")


def _problem(status: int, message: str) -> web.Response:
    return _json({"code": status, "message": message}, status)


def _fault(status: int, code: str, message: str) -> web.Response:
    return _json({"code": code, "message": message}, status)


def _missing(path: str) -> web.Response:
    return _fault(404, "not_found", f"path not found: {path}")
