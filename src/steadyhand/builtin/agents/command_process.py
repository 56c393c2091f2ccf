"""A child program that is talked to line by line, and killed with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.builtin.agents.trajectory import latest_user_text
from steadyhand.errors import AgentError
from steadyhand.ports.agent import TrialContext, Turn
from steadyhand.records.base import shorten
from steadyhand.records.event import ActionStatus

LONGEST_LINE = 4 * 1024 * 1024
_STDERR_KEPT = 4096
_GRACE_S = 0.5
_LINES_AHEAD = 256


class TooLong(Exception):
    """A line is longer than `LONGEST_LINE` bytes."""


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
    async def start(cls, argv: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> LineProcess:
        """Raises `OSError` if it cannot be started."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=LONGEST_LINE, loop=loop),
            *argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        return cls(Process(transport, protocol, loop), transport)

    async def write(self, line: bytes) -> None:
        """Raises `ConnectionError` if the program no longer reads."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def tell(self, text: bytes) -> None:
        """Write all that it will be told, and close its stdin. One that does not read it may have no use for it."""
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
        """Whether it has written something that was not read yet."""
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


_SHOWN = 200


class ThoughtLine(msgspec.Struct, tag="thought", forbid_unknown_fields=True):
    text: str


class ActionLine(msgspec.Struct, tag="action", forbid_unknown_fields=True):
    """An action. With `result`, its observation is recorded too."""

    name: str
    params: dict[str, Any] = {}
    status: ActionStatus = "success"
    result: Any = msgspec.UNSET
    duration_ms: float = 0.0


class ObservationLine(msgspec.Struct, tag="observation", forbid_unknown_fields=True):
    """The result of the last action of this name."""

    name: str
    content: Any = None


class CallLine(msgspec.Struct, tag="call", forbid_unknown_fields=True):
    """Calls a service's method. The answer is a line of type `result` or `fault` with the same `id`."""

    service: str
    method: str
    id: Any = None
    args: list[Any] = []
    params: dict[str, Any] = {}


class ReplyLine(msgspec.Struct, tag="reply", forbid_unknown_fields=True):
    """Ends the turn. If `number` is given, it must be that of the turn."""

    text: str
    number: int | None = None


class FailureLine(msgspec.Struct, tag="error", forbid_unknown_fields=True):
    """The program reports that it failed."""

    message: str


OutputLine = ThoughtLine | ActionLine | ObservationLine | CallLine | ReplyLine | FailureLine
_decoder = msgspec.json.Decoder(OutputLine)
_EXPECTED = "a JSON object with a `type` of thought, action, observation, call, error or reply"


def turn_line(turn: Turn, trial: TrialContext, workspace: Path) -> bytes:
    remaining = None if turn.deadline is None else max(0.0, turn.deadline - trial.clock.now())
    return msgspec.json.encode(
        {
            "type": "turn",
            "number": turn.number,
            "input": latest_user_text(turn),
            "messages": [{"role": message.role, "content": message.content} for message in turn.messages],
            "seed": trial.seed,
            "workspace": str(workspace),
            "remaining_s": remaining,
        }
    )


def read_line_of(raw: bytes) -> OutputLine:
    """Raises `AgentError` for a line that does not follow the protocol."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AgentError(
            f"it wrote {shown(raw)} to stdout ({error}); expected {_EXPECTED}, and everything else on stderr"
        ) from error


def is_report(raw: bytes) -> bool:
    """Whether the line only reports what the program did."""
    try:
        return isinstance(_decoder.decode(raw), ThoughtLine | ActionLine | ObservationLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def shown(raw: bytes) -> str:
    """A line as messages quote it."""
    return repr(shorten(raw.decode("utf-8", "replace"), _SHOWN))
