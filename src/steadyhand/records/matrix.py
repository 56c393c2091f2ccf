"""A scenario to run in every combination of some values."""

from __future__ import annotations

from typing import Any

from steadyhand.records.base import Record
from steadyhand.records.location import Place


class MatrixAxis(Record):
    """`parameter` is the path of a field of the base scenario, such as `run[0].input`."""

    parameter: str
    values: tuple[Any, ...]
    place: Place


class MatrixSetting(Record):
    """One value of one axis. `shown` is how ids, filters and tables name it, `place` where the matrix file has it."""

    parameter: str
    value: Any
    shown: str
    place: Place


class MatrixCell(Record):
    """The combination that a scenario is, in the order of the axes. `base_id` is the id of the scenario it varies."""

    matrix: str
    file: str
    base_id: str
    settings: tuple[MatrixSetting, ...]


class Matrix(Record):
    """`base_scenario` is the path of an existing file, usable from the current directory.

    Without `runs_per_combination` each runs as often as the base scenario says.
    """

    name: str
    place: Place
    digest: str
    base_scenario: str
    axes: tuple[MatrixAxis, ...]
    description: str = ""
    runs_per_combination: int | None = None
