"""A user's program: its command line, its environment, and its process, which communicates line by line and is killed
with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.redaction import secrets_in_command
from steadyhand.user_file import file_beside

LONGEST_LINE = 4 * 1024 * 1024
_STDERR_KEPT = 4096
_GRACE_S = 0.5
_LINES_AHEAD = 256
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_INHERITED = ("PATH", "LANG", "TERM", "TZ")


class CommandLine(Record):
    """A command line. `shown` is the line without the values of its variables; `secrets` are values to keep out of
    messages."""

    argv: tuple[str, ...]
    shown: str
    variables: Mapping[str, str]
    secrets: tuple[str, ...] = ()

    def environment(self, folder: Path, addresses: Mapping[str, str]) -> dict[str, str]:
        """The program's environment: only the variables that the command line passes, and the trial's addresses."""
        inherited = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
        return {
            "PATH": os.defpath,
            **inherited,
            "HOME": str(folder),
            "PWD": str(folder),
            **addresses,
            **self.variables,
            # The local environment kills every process that has its workspace in this variable.
            "STEADYHAND_TRIAL": folder.name,
        }

    def hidden(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def read_command(
    line: str,
    *,
    folder: Path,
    variables: Mapping[str, str],
    owner: str = "agent command:",
    expected: str = "command:PROGRAM ARGUMENTS, such as command:node ./agent.js",
) -> CommandLine:
    """Leading `NAME=value` words set variables for the program, and `$NAME` in them is replaced from our environment.
    Words that begin with `./` or `../` are files next to the scenario.

    Raises `SetupError` for bad quoting, a missing file or program, or a variable that is not set. Its message begins
    with `owner`.
    """
    where = owner.rstrip(": ")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SetupError(f"{where}: bad quoting: {error}") from error
    given: dict[str, str] = {}
    secrets: list[str] = [*secrets_in_command(line)]
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        given[match[1]] = _filled(match[2], variables, f"{where}: {match[1]}", secrets)
        words.pop(0)
    if not words:
        raise SetupError(f"{where}: expected {expected}")
    shown = shlex.join(words)
    where = f"{owner}{shown}"
    argv = [
        str(file_beside(word, folder, wanted_by=where)) if word.startswith(("./", "../")) else word for word in words
    ]
    program = shutil.which(argv[0], path=given.get("PATH", variables.get("PATH", os.defpath)))
    if program is None:
        hint = " (is it executable?)" if Path(argv[0]).is_file() else "; write ./NAME for a file next to the scenario"
        raise SetupError(f"{where}: program not found: {argv[0]!r}{hint}")
    return CommandLine(argv=(program, *argv[1:]), shown=shown, variables=given, secrets=tuple(secrets))


def _filled(value: str, variables: Mapping[str, str], where: str, secrets: list[str]) -> str:
    def found(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise SetupError(f"{where} uses ${name}, which is not set in the environment or the --env-file")
        if len(variables[name]) >= 6:
            secrets.append(variables[name])
        return variables[name]

    return _REFERENCE.sub(found, value)


class TooLong(Exception):
    """A line exceeds the limit."""


class LineProcess:
    """A program in its own process group, which is killed with it."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport) -> None:
        self._process = process
        self._transport = transport
        self._stderr = b""
        self._lines: asyncio.Queue[bytes | TooLong | None] = asyncio.Queue(_LINES_AHEAD)
        self._listening: asyncio.Task[None] = asyncio.create_task(self._read_stdout())
        self._reading: asyncio.Task[None] = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, folder: Path, env: Mapping[str, str], longest: int = LONGEST_LINE
    ) -> LineProcess:
        """`longest` is how many bytes a line may have. Raises `OSError` if it cannot be started."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=longest, loop=loop),
            *argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        return cls(Process(transport, protocol, loop), transport)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def write(self, line: bytes) -> None:
        """Raises `ConnectionError` if the program no longer reads."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def tell(self, text: bytes) -> None:
        """Write its input and close its stdin. It is not an error if the program does not read it."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(text)
            await self._process.stdin.drain()
        self._process.stdin.close()

    async def read(self) -> bytes | None:
        """The next line without its line break, or None at the end. Raises `TooLong`."""
        line = await self._lines.get()
        if isinstance(line, TooLong):
            raise line
        return line

    @property
    def unread(self) -> bool:
        """Whether it has written something that has not been read yet."""
        return not self._lines.empty()

    def take_unread(self, wanted: Callable[[bytes], bool] = lambda line: True) -> list[bytes]:
        """The unread lines up to the first that is not `wanted`, which stays unread."""
        arrived = [self._lines.get_nowait() for _ in range(self._lines.qsize())]
        count = 0
        while count < len(arrived) and isinstance(line := arrived[count], bytes) and (not line.strip() or wanted(line)):
            count += 1
        for line in arrived[count:]:
            self._lines.put_nowait(line)
        return [line for line in arrived[:count] if isinstance(line, bytes) and line.strip()]

    async def last_words(self) -> tuple[int | None, str]:
        """The exit code (None while it runs) and the end of its stderr."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
                await asyncio.shield(self._reading)
        return self._process.returncode, self._stderr.decode("utf-8", "replace").strip()

    async def end(self) -> list[bytes]:
        """Close its stdin, give it a moment, and kill it with everything it started. Returns the unread lines."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._process.wait()
                    await asyncio.shield(self._listening)
        finally:
            self.kill()
            self._transport.close()
            self._reading.cancel()
            self._listening.cancel()
        await self._process.wait()
        return self.take_unread()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                await self._lines.put(line.rstrip(b"\r\n"))
            await self._lines.put(None)
        except ValueError:
            await self._lines.put(TooLong())

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(65_536):
            self._stderr = (self._stderr + piece)[-_STDERR_KEPT:]
