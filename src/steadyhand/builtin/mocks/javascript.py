"""The JavaScript of mocks, run by QuickJS in a few long-lived child processes."""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import msgspec

from steadyhand.builtin.mocks.javascript_process import ScriptLimits, ScriptProcess
from steadyhand.errors import MockError

Mode = Literal["evaluate", "call", "check"]
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)


class QuickJsSandbox:
    """A `ports.scripts.ScriptSandbox`. One serves a whole run, from any thread and any event loop.

    At most `workers` processes exist, each started when it is first needed; a script that has to wait for one is not
    charged for waiting. `close` ends them, and so does the end of the program.
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
        """What is wrong with the source's syntax, or None. Nothing of it is run."""
        try:
            self._threads.submit(self._exchange, self._request("check", source, {}, None, None)).result()
        except MockError as error:
            return str(error)
        return None

    def close(self) -> None:
        """End the processes, after the scripts that still run in them. The sandbox cannot be used afterwards."""
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
            raise MockError(f"gave a value that cannot be read as JSON: {error}") from error

    def _request(
        self, mode: Mode, source: str, variables: Mapping[str, Any], seed: int | None, now_ms: int | None
    ) -> str:
        for name in variables:
            if not _IDENTIFIER.fullmatch(name):
                raise MockError(f"{name!r} cannot be the name of a variable in JavaScript")
        try:
            values = msgspec.json.encode(list(variables.values())).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise MockError(f"what the call was given cannot be shown to JavaScript as JSON: {error}") from error
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
        """Runs in a thread of ours, of which there are as many as there may be processes."""
        process = self._take() or ScriptProcess(self._limits)
        try:
            return process.ask(request)
        finally:
            if process.alive:
                self._idle.append(process)

    def _take(self) -> ScriptProcess | None:
        """An idle process. One that was killed from outside meanwhile is dropped, not asked."""
        while True:
            try:
                process = self._idle.pop()
            except IndexError:
                return None
            if process.alive:
                return process
            process.stop()


def _stop_all(idle: list[ScriptProcess], threads: ThreadPoolExecutor) -> None:
    # Not waiting: it may be one of these very threads that drops the last reference to the sandbox.
    threads.shutdown(wait=False, cancel_futures=True)
    while idle:
        idle.pop().stop()
