"""`javascript` and `python`: the author's own code decides, given what was said and done.

JavaScript runs in the sandbox of mocks. Python runs in a process of its own, without the user's keys, and is killed
with all that it started; like a command, it is trusted with this machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import msgspec
from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import DeedList, since_start_ms
from steadyhand.builtin.evaluators.text import Text, excerpt, final_reply, quoted
from steadyhand.children.channel import Kind, MalformedMessage, packed, read
from steadyhand.children.process import ChildProcess
from steadyhand.errors import PluginError
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken
from steadyhand.records.base import plain
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import UNREADABLE, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import FIXED, Written
from steadyhand.user_file import file_beside

ACTIONS: frozenset[Visible] = frozenset({"actions"})
GIVEN = ("reply", "deeds", "transcript")
_FUNCTION = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
_CHILD = "steadyhand.builtin.evaluators.python_check:main"
_NEEDED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")


def _material(result: ExecutionResult, context: EvaluationContext, names: frozenset[str]) -> dict[str, Any]:
    """What the code is given, as plain values."""
    found: dict[str, Any] = {"reply": final_reply(result)} if "reply" in names else {}
    if "transcript" in names:
        said = [{"role": each.role, "content": each.content} for each in result.transcript]
        found["transcript"] = said or [{"role": "assistant", "content": result.reply}]
    if "deeds" in names:
        found["deeds"] = [
            {
                "name": deed.name,
                "names": list(deed.names),
                "params": plain(deed.params or deed.given[-1]),
                "status": deed.status,
                "agent": deed.agent,
                "result": None if deed.call is None else plain(deed.call.result),
                "at_ms": since_start_ms(deed, result),
            }
            for deed in DeedList(result, context).all
        ]
    return found


def _unknown_deeds(result: ExecutionResult, context: EvaluationContext) -> str | None:
    """Why code that reads the deeds decides nothing: some of them, or of their parameters, cannot be seen."""
    if context.shows.served_only:
        return "only the tools served to the agent are seen, and it may have used others"
    if not context.shows.arguments:
        return "the agent's server does not report the parameters of its actions"
    deed = next((deed for deed in DeedList(result, context).all if UNREADABLE in deed.params), None)
    return None if deed is None else f"the parameters of {deed.name} are unknown: not reported, or not a JSON object"


def _answered(what: str, answer: object, given: dict[str, Any], why: str = "") -> EvaluationResult:
    """Raises `PluginError` for anything but true and false."""
    if not isinstance(answer, bool):
        hint = "; did you forget `return`?" if answer is None else ""
        raise PluginError(f"{what} gave {excerpt(repr(answer))}; expected true or false{hint}")
    shown = f"reply: {given['reply']}" if "reply" in given else f"{len(given.get('deeds', ()))} deeds"
    reason = f": {excerpt(why)}" if why else ""
    evidence = Evidence(expected="true", found="true" if answer else "false", where=what, excerpt=excerpt(shown))
    return (passed if answer else failed)(f"{what} is {'true' if answer else 'false'}{reason}", evidence=evidence)


class JavascriptParams(EvaluationParams):
    on_invariant: ClassVar[bool] = True

    expression: Annotated[Text, Written("javascript", free=False)] = Field(
        min_length=1, description="JavaScript over `reply`, `deeds` and `transcript`; true passes"
    )

    @property
    def names(self) -> frozenset[str]:
        """Those of what the code could be given that occur in it. It is given no others."""
        return frozenset(name for name in GIVEN if re.search(rf"(?<![\w$.]){name}(?![\w$])", self.expression))

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.names:
            raise ValueError("the expression uses none of reply, deeds and transcript, so the agent cannot change it")
        return self


class Javascript:
    type: ClassVar[str] = "javascript"
    params: ClassVar[type[EvaluationParams]] = JavascriptParams
    deterministic: ClassVar[bool] = True
    reads: ClassVar[frozenset[Visible]] = ACTIONS

    def reads_with(self, params: JavascriptParams) -> frozenset[Visible]:
        return self.reads if "deeds" in params.names else frozenset()

    def reads_text(self, params: JavascriptParams) -> Spoken | None:
        return "reply" if "reply" in params.names else "agent" if "transcript" in params.names else None

    def script(self, params: JavascriptParams) -> str:
        return params.expression

    async def evaluate(
        self, params: JavascriptParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Raises `MockError` for what the sandbox does not accept or the code throws."""
        if "deeds" in params.names and (doubt := _unknown_deeds(result, context)) is not None:
            return inconclusive(f"not evaluated: {doubt}", evidence=Evidence(expected="true", found=doubt))
        if result.truncated:
            return inconclusive("not evaluated: some of the output was too long to keep")
        if context.trial.scripts is None:
            raise PluginError("no sandbox for JavaScript was set up")
        given = _material(result, context, params.names)
        answer = await context.trial.scripts.evaluate(params.expression, given, seed=context.trial.seed)
        return _answered(quoted(params.expression), answer, given)


