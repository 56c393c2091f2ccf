"""Connections to an MCP server: over the stdin and stdout of a program, and over streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import Field, ValidationError

from steadyhand.builtin.services.mcp import LARGEST_ANSWER, McpConnection, McpService
from steadyhand.children.program import CommandLine, LineProcess, TooLong, read_command
from steadyhand.errors import ServiceError, SetupError
from steadyhand.plugins.plugin import Options, read_options
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import MarksPrograms, OnThisMachine
from steadyhand.ports.services import ProvidedService
from steadyhand.records.base import shorten
from steadyhand.records.event import Noted
from steadyhand.records.scenario import RealService

_TOO_LARGE = f"sent an answer of more than {LARGEST_ANSWER // 2**20} MiB"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class McpOptions(Options):
    """`api_key_env` names the variable with the bearer token for a server at a URL, `headers` are sent to it, and
    `start_timeout_s` is how long a server may take until its tools are known."""

    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}
    start_timeout_s: float = Field(default=60.0, gt=0)


def mcp_service(
    service: RealService, *, folder: Path, variables: Mapping[str, str], options: Mapping[str, Any]
) -> ProvidedService:
    """Raises `SetupError` for a missing program, and for an invalid option."""
    owner = f"service {service.name}"
    read = read_options(McpOptions, options, owner)
    connection = _connection(service, folder, variables, read, owner)

    def build() -> McpService:
        return McpService(
            service.name, connection, timeout_s=service.timeout_ms / 1000.0, start_timeout_s=read.start_timeout_s
        )

    return ProvidedService(build=build, plugin="steadyhand", tools=True, at_once=True)


def _connection(
    service: RealService, folder: Path, variables: Mapping[str, str], options: McpOptions, owner: str
) -> McpConnection:
    if service.has_url:
        headers = dict(options.headers)
        if options.api_key_env is not None:
            key = variables.get(options.api_key_env)
            if not key:
                raise SetupError(f"{owner}: option api_key_env: {options.api_key_env} is not set")
            headers["Authorization"] = f"Bearer {key}"
        return HttpConnection(service.mcp, headers)
    for given in ("api_key_env", "headers"):
        if getattr(options, given):
            raise SetupError(f"{owner}: option {given} is for an MCP server at a URL, not for a command")
    line = read_command(
        service.mcp,
        folder=folder,
        variables=variables,
        owner=f"{owner}: ",
        expected="a command line that starts an MCP server, or its URL",
    )
    return StdioConnection(line)


class StdioConnection:
    """A program in the trial's workspace, with a clean environment, killed with everything it started."""

    def __init__(self, line: CommandLine) -> None:
        self._line = line

    @property
    def name(self) -> str:
        return f"`{self._line.shown}`"

    @contextlib.asynccontextmanager
    async def open(self, trial: TrialContext, failed: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
        process = await self._started(trial)
        to_session, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        pumps = [
            asyncio.create_task(self._read(process, to_session, failed, trial)),
            asyncio.create_task(_write(process, from_session)),
        ]
        try:
            yield reading, writing
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.shield(process.end())
            await asyncio.wait(pumps)
            for stream in (to_session, reading, writing, from_session):
                await stream.aclose()

    async def _started(self, trial: TrialContext) -> LineProcess:
        environment = trial.environment
        if not isinstance(environment, OnThisMachine):
            raise ServiceError(f"runs on this machine, but the environment {environment.name!r} has no folder here")
        folder = await environment.folder()
        argv = environment.marked(self._line.argv) if isinstance(environment, MarksPrograms) else self._line.argv
        env = self._line.environment(folder, {})
        try:
            return await LineProcess.start(argv, folder=folder, env=env, longest=LARGEST_ANSWER)
        except (OSError, ValueError) as error:
            raise ServiceError(f"could not be started: {error}") from error

    async def _read(
        self, process: LineProcess, to_session: Any, failed: Callable[[str], None], trial: TrialContext
    ) -> None:
        begun = False
        try:
            while (raw := await process.read()) is not None:
                if not raw.strip() or (not begun and not raw.lstrip().startswith(b"{")):
                    self._ignore(raw, trial)
                    continue
                begun = True
                try:
                    message = types.JSONRPCMessage.model_validate_json(raw)
                except ValidationError:
                    failed(f"wrote {self._quoted(raw)} to stdout, which is not an MCP message")
                    return
                await to_session.send(SessionMessage(message))
        except TooLong:
            failed(_TOO_LARGE)
            return
        code, said = await process.last_words()
        how = "closed its stdout" if code is None else f"exited with code {code}"
        end = f"; stderr: {said}" if said else "; nothing on stderr"
        failed(self._line.hidden(how + end))

    def _ignore(self, raw: bytes, trial: TrialContext) -> None:
        """Some servers print a greeting on stdout first, which other clients accept."""
        if raw.strip():
            message = f"the MCP server {self.name} wrote {self._quoted(raw)} to stdout, which is not an MCP message"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message, level="warning"))

    def _quoted(self, raw: bytes) -> str:
        return repr(shorten(self._line.hidden(raw.decode("utf-8", "replace")), 200))


async def _write(process: LineProcess, from_session: Any) -> None:
    with contextlib.suppress(ConnectionError):  # its end is detected by the reader
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_none=True)
            await process.write(text.encode())


class HttpConnection:
    """A server at a URL. It is sent only the headers that the user configured for it."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers

    @property
    def name(self) -> str:
        return f"at {urlsplit(self._url)._replace(query='', fragment='').geturl()}"

    @contextlib.asynccontextmanager
    async def open(self, trial: TrialContext, failed: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
        async def bounded(response: httpx.Response) -> None:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Answer(response.stream, failed, needed=response.request.method == "POST")

        # A key must not follow a redirect. This machine is never reached through a proxy.
        remote = urlsplit(self._url).hostname not in _LOOPBACK
        client = httpx.AsyncClient(
            headers=dict(self._headers),
            verify=_certificates(trust_env=remote),
            follow_redirects=False,
            trust_env=remote,
            timeout=httpx.Timeout(30.0, read=None),
            event_hooks={"response": [bounded]},
        )
        async with client, streamable_http_client(self._url, http_client=client) as (reading, writing, _):
            yield reading, writing


@functools.cache
def _certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Read once, and not for every trial: reading them takes longer than most calls."""
    return httpx.create_ssl_context(trust_env=trust_env)


class _Answer(httpx.AsyncByteStream):
    """Reports an answer that is too large or, if a caller is waiting for it, incomplete. The SDK does not report
    this."""

    def __init__(self, stream: httpx.AsyncByteStream, failed: Callable[[str], None], *, needed: bool) -> None:
        self._stream = stream
        self._failed = failed
        self._needed = needed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        try:
            async for piece in self._stream:
                taken += len(piece)
                if taken > LARGEST_ANSWER:
                    self._failed(_TOO_LARGE)
                    return
                yield piece
        except httpx.TransportError as error:
            if self._needed:
                self._failed(f"did not finish its answer: {error}")
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()
