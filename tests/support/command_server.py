"""Runs `python -m steadyhand` many times and imports it once.

Importing the package takes most of the time of a short command. This process imports it, then forks for each command:
what runs is a real process in its own folder, with its own environment, output, working directory and exit code. Run as
a script, it serves the socket on its standard input.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
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
        asked = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            files = array.array("i", [out.fileno(), err.fileno()])
            self._ours.sendmsg(
                [len(asked).to_bytes(_LENGTH)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files.tobytes())]
            )
            self._ours.sendall(asked)
            started(int.from_bytes(_exactly(self._ours, _LENGTH)))
            code = int.from_bytes(_exactly(self._ours, _LENGTH), signed=True)
            return code, _text(out), _text(err)

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


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


def _serve(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """What the process that this returns in is to run: None in the server itself, when nobody asks any more."""
    while True:
        length, ancillary, *_ = connection.recvmsg(_LENGTH, socket.CMSG_SPACE(2 * 4))
        if not length:
            return None
        files = array.array("i", ancillary[0][2])
        arguments, folder, environment = json.loads(_exactly(connection, int.from_bytes(length)))
        child = os.fork()
        if child == 0:
            connection.close()
            return arguments, folder, environment, list(files)
        for file in files:
            os.close(file)
        connection.sendall(child.to_bytes(_LENGTH))
        _, status = os.waitpid(child, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, signed=True))


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
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.argv = ["steadyhand", *arguments]
    gc.unfreeze()
    runpy.run_module("steadyhand", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