def _folder(context: EvaluationContext) -> Path:
    return Path(context.scenario.place.file).absolute().parent


def _function(function: str) -> str:
    if _FUNCTION.fullmatch(function) is None:
        raise ValueError(
            f"expected a file and the name of a function in it, such as ./checks.py:name; found {function}"
        )
    return function


class PythonParams(EvaluationParams):
    on_invariant: ClassVar[bool] = True

    function: Annotated[Text, AfterValidator(_function), FIXED] = Field(
        description="File and function, such as ./checks.py:is_polite. Its parameters are any of `reply`, `deeds` and "
        "`transcript`; it returns true or false, or that and the reason"
    )
    timeout_ms: int = Field(default=10_000, gt=0, description="Time limit of the function, in milliseconds")


class Python:
    type: ClassVar[str] = "python"
    params: ClassVar[type[EvaluationParams]] = PythonParams
    reads: ClassVar[frozenset[Visible]] = ACTIONS

    def reads_with(self, params: PythonParams) -> frozenset[Visible]:
        """Known once the function is: `evaluate` looks at whether it takes the deeds."""
        return frozenset()

    def reads_text(self, params: PythonParams) -> Spoken | None:
        return "agent"

    def runs_file(self, params: PythonParams) -> str:
        return params.function.rpartition(":")[0]

    async def evaluate(
        self, params: PythonParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Raises `PluginError` for whatever goes wrong in it, and `SetupError` if the file does not exist."""
        file, _, name = params.function.rpartition(":")
        where = f"python {params.function}"
        path = file_beside(file, _folder(context), wanted_by=where)
        given = _material(result, context, frozenset(GIVEN))
        request = packed(Kind.CALL, 1, "check", [str(path), name, given])
        return await self._decided(request, given, where, params, result, context)

    async def _decided(
        self,
        request: bytes,
        given: dict[str, Any],
        where: str,
        params: PythonParams,
        result: ExecutionResult,
        context: EvaluationContext,
    ) -> EvaluationResult:
        call = _PythonCall(request, params.timeout_ms / 1000, where)
        try:
            answer = await asyncio.to_thread(call.run)
        finally:
            call.stop()
        if answer.error:
            raise PluginError(f"{where}: {answer.error}")
        if result.truncated:
            return inconclusive(f"{where}: not decided: some of the output was too long to keep")
        if "deeds" in answer.used:
            shows, doubt = context.shows, _unknown_deeds(result, context)
            if shows.actions in ("not_seen", "partly_seen"):
                doubt = f"the actions cannot all be seen; {shows.advice}"
            if doubt is not None:
                return inconclusive(f"{where}: not decided: it reads the deeds, and {doubt}")
        return _answered(where, answer.value, given, answer.why)


class PythonAnswer(msgspec.Struct, array_like=True):
    """What the child found: the value and the reason, an error instead, and which of what it was given the function
    takes."""

    value: Any = None
    why: str = ""
    error: str = ""
    used: tuple[str, ...] = ()


class _PythonCall:
    """One call of a function, in a process that ends with it."""

    def __init__(self, request: bytes, limit_s: float, where: str) -> None:
        self._request = request
        self._limit_s = limit_s
        self._where = where
        self._process: ChildProcess | None = None
        self._stopped = False

    def run(self) -> PythonAnswer:
        """Blocks until it has answered. Raises `PluginError` if it does not."""
        kept = {name: os.environ[name] for name in _NEEDED if name in os.environ}
        process = self._process = ChildProcess(_CHILD, kept, mark=f"check-{secrets.token_hex(6)}.1")
        process.trust()
        try:
            if self._stopped:
                raise PluginError(f"{self._where}: stopped")
            process.connection.settimeout(self._limit_s)
            process.connection.sendall(self._request)
            frame = process.first_frame(time.monotonic() + self._limit_s)
            if frame is None:
                raise PluginError(
                    f"{self._where}: its process ended{process.how_it_ended(wait_s=1.0)}{process.last_words()}"
                )
            return read(frame.payload, PythonAnswer)
        except TimeoutError:
            raise PluginError(f"{self._where}: no answer within {self._limit_s:g} s, so it was killed") from None
        except (OSError, MalformedMessage) as error:
            raise PluginError(f"{self._where}: {error}{process.last_words()}") from error
        finally:
            process.connection.close()
            process.bury()

    def stop(self) -> None:
        """Kill it, if it still runs: the caller was cancelled."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()
