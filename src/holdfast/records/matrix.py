"""A scenario to run in every combination of some values."""

from __future__ import annotations

from typing import Any

from holdfast.records.base import Record
from holdfast.records.place import Place


class MatrixAxis(Record):
    """`parameter` is the path of a field of the base scenario, such as `run[0].input`."""

    parameter: str
    values: tuple[Any, ...]
    place: Place


class Matrix(Record):
    """`base_scenario` is the path of an existing file, usable from the current directory."""

    name: str
    place: Place
    digest: str
    base_scenario: str
    axes: tuple[MatrixAxis, ...]
    description: str = ""
    runs_per_combination: int = 1
