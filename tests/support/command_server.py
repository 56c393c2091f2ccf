"""Runs `python -m steadyhand` many times and imports it once.

Importing the package takes most of the time of a short command. This process imports it, then forks for each command:
what runs is a real process in its own folder, with its own environment, output, working directory and exit code.
Several run at a time. Run as a script, it serves the socket on its standard input.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_LENGTH = 8
_READ_AT_START = ("PYTHON", "LC_", "LANG")
_NOT_OF_A_COMMAND = ("__main__", "_child", "local_server", "pydantic_ai", "pydantic_ai_messages", "pytest_plugin")


class CommandServer:
    """One for each process that runs tests. Only variables that Python reads as it starts are beyond it: `takes`."""

    def __init__(
        self, python: str = sys.executable, variables: Mapping[str, str] = os.environ, user: int | None = None
    ) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [python, __file__],
                stdin=theirs,
                cwd="/",
                env=variables,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        self._start = self._read_at_start(variables)

    @staticmethod
    def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(_READ_AT_START)}

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Whether a process of the server would find the same variables at its start as one of its own."""
        return self._read_at_start(environment).items() <= self._start.items()

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        started: Callable[[int], object] = lambda pid: None,
    ) -> tuple[int, str, str]:
        """The exit code, as `subprocess` has it, the output and the errors. `started` is told the process."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            ours = self._ask(arguments, folder, environment, out.fileno(), err.fileno())
            with ours:
                started(int.from_bytes(_exactly(ours, _LENGTH)))
                code = int.from_bytes(_exactly(ours, _LENGTH), signed=True)
            return code, _text(out), _text(err)

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Started:
        """The command in its process, which goes on."""
        out, to_out = os.pipe()
        err, to_err = os.pipe()
        try:
            ours = self._ask(arguments, folder, environment, to_out, to_err)
        finally:
            os.close(to_out)
            os.close(to_err)
        return Started(ours, out, err)

    def _ask(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], out: int, err: int
    ) -> socket.socket:
        """Where the server tells the process, and its exit code when it has ended."""
        asked = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            files = array.array("i", [out, err, theirs.fileno()])
            self._ours.sendmsg(
                [len(asked).to_bytes(_LENGTH)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files.tobytes())]
            )
            self._ours.sendall(asked)
        return ours

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


class Started:
    """A command that runs, with what tests use of a `subprocess.Popen`."""

    def __init__(self, told: socket.socket, out: int, err: int) -> None:
        self._told = told
        self.pid: int = int.from_bytes(_exactly(told, _LENGTH))
        self.stdout = os.fdopen(out, encoding="utf-8")
        self.stderr = os.fdopen(err, encoding="utf-8")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int.from_bytes(_exactly(self._told, _LENGTH), signed=True)
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """What is left of the output and of the errors, when it has ended."""
        errors: list[str] = []
        reading = threading.Thread(target=lambda: errors.append(self.stderr.read()))
        reading.start()
        with self.stdout, self.stderr:
            out = self.stdout.read()
            reading.join()
        self.wait()
        return out, errors[0]


def _text(file) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = connection.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return got


class _Commands:
    """The processes of the server, by their IDs, with the files by which their ends are told."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self.ended, wake = os.pipe()
        os.set_blocking(wake, False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written to the pipe
        signal.set_wakeup_fd(wake)

    def add(self, pid: int, end: int) -> None:
        self._ends[pid] = end
        os.write(end, pid.to_bytes(_LENGTH))

    def tell_ends(self) -> None:
        os.read(self.ended, 512)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                end = self._ends.pop(pid)
                with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                    os.write(end, os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, signed=True))
                os.close(end)

    def leave(self) -> None:
        """For a process that was forked."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (self.ended, self._wake, *self._ends.values()):
            os.close(file)


def _serve(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """What the process that this returns in is to run: None in the server itself, when nobody asks any more."""
    commands = _Commands()
    while True:
        ready, _, _ = select.select([connection, commands.ended], [], [])
        if commands.ended in ready:
            commands.tell_ends()
        if connection not in ready:
            continue
        length, ancillary, *_ = connection.recvmsg(_LENGTH, socket.CMSG_SPACE(3 * 4))
        if not length:
            return None
        out, err, end = array.array("i", ancillary[0][2])
        arguments, folder, environment = json.loads(_exactly(connection, int.from_bytes(length)))
        child = os.fork()
        if child == 0:
            commands.leave()
            connection.close()
            os.close(end)
            return arguments, folder, environment, [out, err]
        os.close(out)
        os.close(err)
        commands.add(child, end)


def _import_everything() -> None:
    import importlib
    import pkgutil

    import steadyhand

    for module in pkgutil.walk_packages(steadyhand.__path__, "steadyhand."):
        if not module.name.endswith(_NOT_OF_A_COMMAND):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
    for name in ("lz4.frame", "uvloop", "sqlite3", "yaml", "jsonschema"):
        importlib.import_module(name)
    _build_shapes()


def _build_shapes() -> None:
    """Build the validators of our pydantic models, which each command would build at their first use."""
    from pydantic import BaseModel

    found = list(BaseModel.__subclasses__())
    for shape in found:
        found.extend(shape.__subclasses__())
        if shape.__module__.startswith("steadyhand."):
            shape.model_rebuild()


def main() -> None:
    import runpy

    _import_everything()
    gc.freeze()  # pages that the collector does not write to are shared with the processes that are forked
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    asked = _serve(connection)
    if asked is None:
        return
    arguments, folder, environment, (out, err) = asked
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    # Made anew, since streams remember whether their file was one that can be sought in.
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.argv = ["steadyhand", *arguments]
    gc.unfreeze()
    runpy.run_module("steadyhand", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
