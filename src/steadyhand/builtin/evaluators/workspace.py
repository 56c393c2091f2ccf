"""`file_exists`, `file_contains` and `command_exit_code_is`: the workspace when the step or turn ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from steadyhand.builtin.evaluators.text import LIMIT, Subject, SubjectPart, check_contains, excerpt, quoted
from steadyhand.errors import WorkspaceError
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted, shorten
from steadyhand.records.evaluation import EvaluationResult, Evidence, Ground, failed, passed
from steadyhand.records.event import Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import Written


def relative(path: str) -> str:
    """The path below the workspace in one spelling. Raises `ValueError` if it leads outside or names no file."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise ValueError(f"{path!r} is outside the workspace; name a file inside it, such as 'out.txt'")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts or "\0" in path:
        raise ValueError(f"{path!r} does not name a file; name one inside the workspace, such as 'out.txt'")
    return "/".join(parts)


def _inside(path: str) -> str:
    relative(path)
    return path


WorkspacePath = Annotated[str, AfterValidator(_inside)]


def _more_than_spaces(value: str) -> str:
    """A tab or a line break is a valid thing to search for."""
    if not value.strip(" \u00a0\u200b\ufeff"):
        raise ValueError("must not be blank")
    return value


_CONSTANT = re.compile(r"(?:true|false|:|exit(?:\s+\d+)?)\s*;?")


def _checks_something(command: str) -> str:
    lines = [line.strip() for line in command.splitlines()]
    asked = "\n".join(line for line in lines if line and not line.startswith("#"))
    if not asked or "\0" in command:
        raise ValueError("the command is empty; give a shell command such as 'pytest -q'")
    if _CONSTANT.fullmatch(re.sub(r"\s#.*", "", asked)):
        raise ValueError(f"{asked!r} checks nothing: its exit code never changes; give a command such as 'pytest -q'")
    return command


class FileExistsParams(EvaluationParams):
    path: WorkspacePath = Field(description="Path in the workspace")


class FileContainsParams(EvaluationParams):
    path: WorkspacePath = Field(description="Path in the workspace")
    value: Annotated[str, Field(min_length=1), AfterValidator(_more_than_spaces)] = Field(
        description="Text that the file must contain"
    )
    case_sensitive: bool = Field(default=False, description="Whether case matters")


class CommandExitCodeIsParams(EvaluationParams):
    command: Annotated[str, AfterValidator(_checks_something), Written("shell", free=False)] = Field(
        description="Command to run in the environment after the step"
    )
    expected_code: int = Field(default=0, ge=0, le=255, description="Expected exit code")
    timeout_ms: int = Field(default=60_000, gt=0, description="Time limit for the command, in milliseconds")


class FileExists:
    type: ClassVar[str] = "file_exists"
    params: ClassVar[type[EvaluationParams]] = FileExistsParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"files"})

    async def evaluate(
        self, params: FileExistsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        size = await _size(context, params.path)
        if size is None:
            return _missing(params.path, f"file {params.path}", await context.environment.list_files())
        return passed(
            f"{params.path} exists ({size})",
            evidence=Evidence(expected=f"file {params.path}", found=size, where="workspace"),
        )


class FileContains:
    type: ClassVar[str] = "file_contains"
    params: ClassVar[type[EvaluationParams]] = FileContainsParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"files"})

    async def evaluate(
        self, params: FileContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        content = await context.environment.read(params.path)
        if content is None:
            files = await context.environment.list_files()
            return _missing(params.path, f"{params.value!r} in {params.path}", files, "neither")
        text = content.decode("utf-8", "replace")
        words = Subject(SubjectPart(label=params.path, text=text))
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)


class CommandExitCodeIs:
    type: ClassVar[str] = "command_exit_code_is"
    params: ClassVar[type[EvaluationParams]] = CommandExitCodeIsParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"files"})
    runs_commands: ClassVar[bool] = True

    async def evaluate(
        self, params: CommandExitCodeIsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """A command that runs out of time did not end with the expected code, so the check fails."""
        ran = await context.environment.run(params.command, timeout_s=params.timeout_ms / 1000)
        found = f"killed after {params.timeout_ms} ms" if ran.timed_out else f"exit code {ran.exit_code}"
        # The end of the output, where test runners and compilers say what went wrong.
        kept = [
            f"{name}: {_end(text)}" for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)) if text.strip()
        ]
        evidence = Evidence(
            expected=f"exit code {params.expected_code}",
            found=found,
            where=excerpt(params.command),
            excerpt="\n".join(kept) or "no output",
        )
        figures = {"exit_code": ran.exit_code, "duration_ms": ran.duration_ms, "timed_out": ran.timed_out}
        ended = "was" if ran.timed_out else "ended with"
        message = f"{quoted(params.command)} {ended} {found}"
        if not ran.timed_out and ran.exit_code == params.expected_code:
            # A command that is expected to fail usually asks whether something is absent.
            ground = "absence" if params.expected_code else None
            return passed(message, evidence=evidence, figures=figures, rests_on=ground)
        message = f"{message}; expected exit code {params.expected_code}"
        return failed(message, evidence=evidence, figures=figures, rests_on="neither" if ran.timed_out else None)


async def _size(context: EvaluationContext, path: str) -> str | None:
    try:
        content = await context.environment.read(path)
    except WorkspaceError:
        # Too large or unreadable, but it does exist.
        if relative(path) not in await context.environment.list_files():
            raise
        return "unreadable"
    return None if content is None else counted(len(content), "byte")


def _missing(path: str, expected: str, files: Sequence[str], rests_on: Ground | None = None) -> EvaluationResult:
    there = excerpt(", ".join(files)) or "none"
    return failed(
        f"{path} does not exist in the workspace; files there: {there}",
        evidence=Evidence(expected=expected, found="no such file", where="workspace", excerpt=there),
        rests_on=rests_on,
    )


def _end(text: str) -> str:
    return shorten(text.strip(), LIMIT, keep="end")
