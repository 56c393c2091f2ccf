"""A child process: how it is started, what it prints, and that it is killed with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from steadyhand.children.channel import Frame, Frames, send_variables
from steadyhand.children.daemons import (
    COMMAND_MARK,
    TRIAL_MARK,
    adopt_orphans,
    carry_mark,
    kill_group,
    kill_marked,
    kill_tree,
)
from steadyhand.records.base import plain_text, shorten

_OUTPUT_KEPT = 16 * 1024
_HELPING = 256 * 1024
_OUTPUT_PAUSE_S = 0.02
_TAIL = 2_000
_REMEMBERED_S = 5.0
_NEEDED_AT_START = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV")
_NEEDED_IN_ISOLATION = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_NEEDED_PREFIXES = ("PYTHON", "LC_", "LD_", "DYLD_", "GLIBC_", "MALLOC_")
# The collector would look for garbage in what is being imported, of which there is none.
_BEGIN = (
    "import gc, json, sys; gc.disable(); sys.path[:] = json.loads(sys.argv[2]); "
    "from importlib import import_module; module, name = sys.argv[3].split(':'); "
    "main = getattr(import_module(module), name); gc.freeze(); gc.enable(); main(int(sys.argv[1]))"
)


class Output:
    """The end of what a child prints. It is read in small portions, so that a flood slows down the child and not us."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(fd, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # an agent that prints a reasonable amount never waits for us
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 2**20)

    @property
    def fd(self) -> int:
        return self._fd

    def attach(self) -> None:
        self._kept.clear()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._readable)

    def detach(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._loop is not None and self._fd >= 0:
            self._loop.remove_reader(self._fd)
        self._loop = None

    def read(self) -> int | None:
        """Read one portion of what there is: the number of bytes, or None at the end."""
        try:
            data = os.read(self._fd, _HELPING)
        except BlockingIOError:
            return 0
        except OSError:
            return None
        self._kept += data
        del self._kept[:-_OUTPUT_KEPT]
        return len(data) or None

    def text(self) -> str:
        for _ in range(16):
            if not self.read():
                break
        return plain_text(self._kept.decode("utf-8", "replace")).strip()

    def close(self) -> None:
        self.detach()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        loop = self._loop
        if loop is None:
            return
        loop.remove_reader(self._fd)
        if self.read() is not None:
            self._pause = loop.call_later(_OUTPUT_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        if self._loop is not None:
            self._loop.add_reader(self._fd, self._readable)


class Handle(Protocol):
    """A process and its exit code, as `subprocess.Popen` has them."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def release(self) -> None: ...


class _Started(subprocess.Popen[bytes]):
    def release(self) -> None: ...


class SupervisedProcess:
    """A process of ours with a connection to it. It leads its own session, so that terminal signals do not reach it,
    and carries `mark`, a name and a number separated by a dot, by which everything that it starts can be found; without
    a mark, it starts nothing that would leave its tree."""

    trusted: ClassVar[dict[int, float]] = {}
    """Those that run the user's own code, such as a check's, by their process ID, and when they ended. What they open
    is not what an agent opens."""

    def __init__(self, process: Handle, connection: socket.socket, output: Output, mark: str) -> None:
        self._process: Handle = process
        self._mark: str = mark
        self.connection: socket.socket = connection
        self.output: Output = output

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def first_frame(self, deadline: float) -> Frame | None:
        """Block until it sends a message, and read what it prints meanwhile; None if it closes the connection instead.

        `deadline` is a time of `time.monotonic()`. Raises `TimeoutError`, and `MalformedMessage` if it is not one.
        """
        frames = Frames()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.connection, selectors.EVENT_READ)
            waiting.register(self.output.fd, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0:
                for key, _ in waiting.select(left_s):
                    if key.fileobj == self.output.fd:
                        if self.output.read() is None:
                            waiting.unregister(self.output.fd)
                        continue
                    data = self.connection.recv(64 * 1024)
                    if not data:
                        return None
                    for frame in frames.feed(data):
                        return frame
        raise TimeoutError

    def kill(self) -> None:
        """Kill it immediately, with its descendants and its process group. Safe to call twice."""
        if self._process.poll() is None:
            kill_tree(self._process.pid)
        else:
            kill_group(self._process.pid)

    def bury(self) -> None:
        """Kill what it left running, and release its resources. Waits for its imminent end."""
        self.kill()
        self._process.wait()
        if self.pid in self.trusted:
            self.trusted[self.pid] = time.monotonic()
        self._process.release()
        self.output.close()
        if self._mark:
            kill_marked(self._mark)

    def trust(self) -> None:
        now = time.monotonic()
        for pid in [pid for pid, ended in self.trusted.items() if ended < now - _REMEMBERED_S]:
            del self.trusted[pid]
        self.trusted[self.pid] = math.inf

    async def ended(self, within_s: float = 0.5) -> str:
        """How it ended, if it ends in time; empty otherwise."""
        left_s = within_s
        while self.alive and left_s > 0:
            await asyncio.sleep(0.005)
            left_s -= 0.005
        return self.how_it_ended()

    def how_it_ended(self, *, wait_s: float = 0.0) -> str:
        """Such as ` with exit code 3` or ` by SIGKILL`; empty while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = signalled(self._process.wait(timeout=wait_s))
            if code >= 0:
                return f" with exit code {code}"
            with contextlib.suppress(ValueError):
                return f" by {signal.Signals(-code).name}"
            return f" by signal {-code}"
        return ""

    def last_words(self) -> str:
        text = self.output.text()
        return f"; the end of its output: {shorten(text, _TAIL, keep='end')}" if text else ""


class ChildProcess(SupervisedProcess):
    """Runs `main`, a `module:function` that is called with the descriptor of its end of `connection`.

    Variables are sent over the connection, except those that the interpreter needs to start, because the initial
    environment can be read in `/proc`.
    """

    interpreters: ClassVar[dict[str, Sequence[str]]] = {}
    """The command to start instead of our own interpreter, by `main`: for one that has already done the imports."""

    def __init__(
        self,
        main: str,
        variables: Mapping[str, str],
        *,
        mark: str,
        room: Callable[[Sequence[str]], Sequence[str]] = lambda argv: argv,
    ) -> None:
        """`room` returns the command line that starts another one in a room of its own. Raises `OSError` when no
        process can be started."""
        python = self.interpreters.get(main, (sys.executable,))
        marks = marks_of(mark)
        started = _started(
            lambda fd: room([*python, "-P", "-u", "-c", _BEGIN, str(fd), json.dumps(sys.path), main]),
            {**{each: value for each, value in variables.items() if _needed_at_start(each)}, **marks},
        )
        super().__init__(*started, mark)
        with contextlib.suppress(OSError):  # it died immediately, which is reported at the first call
            send_variables(self.connection, {**variables, **marks})


class IsolatedChild(SupervisedProcess):
    """Runs a file of ours that imports nothing of ours, in isolated mode and with an empty environment. Its arguments
    are the descriptor of its end of `connection`, and then `arguments`."""

    def __init__(self, file: Path, *arguments: str) -> None:
        """Raises `OSError` when no process can be started."""
        env = {name: os.environ[name] for name in _NEEDED_IN_ISOLATION if name in os.environ}
        super().__init__(*_started(lambda fd: [sys.executable, "-I", str(file), str(fd), *arguments], env), "")


def _started(command: Callable[[int], Sequence[str]], env: Mapping[str, str]) -> tuple[Handle, socket.socket, Output]:
    """The process whose command line is made of the descriptor of its end of the connection."""
    ours, theirs = socket.socketpair()
    out, into = os.pipe()
    try:
        process = _Started(
            command(theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=into,
            stderr=into,
            pass_fds=(theirs.fileno(),),
            env=env,
            start_new_session=True,
        )
    except OSError:
        ours.close()
        os.close(out)
        raise
    finally:
        theirs.close()
        os.close(into)
    return process, ours, Output(out)


def marks_of(mark: str) -> dict[str, str]:
    return {TRIAL_MARK: mark.rpartition(".")[0], COMMAND_MARK: mark}


def signalled(code: int) -> int:
    """An exit code, with that of a shell for a program that a signal ended as Python gives it: negative."""
    return 128 - code if 128 < code <= 128 + signal.SIGRTMAX else code


def _needed_at_start(name: str) -> bool:
    """Whether the interpreter or the loader reads this variable. All others, including keys, are sent over the
    connection, because the initial environment can be read in `/proc`."""
    return name in _NEEDED_AT_START or name.startswith(_NEEDED_PREFIXES)


def keep_together() -> None:
    """Called by a child before it runs untrusted code: everything it starts from now on can be found."""
    carry_mark()
    adopt_orphans()


def die_with_parent() -> None:
    """Called by a child, so that it does not outlive us even if it never reads its connection. On systems other than
    Linux it ends at its next read."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
