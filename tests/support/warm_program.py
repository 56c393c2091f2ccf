"""Starts a Python program many times but imports it only once, for programs that are slow to import.

`warm(module)` returns a command line that can be run any number of times, with the program's own arguments appended.
Each run is a process forked from one that has imported the module. It calls the module's `main` with the arguments,
folder, variables, input and output that the command line was given. The command ends when that process does, with its
exit code; if the command is killed, so is the process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shlex
import socket
import sys
from pathlib import Path

from support import warm_client


@functools.cache
def warm(module: str, python: str = sys.executable) -> str:
    """A command line for `main` of a module in `support`. The process behind it ends with ours."""
    import subprocess
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="warm-")
    address = f"{folder.name}/socket"
    server = subprocess.Popen(
        [python, "-m", __name__, address, module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert server.stdout is not None
    server.stdout.readline()

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return shlex.join([sys.executable, "-IS", warm_client.__file__, address])


def serve(address: str, module: str) -> None:
    import gc
    import importlib
    import select
    import signal

    main = importlib.import_module(f"support.{module}").main
    gc.freeze()  # pages that the collector does not write to are shared with forked processes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that watch over a run
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listening, 0], [], [])
            if 0 in ready:
                return
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _watch(connection, main)
            connection.close()


def _watch(connection: socket.socket, main) -> None:
    """Runs it and reports its exit code; ends it when its command has ended."""
    import select

    files, arguments, folder, variables = warm_client.asked_on(connection)
    ended, ending = os.pipe()
    child = os.fork()
    if child == 0:
        connection.close()
        os.close(ended)
        warm_client.out_of_the_way(ending, files)
        warm_client.take_over(files)
        _call(main, arguments, folder, variables)
    for file in (*files.values(), ending, 0, 1, 2):
        os.close(file)
    if connection in select.select([connection, ended], [], [])[0]:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(warm_client.LENGTH, signed=True))
    os._exit(0)


def _call(main, arguments: list[str], folder: str, variables: dict[str, str]) -> None:
    import traceback

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, closefd=False)  # noqa: SIM115
    sys.argv = [main.__module__, *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(*sys.argv[1:])
