"""Runs `python -m steadyhand` many times and imports it once.

Importing the package takes most of the time of a short command. This process imports it and runs a few commands, for
what Python and our libraries work out at the first use of a class or a function. Then it forks for each command: what
runs is a real process with its own environment, output, working directory and exit code. Several can run at a time. Run
as a script, it serves the tests that connect to the socket in its first argument, and the clients of `warm_client` on
the second.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

if __name__ == "__main__":
    import warm_client

_LENGTH = 8
_WELCOME = b"+"
_TESTS = "tests"
_CLIENTS = "clients"
_READ_AT_START = ("PYTHON", "LC_", "LANG")
_NOT_OF_A_COMMAND = ("__main__", "_child", "local_server", "pydantic_ai", "pydantic_ai_messages", "pytest_plugin")
_IMPORTED_AT_USE = (
    *("lz4.frame", "uvloop", "sqlite3", "yaml", "jsonschema", "ctypes", "packaging.specifiers", "packaging.tags"),
    *("encodings.utf_8_sig", "encodings.idna", "anyio._backends._asyncio", "httpcore"),
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
)
_RUN = ("run", "scenarios/person_in_reach.scenario.yaml", "scenarios/broken_lamp.scenario.yaml", "--json", "run.json")
_SHORT_COMMANDS = (("init", "."), ("validate", "scenarios"), (*_RUN, "--html", "run.html"), ("show", "last"))
_ADAPTED_AFTER = 9  # the interpreter specializes a function once it has been called eight times
_HUGE_PAGE = 2 * 1024 * 1024
_MADV_COLLAPSE = 25


class CommandServer:
    """It cannot set variables that Python reads at start-up: see `takes`.

    With `shared`, a file that is the same for all processes of a test run, they use one server. It ends when the last
    of them has closed it.
    """

    def __init__(
        self,
        python: str = sys.executable,
        variables: Mapping[str, str] = os.environ,
        user: int | None = None,
        *,
        shared: Path | None = None,
    ) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.nullcontext() if shared is None else shared.open("a+", encoding="utf-8") as noted:
            folder = ""
            if noted is not None:
                fcntl.flock(noted, fcntl.LOCK_EX)
                noted.seek(0)
                folder = noted.read()
            connection = _connect(folder) if folder else None
            if connection is None:
                self._folder = tempfile.TemporaryDirectory(prefix="commands-")
                folder = self._folder.name
                self._process = _start(folder, python, variables, user)
                connection = _connect(folder)
                assert connection is not None, "the server did not start"
                if noted is not None:
                    noted.truncate(0)
                    noted.write(folder)
        self._ours = connection
        self._start = _read_at_start(variables)
        self._shares_children = user is None
        client = Path(__file__).with_name("warm_client.py")
        self.line: str = shlex.join([sys.executable, "-IS", str(client), f"{folder}/{_CLIENTS}"])
        """For a script that runs `steadyhand`. It fails if the script has changed a variable read at start-up."""

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Whether a process of the server has the same start-up variables as one started with this environment."""
        return _read_at_start(environment).items() <= self._start.items()

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
        from steadyhand.children.process import ChildProcess

        interpreters = ChildProcess.interpreters if self._shares_children else {}  # see `forked_child`
        asked = json.dumps([list(arguments), str(folder), dict(environment), interpreters]).encode()
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
        """The process that started the server waits until the others have closed it."""
        self._ours.close()
        if self._process is not None:
            self._process.wait()
            self._folder.cleanup()


def _start(folder: str, python: str, variables: Mapping[str, str], user: int | None) -> subprocess.Popen[bytes]:
    with socket.socket(socket.AF_UNIX) as tests, socket.socket(socket.AF_UNIX) as clients:
        for listening, name in ((tests, _TESTS), (clients, _CLIENTS)):
            listening.bind(f"{folder}/{name}")
            listening.listen(64)
        return subprocess.Popen(
            [python, __file__, str(tests.fileno()), str(clients.fileno())],
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=variables,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            pass_fds=[tests.fileno(), clients.fileno()],
        )


