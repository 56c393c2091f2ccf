"""Connections to an MCP server: over the stdin and stdout of a program, and over streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

from steadyhand.builtin.services.mcp import McpService
from steadyhand.builtin.services.mcp_http import HttpConnection
from steadyhand.builtin.services.mcp_session import (
    LARGEST_ANSWER,
    NOT_A_MESSAGE,
    TOO_LARGE,
    McpConnection,
    McpEnds,
    read_message,
)
from steadyhand.children.program import CommandLine, LineProcess, TooLong, read_command
from steadyhand.errors import ServiceError, SetupError
from steadyhand.plugins.plugin import Options, read_options
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import MarksPrograms, OnThisMachine
from steadyhand.ports.services import ProvidedService
from steadyhand.records.base import shorten
from steadyhand.records.event import Noted
from steadyhand.records.scenario import RealService


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
    async def open(self, trial: TrialContext, ends: McpEnds) -> AsyncGenerator[_StdioLine]:
        process = await self._started(trial)
        reading = asyncio.create_task(self._read(process, ends, trial))
        try:
            yield _StdioLine(process)
        finally:
            reading.cancel()
            await asyncio.shield(process.end())
            await asyncio.wait((reading,))

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

    async def _read(self, process: LineProcess, ends: McpEnds, trial: TrialContext) -> None:
        begun = False
        try:
            while (raw := await process.read()) is not None:
                if not raw.strip() or (not begun and not raw.lstrip().startswith(b"{")):
                    self._ignore(raw, trial)
                    continue
                begun = True
                try:
                    ends.received(read_message(raw))
                except NOT_A_MESSAGE:
                    ends.failed(f"wrote {self._quoted(raw)} to stdout, which is not an MCP message")
                    return
        except TooLong:
            ends.failed(TOO_LARGE)
            return
        code, said = await process.last_words()
        how = "closed its stdout" if code is None else f"exited with code {code}"
        end = f"; stderr: {said}" if said else "; nothing on stderr"
        ends.failed(self._line.hidden(how + end))

    def _ignore(self, raw: bytes, trial: TrialContext) -> None:
        """Some servers print a greeting on stdout first, which other clients accept."""
        if raw.strip():
            message = f"the MCP server {self.name} wrote {self._quoted(raw)} to stdout, which is not an MCP message"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message, level="warning"))

    def _quoted(self, raw: bytes) -> str:
        return repr(shorten(self._line.hidden(raw.decode("utf-8", "replace")), 200))


class _StdioLine:
    """An `McpLine`."""

    def __init__(self, process: LineProcess) -> None:
        self.version: str = ""
        self._process = process

    async def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # its end is detected by the reader
            await self._process.write(msgspec.json.encode(message))
