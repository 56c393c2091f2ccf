"""The axes of a matrix: what each varies in the base scenario, and the values it takes."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from steadyhand.records.location import Problem
from steadyhand.records.scenario import Matrix, MatrixSetting
from steadyhand.spec.dialects import recognise
from steadyhand.spec.document import Document
from steadyhand.spec.findings import describe
from steadyhand.spec.matrix_path import WrongPath, check_path, parse_path
from steadyhand.spec.naming import Path

OVERRIDES = ("model", "agent", "judge")
_SHOWN = 40
# What separates settings in an id, or could be taken for it.
_QUOTED = frozenset(',[]"')


class Axis(NamedTuple):
    """`path` is None for what overrides the settings of the run."""

    parameter: str
    path: Path | None
    settings: tuple[MatrixSetting, ...]


def read_axes(matrix: Matrix, own: Document, base: Document) -> tuple[list[Axis], list[Problem]]:
    """The axes that are sound, and what is wrong with the others.

    `own` is the matrix file and `base` the scenario that it varies.
    """
    reader = _Reader(matrix, own, base)
    for index in range(len(matrix.axes)):
        reader.read(index)
    return reader.sound, reader.problems


class _Reader:
    def __init__(self, matrix: Matrix, own: Document, base: Document) -> None:
        self._matrix: Matrix = matrix
        self._own: Document = own
        self._base: Document = base
        self.sound: list[Axis] = []
        self.problems: list[Problem] = []

    def read(self, index: int) -> None:
        before = len(self.problems)
        axis = self._axis(index)
        if len(self.problems) == before:
            self.sound.append(axis)

    def _axis(self, index: int) -> Axis:
        axis = self._matrix.axes[index]
        path: Path | None = None
        try:
            path = None if axis.parameter in OVERRIDES else self._path(axis.parameter)
            for other in self.sound:
                _check_apart(other, Axis(axis.parameter, path, ()))
        except WrongPath as error:
            self._problem(("matrix", index, "parameter"), str(error), "no-such-parameter")
        settings: dict[str, MatrixSetting] = {}
        for number, value in enumerate(axis.values):
            at = ("matrix", index, "values", number)
            setting = MatrixSetting(
                parameter=axis.parameter, value=value, shown=show_value(value), place=self._own.locate(at)
            )
            if setting.shown in settings:
                self._problem(at, f"{describe(value)} is already among the values", "duplicate-value")
            if axis.parameter in OVERRIDES and (not isinstance(value, str) or not value):
                self._problem(at, f"expected the name of a {axis.parameter}, found {describe(value)}", "wrong-type")
            settings[setting.shown] = setting
        return Axis(axis.parameter, path, tuple(settings.values()))

    def _path(self, parameter: str) -> Path:
        """Raises `WrongPath` for what cannot be varied."""
        path = parse_path(parameter)
        if path == ("id",):
            raise WrongPath("`id` cannot be varied: each combination has an id of its own")
        if path == ("trials",) and self._matrix.runs_per_combination is not None:
            raise WrongPath("`trials` and `runs_per_combination` both say how often to run; leave out one of them")
        if path[0] == "character" and recognise(self._base.data) == "decision":
            raise WrongPath("a decision scenario has no `character`; what the model is told is in its `messages`")
        check_path(self._base.data, path)
        return path

    def _problem(self, path: Path, message: str, code: str) -> None:
        self.problems.append(Problem(place=self._own.locate(path), message=message, code=code))


def _check_apart(one: Axis, other: Axis) -> None:
    """Raises `WrongPath` for an axis that another one undoes: it would be varied to no effect."""
    if one.path is not None and other.path is not None:
        shorter, longer = sorted((one, other), key=lambda axis: len(axis.path or ()))
        if (longer.path or ())[: len(shorter.path or ())] == shorter.path:
            raise WrongPath(f"`{shorter.parameter}` holds `{longer.parameter}`; one would undo the other, so vary one")
    if {one.parameter, other.parameter} == {"model", "character.llm.model"}:
        raise WrongPath("`model` goes before `character.llm.model`, so vary one of them")


def show_value(value: Any) -> str:
    """A value in an id, on one line; a text that could be taken for several is quoted, a long one cut and hashed."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if isinstance(value, str) and _QUOTED & set(text):
        text = json.dumps(text, ensure_ascii=False)
    short = " ".join(text.split())
    if len(short) <= _SHOWN and short == text:
        return text
    return f"{short[: _SHOWN - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
