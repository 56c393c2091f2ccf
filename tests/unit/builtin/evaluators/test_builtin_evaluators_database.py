"""`database_query` against a real database."""

from __future__ import annotations

import sqlite3

import pytest
from pydantic import ValidationError

from steadyhand.builtin.services.database import make_database
from steadyhand.errors import WorkspaceError
from steadyhand.records.evaluation import Verdict
from steadyhand.records.scenario import DatabaseSeed

SQL = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, total REAL, paid INTEGER);
INSERT INTO orders VALUES (1, 'open', 0.3, 0), (2, 'refunded', 42.5, 1), (3, 'open', NULL, 0);
"""


@pytest.fixture
async def database(environment, tmp_path):
    """An existing file: creating and filling one in each test would take most of its time."""
    connection = sqlite3.connect(tmp_path / "orders.sqlite")
    connection.executescript(SQL)
    connection.close()
    made = make_database(
        DatabaseSeed(url="sqlite:///orders.sqlite"), environment=environment, folder=tmp_path, live=True
    )
    await made.open()
    yield made
    await made.close()


ALL = "SELECT id, status FROM orders ORDER BY id"
ONE = "SELECT status FROM orders WHERE id = 2"
NONE = "SELECT * FROM orders WHERE id = 9"


@pytest.mark.parametrize(
    ("written", "holds"),
    [
        ({"query": ONE, "expected_value": "refunded"}, True),
        ({"query": ONE, "expected_value": "Refunded"}, False),
        ({"query": ONE, "expected_value": None}, False),
        ({"query": "SELECT total FROM orders WHERE id = 3", "expected_value": None}, True),
        ({"query": "SELECT total FROM orders WHERE id = 1", "expected_value": 0.1 + 0.2}, True),
        ({"query": "SELECT total FROM orders WHERE id = 2", "expected_value": "42.5"}, False),
        ({"query": "SELECT paid FROM orders WHERE id = 2", "expected_value": True}, True),
        ({"query": "SELECT paid FROM orders WHERE id = 1", "expected_value": True}, False),
        ({"query": "SELECT count(*) FROM orders", "expected_value": 3.0}, True),
        ({"query": NONE, "expected_value": None}, False),
        ({"query": ALL, "expected_value": 1}, False),
        ({"query": "SELECT id, status FROM orders WHERE id = 2", "expected_value": 2}, False),
        ({"query": ALL, "row_count": 3}, True),
        ({"query": ALL, "row_count": 2}, False),
        ({"query": ALL, "min_rows": 3, "max_rows": 3}, True),
        ({"query": ALL, "min_rows": 4}, False),
        ({"query": ALL, "max_rows": 2}, False),
        ({"query": NONE, "max_rows": 0}, True),
        ({"query": NONE, "expected_rows": []}, True),
        ({"query": ALL, "expected_rows": []}, False),
        ({"query": ALL, "expected_rows": [[3, "open"], [1, "open"], [2, "refunded"]]}, True),
        ({"query": ALL, "expected_rows": [[3, "open"], [1, "open"], [2, "refunded"]], "ordered": True}, False),
        ({"query": ALL, "expected_rows": [[1, "open"], [2, "refunded"], [3, "open"]], "ordered": True}, True),
        ({"query": ALL, "expected_rows": [[1, "open"], [1, "open"], [2, "refunded"]]}, False),
        ({"query": ALL, "expected_rows": [["open", 1], ["open", 3], ["refunded", 2]]}, False),
        ({"query": ONE, "expected_rows": [{"status": "refunded"}]}, True),
        ({"query": "SELECT * FROM orders WHERE id = 2", "expected_rows": [{"status": "refunded"}]}, False),
        ({"query": ONE, "expected_rows": [{"state": "refunded"}]}, False),
        ({"query": ONE, "expected_rows": [{"status": "refunded"}], "row_count": 2}, False),
    ],
)
async def test_what_is_expected(evaluate, database, written, holds):
    result = await evaluate({"type": "database_query", **written}, database=database)
    assert result.verdict is (Verdict.PASSED if holds else Verdict.FAILED), result.message
    assert result.evidence.where == written["query"]


async def test_the_evidence_has_the_rows(evaluate, database):
    result = await evaluate({"type": "database_query", "query": ALL, "row_count": 1}, database=database)
    assert result.message == "the query's result is wrong: expected exactly 1 row, found 3"
    assert result.evidence.found == "3 rows"
    assert result.evidence.excerpt.splitlines()[1] == '{"id": 2, "status": "refunded"}'
    assert result.figures == {"rows": 3}


async def test_long_answers_are_cut_in_the_evidence(evaluate, database):
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n LIMIT 500) SELECT x FROM n"
    result = await evaluate({"type": "database_query", "query": many, "row_count": 500}, database=database)
    assert result.verdict is Verdict.PASSED
    assert result.evidence.excerpt.endswith("... 480 more")


async def test_without_a_database_it_cannot_be_told(evaluate):
    result = await evaluate({"type": "database_query", "query": NONE, "max_rows": 0})
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "setup.database" in result.message


@pytest.mark.parametrize("query", ["SELEC", "SELECT * FROM missing", "DELETE FROM orders"])
async def test_sql_that_is_refused_is_an_error_and_not_a_failure(evaluate, database, query):
    with pytest.raises(WorkspaceError, match="the query was refused"):
        await evaluate({"type": "database_query", "query": query, "max_rows": 0}, database=database)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"query": "SELECT 1"}, "no expectation is set"),
        ({"query": "SELECT 1", "min_rows": 0}, "no expectation is set"),
        ({"query": "SELECT 1", "expected_rows": None}, "no expectation is set"),
        ({"query": "  ", "row_count": 1}, "the query is empty"),
        ({"query": "SELECT 1", "row_count": -1}, "greater than or equal to 0"),
        ({"query": "SELECT 1", "min_rows": 2, "max_rows": 1}, "`max_rows` .1. is below"),
        ({"query": "SELECT 1", "row_count": 1, "ordered": True}, "`ordered` needs"),
        ({"query": "SELECT 1", "row_count": 1, "rows": 1}, "rows"),
        ({"query": "SELECT 1", "expected_rows": [{"a": 1}, [2]]}, "expected_rows"),
    ],
)
def test_what_means_nothing_is_refused_when_the_file_is_read(registry, params, message):
    with pytest.raises(ValidationError, match=message):
        registry.evaluator("database_query").params.model_validate(params)
