"""The JavaScript of mocks, run by QuickJS in a few long-lived child processes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import re
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BufferedRWPair
from pathlib import Path
from typing import Any, Literal

import msgspec

from steadyhand.children.process import IsolatedChild
from steadyhand.errors import MockError, SetupError
from steadyhand.records.base import Record

_WATCHDOG_EXIT = 1


class ScriptLimits(Record):
    """What one script may use. `grace_s` after its time, the process is killed if QuickJS has not stopped."""

    time_s: float = 1.0
    grace_s: float = 0.5
    memory_bytes: int = 64 * 2**20
    stack_bytes: int = 512 * 2**10
    result_chars: int = 4 * 2**20


class ScriptProcess:
    """A child process that answers one request at a time. Not thread-safe."""

    def __init__(self, limits: ScriptLimits) -> None:
        """Raises `SetupError` if QuickJS is not installed, and `MockError` if the process does not start."""
        found = importlib.util.find_spec("quickjs")
        if found is None or found.origin is None:
            raise SetupError("JavaScript in mocks needs the package quickjs-ng: pip install quickjs-ng")
        self._limits: ScriptLimits = limits
        self._process: IsolatedChild = IsolatedChild(
            Path(__file__).with_name("javascript_child.py"),
            *(str(Path(found.origin).parent.parent), str(limits.time_s), str(limits.grace_s)),
            *(str(limits.memory_bytes), str(limits.stack_bytes)),
        )
        self._lines: BufferedRWPair = self._process.connection.makefile("rwb")
        if self._line() != b"ready\n":
            ended = self._process.how_it_ended(wait_s=1.0)
            self.stop()
            raise MockError(f"the JavaScript process ended at once{ended}; does `import quickjs` work?")

    @property
    def alive(self) -> bool:
        return self._process.alive

    def ask(self, request: str) -> str:
        """The value as JSON. Raises `MockError`; if the request killed the process, `alive` is False afterwards."""
        with contextlib.suppress(OSError):
            self._lines.write(request.encode("ascii") + b"\n")
            self._lines.flush()
        reply = self._line()
        if not reply.endswith(b"\n"):
            # The connection closes a moment before the process ends. Killing it now would lose its exit code.
            ended = self._process.how_it_ended(wait_s=1.0)
            self.stop()
            if ended == f" with exit code {_WATCHDOG_EXIT}":
                raise MockError(f"ran longer than the time limit of {self._limits.time_s:g} s and had to be killed")
            raise MockError(f"crashed the JavaScript engine, which ended{ended or ' its connection'}")
        text = reply[:-1].decode("utf-8", "replace")
        if text.startswith("="):
            return text[1:]
        # A message may hold half a surrogate pair, which a record cannot store.
        raise MockError(str(json.loads(text[1:])).encode("utf-8", "replace").decode("utf-8"))

    def stop(self) -> None:
        self._process.bury()
        with contextlib.suppress(OSError):  # nobody reads what was still buffered
            self._lines.close()
        self._process.connection.close()

    def _line(self) -> bytes:
        try:
            return self._lines.readline()
        except OSError:
            return b""


Mode = Literal["evaluate", "call", "check"]
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)


class QuickJsSandbox:
    """A `ports.scripts.ScriptSandbox`. One serves a whole run, from any thread and any event loop.

    At most `workers` processes exist, started when first needed. Waiting for one does not count towards a script's
    time. `close` and the end of the program end them.
    """

    def __init__(self, limits: ScriptLimits | None = None, *, workers: int = 2) -> None:
        self._limits: ScriptLimits = limits or ScriptLimits()
        self._threads: ThreadPoolExecutor = ThreadPoolExecutor(workers, thread_name_prefix="mock-script")
        self._idle: list[ScriptProcess] = []
        self._stop: weakref.finalize[..., QuickJsSandbox] = weakref.finalize(self, _stop_all, self._idle, self._threads)

    async def evaluate(
        self, expression: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        return await self._ask("evaluate", expression, variables, seed, now_ms)

    async def call(
        self, function: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        return await self._ask("call", function, variables, seed, now_ms)

    def check(self, source: str) -> str | None:
        """The syntax error in the source, or None. Nothing is run."""
        try:
            self._threads.submit(self._exchange, self._request("check", source, {}, None, None)).result()
        except MockError as error:
            return str(error)
        return None

    def close(self) -> None:
        """End the processes after their current scripts. The sandbox cannot be used afterwards."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._stop()

    async def _ask(
        self, mode: Mode, source: str, variables: Mapping[str, Any], seed: int | None, now_ms: int | None
    ) -> Any:
        request = self._request(mode, source, variables, seed, now_ms)
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._exchange, request)
        try:
            return msgspec.json.decode(answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MockError(f"returned a value that is not JSON: {error}") from error

    def _request(
        self, mode: Mode, source: str, variables: Mapping[str, Any], seed: int | None, now_ms: int | None
    ) -> str:
        for name in variables:
            if not _IDENTIFIER.fullmatch(name):
                raise MockError(f"{name!r} is not a valid variable name in JavaScript")
        try:
            values = msgspec.json.encode(list(variables.values())).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise MockError(f"the arguments of the call cannot be passed to JavaScript as JSON: {error}") from error
        request = {
            "mode": mode,
            "names": list(variables),
            "values": values,
            "source": source.rstrip().rstrip(";"),
            "seed": None if seed is None else (seed ^ (seed >> 32)) & 0xFFFFFFFF,
            "now": now_ms,
            "limit": self._limits.result_chars,
        }
        return json.dumps(request, ensure_ascii=True)

    def _exchange(self, request: str) -> str:
        """Runs in one of our threads, of which there are as many as processes."""
        process = self._take() or ScriptProcess(self._limits)
        try:
            return process.ask(request)
        finally:
            if process.alive:
                self._idle.append(process)

    def _take(self) -> ScriptProcess | None:
        """An idle process. One that has died meanwhile is dropped."""
        while True:
            try:
                process = self._idle.pop()
            except IndexError:
                return None
            if process.alive:
                return process
            process.stop()


def _stop_all(idle: list[ScriptProcess], threads: ThreadPoolExecutor) -> None:
    # Do not wait: the last reference to the sandbox may be dropped by one of these threads.
    threads.shutdown(wait=False, cancel_futures=True)
    while idle:
        idle.pop().stop()
