"""`file_exists` and `file_contains`: what is in the workspace when the step or turn ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from steadyhand.builtin.evaluators.excerpt import counted, excerpt
from steadyhand.builtin.evaluators.text_search import Part, Subject
from steadyhand.builtin.evaluators.words import check_contains
from steadyhand.builtin.evaluators.workspace_path import WorkspacePath, relative
from steadyhand.errors import WorkspaceError
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, passed
from steadyhand.records.event import Visible
from steadyhand.records.result import ExecutionResult


def _more_than_spaces(value: str) -> str:
    """A tab or a line break may be what a file is searched for."""
    if not value.strip(" \u00a0\u200b\ufeff"):
        raise ValueError("must not be blank")
    return value


class FileExistsParams(EvaluationParams):
    path: WorkspacePath


class FileContainsParams(EvaluationParams):
    path: WorkspacePath
    value: Annotated[str, Field(min_length=1), AfterValidator(_more_than_spaces)]
    case_sensitive: bool = False


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
            return _missing(params.path, f"{params.value!r} in {params.path}", files)
        text = content.decode("utf-8", "replace")
        words = Subject(parts=(Part(label=params.path, text=text),))
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)


async def _size(context: EvaluationContext, path: str) -> str | None:
    try:
        content = await context.environment.read(path)
    except WorkspaceError:
        # Too large or not readable, which is no reason to say that it is not there.
        if relative(path) not in await context.environment.list_files():
            raise
        return "not readable"
    return None if content is None else counted(len(content), "byte")


def _missing(path: str, expected: str, files: Sequence[str]) -> EvaluationResult:
    there = excerpt(", ".join(files)) if files else "no files at all"
    return failed(
        f"{path} does not exist in the workspace, which has: {there}",
        evidence=Evidence(expected=expected, found="no such file", where="workspace", excerpt=there),
    )
