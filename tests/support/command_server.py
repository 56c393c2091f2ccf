"""Runs `python -m steadyhand` many times and imports it once.

Importing the package takes most of the time of a short command. This process imports it and runs a few commands, for
what Python and our libraries work out at the first use of a class or a function. Then it forks for each command: what
runs is a real process with its own environment, output, working directory and exit code. Several can run at a time. Run
as a script, it serves the socket on its standard input.
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
_IMPORTED_AT_USE = (
    *("lz4.frame", "uvloop", "sqlite3", "yaml", "jsonschema", "ctypes", "packaging.specifiers", "packaging.tags"),
    *("encodings.utf_8_sig", "encodings.idna", "anyio._backends._asyncio"),
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
)
_SHORT_COMMANDS = (
    ("init", "."),
    ("validate", "scenarios"),
    ("run", "scenarios/person_in_reach.scenario.yaml", "scenarios/broken_lamp.scenario.yaml", "--json", "run.json"),
    ("show", "last"),
)


class CommandServer:
    """One for each process that runs tests. It cannot set variables that Python reads at start-up: see `takes`."""

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
        found = {name: value for name, value in variables.items() if name.startswith(_READ_AT_START)}
        found.pop("PYTHONPATH", None)  # it only makes `sys.path`, as `_path_for` does
        return found

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Whether a process of the server has the same start-up variables as one started with this environment."""
        return self._read_at_start(environment).items() <= self._start.items()

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        started: Callable[[int], object] = lambda pid: None,
        *,
        stdin: int | None = None,
        stderr: int | None = None,
    ) -> tuple[int, str, str]:
        """The exit code, as in `subprocess`, the output and the errors, except those that go to `stderr`.

        `started` is called with the process ID. Without `stdin` there is nothing to read.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            to_err = err.fileno() if stderr is None else stderr
            ours = self._ask(arguments, folder, environment, out.fileno(), to_err, stdin)
            with ours:
                started(int.from_bytes(_exactly(ours, _LENGTH)))
                code = int.from_bytes(_exactly(ours, _LENGTH), signed=True)
            return code, _text(out), _text(err)

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Started:
        """Starts the command in its process, and does not wait for it."""
        out, to_out = os.pipe()
        err, to_err = os.pipe()
        try:
            ours = self._ask(arguments, folder, environment, to_out, to_err)
        finally:
            os.close(to_out)
            os.close(to_err)
        return Started(ours, out, err)

    def _ask(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        out: int,
        err: int,
        stdin: int | None = None,
    ) -> socket.socket:
        """Where the server reports the process ID, and the exit code when it has ended."""
        asked = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            files = array.array(
                "i", [theirs.fileno(), out, err] if stdin is None else [theirs.fileno(), out, err, stdin]
            )
            self._ours.sendmsg(
                [len(asked).to_bytes(_LENGTH)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files.tobytes())]
            )
            self._ours.sendall(asked)
        return ours

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


class Started:
    """A running command, with the part of `subprocess.Popen` that tests use."""

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
        """The rest of the output and of the errors, once it has ended."""
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
    """The server's processes by ID, with the files on which their ends are reported."""

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
                with contextlib.suppress(BrokenPipeError):  # nobody is waiting for it any more
                    os.write(end, os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, signed=True))
                os.close(end)

    def leave(self) -> None:
        """Called in a forked process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (self.ended, self._wake, *self._ends.values()):
            os.close(file)


def _serve(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """What the process in which this returns is to run: None in the server itself, when there are no more requests."""
    commands = _Commands()
    while True:
        ready, _, _ = select.select([connection, commands.ended], [], [])
        if commands.ended in ready:
            commands.tell_ends()
        if connection not in ready:
            continue
        length, ancillary, *_ = connection.recvmsg(_LENGTH, socket.CMSG_SPACE(4 * 4))
        if not length:
            return None
        end, *files = array.array("i", ancillary[0][2])
        arguments, folder, environment = json.loads(_exactly(connection, int.from_bytes(length)))
        child = os.fork()
        if child == 0:
            commands.leave()
            connection.close()
            os.close(end)
            return arguments, folder, environment, files
        for file in files:
            os.close(file)
        commands.add(child, end)


def _import_everything() -> None:
    import importlib

    import steadyhand

    folder = Path(steadyhand.__path__[0])
    for package in sorted(folder.rglob("__init__.py")):
        for file in sorted(package.parent.glob("*.py")):
            names = file.relative_to(folder.parent).with_suffix("").parts
            if not any(name.endswith(_NOT_OF_A_COMMAND) for name in names):
                with contextlib.suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(".".join(names).removesuffix(".__init__"))
    for name in _IMPORTED_AT_USE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _build_shapes()


def _build_shapes() -> None:
    """Builds the validators of our pydantic models, which each command would otherwise build on first use."""
    from pydantic import BaseModel

    found = list(BaseModel.__subclasses__())
    for shape in found:
        found.extend(shape.__subclasses__())
        if shape.__module__.startswith("steadyhand."):
            shape.model_rebuild()


def _run_short_commands() -> None:
    """Run a starter project here. It starts no process and no thread that is left when a command has ended."""
    import io

    from steadyhand.cli.main import cli

    before = Path.cwd(), dict(os.environ), [signal.getsignal(each) for each in signal.valid_signals()]
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        os.chdir(folder)
        for arguments in _SHORT_COMMANDS:
            cli.main(arguments, prog_name="steadyhand", standalone_mode=False)
        os.chdir("/")
    tempfile.tempdir = None  # which was read from the variables of this process, at the first use
    assert before == (Path.cwd(), dict(os.environ), [signal.getsignal(each) for each in signal.valid_signals()])
    assert threading.active_count() == 1


def _path_for(environment: Mapping[str, str]) -> list[str]:
    """The part of `sys.path` that comes from a variable, for a process in its folder."""
    given = environment.get("PYTHONPATH")
    return [os.path.abspath(each) for each in given.split(os.pathsep)] if given else []  # noqa: PTH100


def main() -> None:
    import runpy

    _import_everything()
    gc.disable()  # as the command does; its run would leave it on
    _run_short_commands()
    gc.enable()
    gc.collect()
    gc.freeze()  # pages that the collector does not write to are shared with forked processes
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    asked = _serve(connection)
    if asked is None:
        return
    arguments, folder, environment, files = asked
    for file, target in zip(files, (1, 2, 0), strict=False):
        os.dup2(file, target)
        os.close(file)
    # Created anew, since streams remember whether their file was seekable.
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)  # noqa: SIM115
    ours = _path_for(os.environ)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [folder, *_path_for(environment), *(each for each in sys.path[1:] if each not in ours)]
    sys.argv = ["steadyhand", *arguments]
    runpy.run_module("steadyhand", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
