"""The rows of a query, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_ROWS = 10_000


class Refused(Exception):
    """The database refused the SQL, or the result cannot be returned. The message says why."""


def as_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows as dicts by column name. Raises `Refused` rather than drop a column or a row."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise Refused(f"the query returns two columns named {twice[0]!r}; rename one with AS")
    if len(rows) > MAX_ROWS:
        raise Refused(f"the query returns more than {MAX_ROWS} rows; narrow it, or count them in SQL")
    return [dict(zip(columns, row, strict=True)) for row in rows]
