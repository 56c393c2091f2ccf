"""Running one command to completion, whatever it does with its pipes and its children."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from steadyhand.children.daemons import kill_group
from steadyhand.records.base import Record
from steadyhand.records.result import CommandResult


class BoundedOutput:
    """Takes any number of bytes and keeps at most `limit`: half from the beginning, half from the end."""

    def __init__(self, limit: int) -> None:
        self._head_room: int = limit // 2
        self._tail_limit: int = limit - limit // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size: int = 0
        self._dropped: int = 0

    @property
    def truncated(self) -> bool:
        return self._dropped > 0

    def add(self, data: bytes) -> None:
        if self._head_room:
            self._head.append(data[: self._head_room])
            data = data[self._head_room :]
            self._head_room -= len(self._head[-1])
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._tail_limit:
            excess = self._tail_size - self._tail_limit
            first = self._tail.popleft()
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
            gone = min(len(first), excess)
            self._tail_size -= gone
            self._dropped += gone

    def text(self) -> str:
        """The text, with invalid UTF-8 replaced, and a line that says how much was left out."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if not self._dropped:
            return (head + tail).decode("utf-8", "replace")
        note = f"\n[... {self._dropped} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


_DRAIN_S = 0.5
_DEATH_S = 5.0
_THROTTLE_S = 0.001
_PIECE_S = 0.25


class Command(Record):
    """A program with its arguments, and where and how to run it."""

    argv: Sequence[str]
    folder: Path
    env: Mapping[str, str]
    timeout_s: float
    output_limit: int
    stdin: bytes | None = None
    pass_fds: tuple[int, ...] = ()


async def run_command(command: Command, kill_daemons: Callable[[int], None]) -> CommandResult:
    """Run it and leave nothing behind: its process group is killed, then `kill_daemons(pid)` is called in a thread.

    A program that cannot be started gives the exit code a shell would: 127 if it does not exist, 126 if it is not
    executable. Raises `OSError` or `ValueError` if the system refuses for another reason.
    """
    began = time.perf_counter()
    starting = asyncio.create_task(_start(command))
    cancelled = await _wait_uncancelled(starting)
    try:
        transport, watch = starting.result()
    except OSError as error:
        if cancelled:
            raise asyncio.CancelledError from error
        return _not_started(command, error)
    pid = transport.get_pid()
    timed_out = False
    try:
        if cancelled:
            # The program may be running before we hear of it. If we are cancelled then, it is killed like any other.
            raise asyncio.CancelledError
        _feed(transport, command.stdin)
        timed_out = not await watch.ended_within(command.timeout_s)
    finally:
        kill_group(pid)
        await _uninterrupted(_clear_up(transport, watch, kill_daemons))
    ended = watch.ended_at or time.perf_counter()
    return CommandResult(
        exit_code=_exit_code(transport.get_returncode()),
        stdout=watch.stdout.text(),
        stderr=watch.stderr.text(),
        duration_ms=(ended - began) * 1000,
        timed_out=timed_out,
        truncated=watch.stdout.truncated or watch.stderr.truncated,
    )


async def _start(command: Command) -> tuple[asyncio.SubprocessTransport, _Watch]:
    return await asyncio.get_running_loop().subprocess_exec(
        lambda: _Watch(command.output_limit),
        *command.argv,
        stdin=asyncio.subprocess.DEVNULL if command.stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=command.folder,
        env=command.env,
        pass_fds=command.pass_fds,
        start_new_session=True,
    )


def _not_started(command: Command, error: OSError) -> CommandResult:
    if error.errno == errno.ENOENT and command.folder.is_dir():
        return CommandResult(exit_code=127, stdout="", stderr=f"{command.argv[0]}: command not found", duration_ms=0.0)
    if error.errno in (errno.EACCES, errno.ENOEXEC):
        return CommandResult(exit_code=126, stdout="", stderr=f"{command.argv[0]}: {error.strerror}", duration_ms=0.0)
    raise error


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes | None) -> None:
    if stdin is None:
        return
    pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    pipe.write(stdin)
    pipe.write_eof()


async def _clear_up(transport: asyncio.SubprocessTransport, watch: _Watch, kill_daemons: Callable[[int], None]) -> None:
    """Read what is left in the pipes, but do not wait for a stray process that keeps them open."""
    try:
        await asyncio.to_thread(kill_daemons, transport.get_pid())
        await watch.ended_within(_DEATH_S)
        await watch.drained_within(_DRAIN_S)
    finally:
        transport.close()


async def _uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Finish `work` even if we are cancelled, then propagate the cancellation."""
    task = asyncio.create_task(work)
    if await _wait_uncancelled(task):
        raise asyncio.CancelledError
    task.result()


async def _wait_uncancelled(task: asyncio.Task[Any]) -> bool:
    """Wait until it is done, even if we are cancelled meanwhile. Returns whether we were."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _exit_code(returncode: int | None) -> int:
    """Death by signal n is 128 + n, as in a shell."""
    if returncode is None:
        return 128 + 9
    return 128 - returncode if returncode < 0 else returncode


class _Watch(asyncio.SubprocessProtocol):
    """Collects the output, and notes when the program ended and when its pipes were closed, which may be later."""

    def __init__(self, output_limit: int) -> None:
        self.stdout: BoundedOutput = BoundedOutput(output_limit)
        self.stderr: BoundedOutput = BoundedOutput(output_limit)
        self.ended_at: float | None = None
        self._ended: asyncio.Event = asyncio.Event()
        self._drained: asyncio.Event = asyncio.Event()
        self._open: set[int] = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        output = self.stdout if fd == 1 else self.stderr
        output.add(data)
        if output.truncated:
            self._throttle(fd)

    def _throttle(self, fd: int) -> None:
        """A program that never stops printing must not starve the other trials' event loop."""
        assert self._transport is not None
        pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(fd))
        if pipe is None or pipe.is_closing() or self._ended.is_set():
            return
        pipe.pause_reading()
        asyncio.get_running_loop().call_later(_THROTTLE_S, self._resume, pipe)

    def _resume(self, pipe: asyncio.ReadTransport) -> None:
        if not pipe.is_closing():
            pipe.resume_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self._drained.set()

    def process_exited(self) -> None:
        self.ended_at = time.perf_counter()
        self._ended.set()

    async def ended_within(self, seconds: float) -> bool:
        return await _within(self._ended, seconds)

    async def drained_within(self, seconds: float) -> bool:
        return await _within(self._drained, seconds)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """In short pieces, so that of a time at which this process was stopped, only one of them counts."""
    while seconds > 0 and not event.is_set():
        piece = min(seconds, _PIECE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(piece):
                await event.wait()
        seconds -= piece
    return event.is_set()