def _connect(folder: str) -> socket.socket | None:
    """None if the server has ended."""
    connection = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        connection.connect(f"{folder}/{_TESTS}")
        if connection.recv(len(_WELCOME)):
            return connection
    connection.close()
    return None


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in variables.items() if name.startswith(_READ_AT_START)}
    found.pop("PYTHONPATH", None)  # it only makes `sys.path`, as `_path_for` does
    return found


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

    def tell_ends(self) -> None:
        os.read(self.ended, 512)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                end = self._ends.pop(pid)
                with contextlib.suppress(BrokenPipeError):  # nobody is waiting for it
                    os.write(end, os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, signed=True))
                os.close(end)

    def leave(self) -> None:
        """Called in a forked process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (self.ended, self._wake, *self._ends.values()):
            os.close(file)


class _Asked(NamedTuple):
    """A command, its standard files by number, what it starts its children with, and where to report its exit code."""

    files: dict[int, int]
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    interpreters: dict[str, list[str]]
    end: int


def _asked_by_tests(connection: socket.socket) -> _Asked | None:
    """None when there are no more requests."""
    length, ancillary, *_ = connection.recvmsg(_LENGTH, socket.CMSG_SPACE(4 * 4))
    if not length:
        return None
    end, out, err, *given = array.array("i", ancillary[0][2])
    asked = json.loads(_exactly(connection, int.from_bytes(length)))
    stdin = given[0] if given else os.open(os.devnull, os.O_RDONLY)
    return _Asked({0: stdin, 1: out, 2: err}, *asked, end)


def _asked_by_client(clients: socket.socket) -> _Asked | None:
    """None if a process of this server would not be like one that the client starts."""
    connection, _ = clients.accept()
    asked = _Asked(*warm_client.asked_on(connection), {}, connection.detach())
    if _read_at_start(asked.environment).items() <= _read_at_start(os.environ).items():
        return asked
    for file in (*asked.files.values(), asked.end):
        os.close(file)
    return None


def _serve(tests: socket.socket, clients: socket.socket) -> _Asked | None:
    """What the process in which this returns is to run: None in the server itself, when all tests have left."""
    commands = _Commands()
    connections: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([*connections, clients, tests, commands.ended], [], [])
        if commands.ended in ready:
            commands.tell_ends()
        if tests in ready:
            connections.append(tests.accept()[0])
            connections[-1].sendall(_WELCOME)
        asking = next((each for each in (*connections, clients) if each in ready), None)
        if asking is None:
            continue
        asked = _asked_by_client(clients) if asking is clients else _asked_by_tests(asking)
        if asked is None:
            if asking is not clients:
                connections.remove(asking)
                asking.close()
                if not connections:
                    return None
            continue
        child = os.fork()
        if child == 0:
            commands.leave()
            for each in (*connections, clients, tests):
                each.close()
            os.close(asked.end)
            return asked
        for file in asked.files.values():
            os.close(file)
        if asking is not clients:
            os.write(asked.end, child.to_bytes(_LENGTH))
        commands.add(child, asked.end)


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
        for arguments in (*_SHORT_COMMANDS, *[_RUN] * _ADAPTED_AFTER):
            cli.main(arguments, prog_name="steadyhand", standalone_mode=False)
        os.chdir("/")
    tempfile.tempdir = None  # which was read from the variables of this process, at the first use
    assert before == (Path.cwd(), dict(os.environ), [signal.getsignal(each) for each in signal.valid_signals()])
    assert threading.active_count() == 1


def _path_for(environment: Mapping[str, str]) -> list[str]:
    """The part of `sys.path` that comes from a variable, for a process in its folder."""
    given = environment.get("PYTHONPATH")
    return [os.path.abspath(each) for each in given.split(os.pathsep)] if given else []  # noqa: PTH100


def _open_streams(files: Container[int]) -> None:
    """Creates them again, since they remember whether their file was seekable; None for a file that is closed."""
    for file, name, mode, lines in ((0, "stdin", "r", -1), (1, "stdout", "w", -1), (2, "stderr", "w", 1)):
        if file in files:
            was = getattr(sys, name)
            made = open(file, mode, lines, encoding=was.encoding, errors=was.errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, made)
        else:
            setattr(sys, name, None)


def _use_huge_pages() -> None:
    """Makes a fork copy one entry of the page table instead of 512, where the system can."""
    import ctypes

    advise = getattr(ctypes.CDLL(None), "madvise", None)
    maps = Path("/proc/self/maps")
    if advise is None or not maps.exists():
        return
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in maps.read_text(encoding="utf-8").splitlines():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(each, 16) for each in span.split("-"))
            for page in range(-(-start // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
                advise(page, _HUGE_PAGE, _MADV_COLLAPSE)


def _main_module() -> tuple[ModuleType, CodeType]:
    """What `python -m steadyhand` runs. Finding it takes a millisecond, so it is done before forking."""
    from importlib.util import find_spec, module_from_spec

    spec = find_spec("steadyhand.__main__")
    assert spec is not None
    module = module_from_spec(spec)
    module.__name__ = "__main__"
    return module, spec.loader.get_code(spec.name)


def main() -> None:
    from steadyhand.children.process import ChildProcess

    gc.disable()  # as the command does; its run would leave it on
    _import_everything()
    gc.collect()  # what lives on is then allocated close together
    _run_short_commands()
    module, code = _main_module()
    gc.enable()
    gc.collect()
    gc.freeze()  # pages that the collector does not write to are shared with forked processes
    _use_huge_pages()
    tests, clients = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    asked = _serve(tests, clients)
    if asked is None:
        return
    files, arguments, folder, environment, interpreters, _ = asked
    warm_client.take_over(files)
    _open_streams(files)
    ours = _path_for(os.environ)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [folder, *_path_for(environment), *(each for each in sys.path[1:] if each not in ours)]
    ChildProcess.interpreters.update(interpreters)
    sys.argv = [str(module.__file__), *arguments]
    sys.modules["__main__"] = module
    exec(code, vars(module))


if __name__ == "__main__":
    main()
