"""`database_query`: what a query on the trial's database returns when the step or turn ends."""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field, model_validator

from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted, shorten
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import ASKED, Written

Rows = list[dict[str, Any]]
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 2_000
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def _asks_something(query: str) -> str:
    if not _COMMENT.sub(" ", query).strip("; \t\r\n\f\v"):
        raise ValueError("the query is empty; give one such as 'SELECT status FROM orders WHERE id = 17'")
    return query


class DatabaseQueryParams(EvaluationParams):
    """Give at least one expectation; with several, all must hold."""

    query: Annotated[str, AfterValidator(_asks_something), Written("sql")] = Field(
        description="SQL query to run after the step"
    )
    expected_rows: Annotated[list[dict[str, Any]] | list[list[Any]] | None, ASKED] = Field(
        default=None, description="Expected rows"
    )
    ordered: bool = Field(default=False, description="Whether the order of the rows matters")
    row_count: int | None = Field(default=None, ge=0, description="Exact number of rows")
    min_rows: int | None = Field(default=None, ge=0, description="Fewest rows")
    max_rows: int | None = Field(default=None, ge=0, description="Most rows")
    expected_value: Annotated[Any, ASKED] = Field(
        default=None, description="Expected value, for a query that returns one row with one column"
    )
    timeout_ms: int = Field(default=10_000, gt=0, description="Time limit for the query, in milliseconds")

    @property
    def asks_value(self) -> bool:
        """Null can be expected, too."""
        return "expected_value" in self.model_fields_set

    @model_validator(mode="after")
    def _expects_something(self) -> DatabaseQueryParams:
        bounds = (self.expected_rows, self.row_count, self.max_rows)
        if all(bound is None for bound in bounds) and not self.min_rows and not self.asks_value:
            raise ValueError(
                "no expectation is set; give `expected_rows`, `expected_value`, `row_count`, `max_rows` or "
                "`min_rows` above 0"
            )
        if self.min_rows is not None and self.max_rows is not None and self.max_rows < self.min_rows:
            raise ValueError(f"`max_rows` ({self.max_rows}) is below `min_rows` ({self.min_rows})")
        if self.ordered and self.expected_rows is None:
            raise ValueError("`ordered` needs `expected_rows`")
        return self


class DatabaseQuery:
    """The query runs read-only. SQL that the database refuses is an error, never a failure of the agent."""

    type: ClassVar[str] = "database_query"
    params: ClassVar[type[EvaluationParams]] = DatabaseQueryParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"database"})

    async def evaluate(
        self, params: DatabaseQueryParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        database = context.trial.database
        if database is None:
            return inconclusive(
                "the trial has no database; add `setup.database` to the scenario"
                + (", with a `url`, since this is a live run" if context.trial.live else "")
            )
        rows = await database.rows(params.query, timeout_s=params.timeout_ms / 1000)
        expected, problems = _check(params, rows)
        single = params.asks_value and len(rows) == 1 and len(rows[0]) == 1
        found = _json(next(iter(rows[0].values()))) if single else counted(len(rows), "row")
        wanted = f": {_json(params.expected_rows)}" if params.expected_rows else ""
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows[:_SHOWN_ROWS]]
        if len(rows) > _SHOWN_ROWS:
            lines.append(f"... {len(rows) - _SHOWN_ROWS} more")
        evidence = Evidence(
            expected="; ".join(expected) + wanted,
            found=found,
            where=params.query.strip(),
            excerpt=shorten("\n".join(lines) or "no rows", _SHOWN_CHARACTERS),
        )
        figures = {"rows": len(rows)}
        if problems:
            return failed(f"the query's result is wrong: {'; '.join(problems)}", evidence=evidence, figures=figures)
        return passed(
            f"the query returned what was expected: {'; '.join(expected)}",
            evidence=evidence,
            figures=figures,
            rests_on=None if rows else "absence",
        )


def _check(params: DatabaseQueryParams, rows: Rows) -> tuple[list[str], list[str]]:
    """Every expectation in words, and those that do not hold."""
    expected: list[str] = []
    problems: list[str] = []
    count = len(rows)
    for asked, holds, words in (
        (params.row_count, count == params.row_count, "exactly"),
        (params.min_rows, count >= (params.min_rows or 0), "at least"),
        (params.max_rows, params.max_rows is None or count <= params.max_rows, "at most"),
    ):
        if asked is not None:
            expected.append(f"{words} {counted(asked, 'row')}")
            if not holds:
                problems.append(f"expected {expected[-1]}, found {count}")
    if params.expected_rows is not None:
        given = {0: "no rows", 1: "the given row"}.get(asked := len(params.expected_rows), f"the {asked} given rows")
        expected.append(given + (" in order" if params.ordered else ""))
        problems += _compare(params.expected_rows, rows, ordered=params.ordered)
    if params.asks_value:
        expected.append(f"the value {_json(params.expected_value)}")
        problems += _value(params.expected_value, rows)
    return expected, problems


def _value(expected: Any, rows: Rows) -> list[str]:
    if len(rows) != 1 or len(rows[0]) != 1:
        columns = f" of {counted(len(rows[0]), 'column')}" if rows else ""
        return [f"expected one row with one column, found {counted(len(rows), 'row')}{columns}"]
    found = next(iter(rows[0].values()))
    return [] if _equal(expected, found) else [f"expected {_json(expected)}, found {_json(found)}"]


def _compare(expected: list[dict[str, Any]] | list[list[Any]], rows: Rows, *, ordered: bool) -> list[str]:
    if len(expected) != len(rows):
        return [f"expected {counted(len(expected), 'row')}, found {len(rows)}"]
    if ordered:
        pairs = enumerate(zip(expected, rows, strict=True), start=1)
        wrong = [
            f"row {number}: expected {_json(asked)}, found {_json(found)}"
            for number, (asked, found) in pairs
            if not _row_equal(asked, found)
        ]
        return wrong[:3]
    left = list(rows)
    for asked in expected:
        match = next((index for index, found in enumerate(left) if _row_equal(asked, found)), None)
        if match is None:
            return [f"no remaining row equals {_json(asked)}"]
        left.pop(match)
    return []


def _row_equal(expected: dict[str, Any] | list[Any], found: dict[str, Any]) -> bool:
    return _equal(expected, list(found.values()) if isinstance(expected, list) else found)


def _equal(expected: Any, found: Any) -> bool:
    """A number never equals text. True equals 1, as SQLite has no booleans; floats may differ in the last digit."""
    same = bool(type(expected) is type(found) and expected == found)
    if isinstance(expected, int | float) and isinstance(found, int | float):
        if isinstance(expected, int) and isinstance(found, int):
            return expected == found
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(expected, dict) and isinstance(found, dict):
        asked, given = cast("dict[str, Any]", expected), cast("dict[str, Any]", found)
        return asked.keys() == given.keys() and all(_equal(asked[name], given[name]) for name in asked)
    if isinstance(expected, list) and isinstance(found, list):
        one, other = cast("list[Any]", expected), cast("list[Any]", found)
        return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    return same


def _json(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str), 200)
