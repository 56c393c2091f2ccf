"""Starts copies of this process: a worker that has everything imported and loaded when it begins.

A copy can only be made safely of a process with one thread and no event loop. The driver of a run has both as soon as
it runs trials, and may need another worker then. So it is copied once, before: the copy, the nursery, does nothing but
make further copies of itself when it is asked to.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

from steadyhand.children.process import Handle, Output, SupervisedProcess, die_with_parent, marks_of

_NUMBER = 8
_PR_SET_NAME = 15
_NAME = b"steadyhand-work"


def can_be_copied() -> bool:
    """Whether this process has one thread, native ones included, and no running event loop."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    return False


class Nursery:
    """`main` is what a copy runs, with the descriptor of its end of the connection; it must not return.

    Raises `OSError` if no process can be started.
    """

    def __init__(self, main: Callable[[int], None]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()
        driver = os.getpid()
        self._pid: int = os.fork()
        if self._pid == 0:
            try:
                ours.close()
                _become_child(driver)
                _Attendant(theirs, main).tend()
            finally:
                os._exit(1)
        theirs.close()
        self._socket: socket.socket = ours

    def start(self, mark: str) -> SupervisedProcess:
        """Raises `OSError` if it cannot."""
        ours, theirs = socket.socketpair()
        control, its_control = socket.socketpair()
        out, into = os.pipe()
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [mark.encode()], [theirs.fileno(), into, its_control.fileno()])
        theirs.close()
        its_control.close()
        os.close(into)
        _wake(self._pid)
        pid = control.recv(_NUMBER)
        if not pid:
            ours.close()
            control.close()
            os.close(out)
            raise OSError("the process that makes workers has ended")
        return SupervisedProcess(_Copy(int(pid), control, self._pid), ours, Output(out), mark)

    def close(self) -> None:
        """Ends what it has started, too. Safe to call twice."""
        if self._pid:
            self._socket.close()
            _wake(self._pid)
            os.waitpid(self._pid, 0)
            self._pid = 0


class _Copy(Handle):
    """A process that is the nursery's child. It keeps its ID until `wait` has returned and this is closed."""

    def __init__(self, pid: int, control: socket.socket, nursery: int) -> None:
        self.pid: int = pid
        self._control = control
        self._nursery = nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            _wake(self._nursery)
            self._control.settimeout(timeout)
            try:
                exit_code = self._control.recv(_NUMBER)
            except (BlockingIOError, TimeoutError) as error:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from error
            except OSError:
                exit_code = b""
            self._code = int(exit_code) if exit_code else -signal.SIGKILL  # the nursery has ended, and it with it
        return self._code

    def release(self) -> None:
        self._control.close()


def _wake(nursery: int) -> None:
    """Were it stopped, we would wait for good."""
    if nursery:
        with contextlib.suppress(OSError):
            os.kill(nursery, signal.SIGCONT)


class _Attendant:
    """The nursery's own process: one thread, which waits for requests and for the end of what it started."""

    def __init__(self, requests: socket.socket, main: Callable[[int], None]) -> None:
        self._requests = requests
        self._main = main
        _occupy(requests.fileno())
        self._waiting = selectors.DefaultSelector()
        self._alive: dict[int, tuple[int, socket.socket]] = {}

    def tend(self) -> None:
        self._waiting.register(self._requests, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._waiting.select():
                if key.data is None:
                    if not self._take_request():
                        return
                elif key.fd in self._alive:
                    self._tell_end(key.fd)
                else:
                    self._forget(key.fileobj, key.data)

    def _take_request(self) -> bool:
        mark, handed, _, _ = socket.recv_fds(self._requests, 1024, 3)
        if not mark:
            return False
        connection, output, control = handed
        nursery = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_copy(nursery, mark.decode(), connection, output, control)
            finally:
                os._exit(1)
        os.close(connection)
        os.close(output)
        watcher = socket.socket(fileno=control)
        watcher.sendall(str(pid).encode())
        pidfd = os.pidfd_open(pid)
        self._alive[pidfd] = pid, watcher
        self._waiting.register(pidfd, selectors.EVENT_READ, pid)
        self._waiting.register(watcher, selectors.EVENT_READ, pid)
        return True

    def _become_copy(self, nursery: int, mark: str, connection: int, output: int, control: int) -> None:
        self._requests.close()
        self._waiting.close()
        os.close(control)
        for pidfd, (_, watcher) in self._alive.items():
            os.close(pidfd)
            watcher.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.update(marks_of(mark))
        _become_child(nursery, _NAME)
        self._main(connection)

    def _tell_end(self, pidfd: int) -> None:
        """It is left as a zombie, so that nobody else gets its ID as long as the driver may still use it."""
        pid, watcher = self._alive.pop(pidfd)
        self._waiting.unregister(pidfd)
        os.close(pidfd)
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        with contextlib.suppress(OSError):
            watcher.sendall(str(code).encode())

    def _forget(self, watcher: object, pid: int) -> None:
        assert isinstance(watcher, socket.socket)
        self._waiting.unregister(watcher)
        watcher.close()
        for pidfd, (each, _) in list(self._alive.items()):
            if each == pid:
                del self._alive[pidfd]
                self._waiting.unregister(pidfd)
                os.close(pidfd)
                os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become_child(parent: int, name: bytes = b"") -> None:
    """In a session of its own, so that terminal signals do not reach it; it ends with its parent."""
    os.setsid()
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    if name:
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_NAME, name, 0, 0, 0)


def _occupy(keep: int) -> None:
    """Let go of the driver's descriptors, such as the end of a pipe. Their numbers stay taken: the objects that they
    belong to are still there, and would close whatever got them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the one that the folder was read through
            if int(name) not in (keep, nothing):
                os.fstat(int(name))
                os.dup2(nothing, int(name), inheritable=int(name) < 3)
