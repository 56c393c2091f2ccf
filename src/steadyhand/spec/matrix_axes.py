"""The axes of a matrix: which field of the base scenario each one varies, and its values."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple, cast

from steadyhand.records.location import Problem
from steadyhand.records.scenario import Matrix, MatrixSetting
from steadyhand.spec.load import recognise
from steadyhand.spec.validation import FieldPath, advice, describe, show_path
from steadyhand.spec.yaml import Document

OVERRIDES = ("model", "agent", "judge")
OPEN_ROOT = "character"
"""May be varied even if the base scenario does not set it."""
_SHOWN = 40
# Characters that separate settings in an id, or look as if they did.
_QUOTED = frozenset(',[]"')
_PART = re.compile(r"(?:^|\.)([^.\[\]'\"]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")


class Axis(NamedTuple):
    """`path` is None for a parameter that overrides a setting of the run."""

    parameter: str
    path: FieldPath | None
    settings: tuple[MatrixSetting, ...]


class WrongPath(Exception):
    """The path is malformed or does not exist in the base scenario; the message says where it ends."""


def read_axes(matrix: Matrix, own: Document, base: Document) -> tuple[list[Axis], list[Problem]]:
    """The valid axes, and what is wrong with the others.

    `own` is the matrix file and `base` the scenario that it varies.
    """
    reader = _Reader(matrix, own, base)
    for index in range(len(matrix.axes)):
        reader.read(index)
    return reader.valid, reader.problems


class _Reader:
    def __init__(self, matrix: Matrix, own: Document, base: Document) -> None:
        self._matrix: Matrix = matrix
        self._own: Document = own
        self._base: Document = base
        self.valid: list[Axis] = []
        self.problems: list[Problem] = []

    def read(self, index: int) -> None:
        before = len(self.problems)
        axis = self._axis(index)
        if len(self.problems) == before:
            self.valid.append(axis)

    def _axis(self, index: int) -> Axis:
        axis = self._matrix.axes[index]
        path: FieldPath | None = None
        try:
            path = None if axis.parameter in OVERRIDES else self._path(axis.parameter)
            for other in self.valid:
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
                self._problem(at, f"{describe(value)} is listed twice", "duplicate-value")
            if axis.parameter in OVERRIDES and (not isinstance(value, str) or not value):
                self._problem(at, f"expected the name of a {axis.parameter}, found {describe(value)}", "wrong-type")
            settings[setting.shown] = setting
        return Axis(axis.parameter, path, tuple(settings.values()))

    def _path(self, parameter: str) -> FieldPath:
        """Raises `WrongPath` for a parameter that cannot be varied."""
        path = parse_path(parameter)
        if path == ("id",):
            raise WrongPath("`id` cannot be varied: each combination gets its own id")
        if path == ("trials",) and self._matrix.runs_per_combination is not None:
            raise WrongPath("`trials` and `runs_per_combination` both set the number of trials; keep one of them")
        if path[0] == OPEN_ROOT and recognise(self._base.data) == "decision":
            raise WrongPath("a decision scenario has no `character`; vary its `messages` instead")
        check_path(self._base.data, path)
        return path

    def _problem(self, path: FieldPath, message: str, code: str) -> None:
        self.problems.append(Problem(place=self._own.locate(path), message=message, code=code))


def _check_apart(one: Axis, other: Axis) -> None:
    """Raises `WrongPath` for an axis that another one overwrites: it would have no effect."""
    if one.path is not None and other.path is not None:
        shorter, longer = sorted((one, other), key=lambda axis: len(axis.path or ()))
        if (longer.path or ())[: len(shorter.path or ())] == shorter.path:
            raise WrongPath(f"`{shorter.parameter}` contains `{longer.parameter}`; vary only one of them")
    if {one.parameter, other.parameter} == {"model", "character.llm.model"}:
        raise WrongPath("`model` overrides `character.llm.model`; vary only one of them")


def parse_path(text: str) -> FieldPath:
    """Raises `WrongPath` unless it is names joined by dots, with indexes and quoted names in brackets."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise WrongPath(f"`{text}` is not a path; expected one such as `run[0].conversation.max_turns`")
        name, index, single, double = match.groups()
        parts.append(int(index) if index is not None else next(x for x in (name, single, double) if x is not None))
        at = match.end()
    if not parts:
        raise WrongPath("the path is empty; expected one such as `run[0].input`")
    return tuple(parts)


def check_path(data: Any, path: FieldPath) -> None:
    """Raises `WrongPath` unless the base scenario sets this field.

    Varying a field that the base omits is refused: a misspelt one among free-form keys would have no effect. Only
    `character` may be new.
    """
    if path[0] == OPEN_ROOT and len(path) > 1 and all(isinstance(part, str) for part in path):
        return
    value = data
    for depth, part in enumerate(path):
        where = f"`{show_path(path[:depth])}`" if depth else "the base scenario"
        value = _item(value, part, where) if isinstance(part, int) else _member(value, part, where)


def _item(value: Any, index: int, where: str) -> Any:
    if not isinstance(value, list):
        raise WrongPath(f"{where} is {describe(value)}, not a list, so it has no entry [{index}]")
    entries = cast("list[Any]", value)
    if index >= len(entries):
        held = f"entries [0] to [{len(entries) - 1}]" if len(entries) > 1 else "one entry, [0]" if entries else "none"
        raise WrongPath(f"index [{index}] is out of bounds: {where} has {held}")
    return entries[index]


def _member(value: Any, name: str, where: str) -> Any:
    if not isinstance(value, dict):
        raise WrongPath(f"{where} is {describe(value)}, so it has no `{name}`")
    members = cast("dict[str, Any]", value)
    if name not in members:
        hint = advice(name, members)
        raise WrongPath(f"{where} has no `{name}`{hint}; a parameter must be set in the base scenario to be varied")
    return members[name]


def show_value(value: Any) -> str:
    """A value as it appears in an id: on one line, quoted if it contains separators, cut and hashed if long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if isinstance(value, str) and _QUOTED & set(text):
        text = json.dumps(text, ensure_ascii=False)
    short = " ".join(text.split())
    if len(short) <= _SHOWN and short == text:
        return text
    return f"{short[: _SHOWN - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
