"""`file_exists` and `file_contains`: what is in the workspace when the step is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from holdfast.builtin.evaluators.excerpt import excerpt
from holdfast.builtin.evaluators.subject import Part, Subject
from holdfast.builtin.evaluators.words import check_contains
from holdfast.builtin.evaluators.workspace_path import WorkspacePath, relative
from holdfast.errors import WorkspaceError
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from holdfast.records.execution import ExecutionResult
from holdfast.records.trajectory import Visible


class FileExistsParams(EvaluationParams):
    path: WorkspacePath


class FileContainsParams(EvaluationParams):
    path: WorkspacePath
    value: str = Field(min_length=1)
    case_sensitive: bool = False


class FileExists:
    type: ClassVar[str] = "file_exists"
    params: ClassVar[type[EvaluationParams]] = FileExistsParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"files"})

    async def evaluate(
        self, params: FileExistsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        size = await _size(result, context, params.path)
        if size is None:
            return _missing(params.path, f"file {params.path}", await _files(result, context))
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
        kept = None if context.current else result.files.get(relative(params.path))
        if kept is not None and kept.content is None:
            return inconclusive(f"{params.path} had {kept.size} bytes after this step, too many to be kept")
        if context.current:
            content = await context.environment.read(params.path)
        else:
            content = kept.content if kept is not None else None
        if content is None:
            return _missing(params.path, f"{params.value!r} in {params.path}", await _files(result, context))
        text = content.decode("utf-8", "replace")
        words = Subject(parts=(Part(label=params.path, text=text),))
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)


async def _size(result: ExecutionResult, context: EvaluationContext, path: str) -> str | None:
    if not context.current:
        kept = result.files.get(relative(path))
        return None if kept is None else f"{kept.size} bytes"
    try:
        content = await context.environment.read(path)
    except WorkspaceError:
        # Too large or not readable, which is no reason to say that it is not there.
        if relative(path) not in await context.environment.list_files():
            raise
        return "not readable"
    return None if content is None else f"{len(content)} bytes"


async def _files(result: ExecutionResult, context: EvaluationContext) -> Sequence[str]:
    return await context.environment.list_files() if context.current else sorted(result.files)


def _missing(path: str, expected: str, files: Sequence[str]) -> EvaluationResult:
    there = excerpt(", ".join(files)) if files else "no files at all"
    return failed(
        f"{path} does not exist in the workspace, which has: {there}",
        evidence=Evidence(expected=expected, found="no such file", where="workspace", excerpt=there),
    )
