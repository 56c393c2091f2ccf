"""A program that is spoken to in lines, and of which nothing is left when it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LONGEST_LINE = 4 * 1024 * 1024
_STDERR_KEPT = 4096
_GRACE_S = 0.5
_LINES_AHEAD = 256


class TooLong(Exception):
    """A line that is longer than `LONGEST_LINE` bytes."""


class LineProcess:
    """Leads a process group of its own, which dies with it."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport) -> None:
        self._process = process
        self._transport = transport
        self._stderr = b""
        self._lines: asyncio.Queue[bytes | TooLong | None] = asyncio.Queue(_LINES_AHEAD)
        self._listening: asyncio.Task[None] = asyncio.create_task(self._read_stdout())
        self._reading: asyncio.Task[None] = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(cls, argv: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> LineProcess:
        """Raises `OSError` when it cannot be started."""
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
        """Raises `ConnectionError` when the program no longer reads."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def read(self) -> bytes | None:
        """The next line, without its end; None when there will be no more. Raises `TooLong`."""
        line = await self._lines.get()
        if isinstance(line, TooLong):
            raise line
        return line

    @property
    def unread(self) -> bool:
        """Whether it has written something that nobody has read."""
        return not self._lines.empty()

    def take_unread(self, wanted: Callable[[bytes], bool] = lambda line: True) -> list[bytes]:
        """The lines that have arrived and nobody has read, up to the first that is not wanted; that stays unread."""
        arrived = [self._lines.get_nowait() for _ in range(self._lines.qsize())]
        count = 0
        while count < len(arrived) and isinstance(line := arrived[count], bytes) and (not line.strip() or wanted(line)):
            count += 1
        for line in arrived[count:]:
            self._lines.put_nowait(line)
        return [line for line in arrived[:count] if isinstance(line, bytes) and line.strip()]

    async def last_words(self) -> tuple[int | None, str]:
        """The exit code, None while it still runs, and the end of what it wrote to stderr."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
                await asyncio.shield(self._reading)
        return self._process.returncode, self._stderr.decode("utf-8", "replace").strip()

    async def end(self) -> list[bytes]:
        """Close its stdin, give it a moment, and kill it with everything it started. The lines that it wrote and nobody
        has read."""
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
