"""One child process that runs JavaScript: started, asked, and replaced when it dies."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

from steadyhand.errors import MockError, SetupError
from steadyhand.records.base import Record

_WATCHDOG_EXIT = 1
_KEPT_VARIABLES = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class ScriptLimits(Record):
    """What one script may use. `grace_s` is how much later the process is ended if QuickJS does not stop by itself."""

    time_s: float = 1.0
    grace_s: float = 0.5
    memory_bytes: int = 64 * 2**20
    stack_bytes: int = 512 * 2**10
    result_chars: int = 4 * 2**20


class ScriptProcess:
    """A child that answers one request at a time. Not for use by two threads at once."""

    def __init__(self, limits: ScriptLimits) -> None:
        """Raises `SetupError` when QuickJS is not installed, `MockError` when the process does not start."""
        self._limits: ScriptLimits = limits
        self._process: subprocess.Popen[bytes] = _start(limits)
        if self._output.readline() != b"ready\n":
            code = self.stop()
            raise MockError(f"the JavaScript process did not start (exit code {code}); does `import quickjs` work?")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: str) -> str:
        """The JSON of the value. Raises `MockError`; when the process died of the request, `alive` is then False."""
        try:
            self._input.write(request.encode("ascii") + b"\n")
            self._input.flush()
            reply = self._output.readline()
        except OSError:
            reply = b""
        if not reply.endswith(b"\n"):
            raise MockError(self._cause_of_death())
        text = reply[:-1].decode("utf-8", "replace")
        if text.startswith("="):
            return text[1:]
        # A message may hold half a surrogate pair, which nothing could write to a record.
        raise MockError(str(json.loads(text[1:])).encode("utf-8", "replace").decode("utf-8"))

    def stop(self) -> int:
        """End the process, whatever it is doing, and give its exit code."""
        self._process.kill()
        code = self._process.wait()
        self._output.close()
        with contextlib.suppress(OSError):  # what was still buffered has nobody to read it
            self._input.close()
        return code

    @property
    def _input(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdin)

    @property
    def _output(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdout)

    def _cause_of_death(self) -> str:
        # The pipe closes a moment before the exit code is there; killing first would replace it.
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            code = self.stop()
        self.stop()
        if code == _WATCHDOG_EXIT:
            return f"ran longer than the time limit of {self._limits.time_s:g} s and had to be killed"
        return f"made the JavaScript engine stop (exit code {code})"


def _start(limits: ScriptLimits) -> subprocess.Popen[bytes]:
    found = importlib.util.find_spec("quickjs")
    if found is None or found.origin is None:
        raise SetupError("JavaScript in mocks needs the package quickjs-ng: pip install quickjs-ng")
    child = Path(__file__).with_name("javascript_child.py")
    command = [
        *(sys.executable, "-I", str(child), str(Path(found.origin).parent.parent)),
        *(str(limits.time_s), str(limits.grace_s), str(limits.memory_bytes), str(limits.stack_bytes)),
    ]
    return subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        start_new_session=True,
    )
