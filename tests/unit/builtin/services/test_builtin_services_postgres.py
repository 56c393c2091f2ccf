"""The trial's schema in a real PostgreSQL."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from steadyhand.builtin.services.database import DatabaseService, make_database
from steadyhand.builtin.services.postgres import PostgresDatabase
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.ports.services import ServiceFault
from steadyhand.records.scenario import DatabaseSeed

SQL = """
CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL, born date, balance numeric(10, 2), tags text[],
                    extra jsonb, active boolean DEFAULT true, photo bytea);
CREATE TABLE orders (id serial PRIMARY KEY, user_id int NOT NULL REFERENCES users);
"""
RECORDS = {
    "users": [
        {"name": "Zoë", "born": "2001-02-03", "balance": 10.5, "tags": ["a", "b"], "extra": {"k": [1]}},
        {"name": "b", "active": False, "photo": "\\x00ff"},
    ],
    "orders": [{"user_id": 1}],
}


@pytest.fixture
def seed(postgres):
    return DatabaseSeed(sql=SQL, records=RECORDS, url=postgres)


@pytest.fixture
async def database(seed, local):
    made = make_database(seed, environment=local, folder=Path())
    await made.open()
    await made.seed(seed)
    yield made
    await made.close()


async def test_seeds_and_reads(database):
    assert await database.rows("SELECT * FROM users ORDER BY id", timeout_s=20) == [
        {
            "id": 1,
            "name": "Zoë",
            "born": "2001-02-03",
            "balance": 10.5,
            "tags": ["a", "b"],
            "extra": {"k": [1]},
            "active": True,
            "photo": None,
        },
        {
            "id": 2,
            "name": "b",
            "born": None,
            "balance": None,
            "tags": None,
            "extra": None,
            "active": False,
            "photo": "00ff",
        },
    ]


async def test_trials_side_by_side_do_not_see_one_another(database, seed, local):
    other = make_database(seed, environment=local, folder=Path())
    await other.open()
    await other.seed(seed)
    await DatabaseService(other).execute("DELETE FROM orders")
    assert await database.rows("SELECT count(*) AS c FROM orders", timeout_s=20) == [{"c": 1}]
    await other.close()
    assert await database.rows("SELECT count(*) AS c FROM orders", timeout_s=20) == [{"c": 1}]


async def test_nothing_is_left_behind(database, postgres, local):
    asked = "SELECT count(*) AS c FROM pg_namespace WHERE nspname LIKE 'steadyhand%'"
    assert await database.rows(asked, timeout_s=20) == [{"c": 1}]
    await database.close()
    await database.close()
    plain = make_database(DatabaseSeed(url=postgres), environment=local, folder=Path(), live=True)
    await plain.open()
    assert await plain.rows(asked, timeout_s=20) == [{"c": 0}]
    await plain.close()


async def test_the_url_for_the_agent_leads_to_the_same_tables(database, local):
    asyncpg = pytest.importorskip("asyncpg")
    url = (await local.run('printf %s "$DATABASE_URL"')).stdout
    assert url == database.url
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT name FROM users WHERE id = 1") == "Zoë"
    await connection.close()


def test_options_of_the_url_are_kept():
    pytest.importorskip("asyncpg")
    url = PostgresDatabase("postgresql://u:p%40@h:1/d?options=-cgeqo%3Doff&sslmode=disable", isolated=True).url
    query = parse_qs(urlsplit(url).query)
    assert query["sslmode"] == ["disable"]
    assert query["options"][0].startswith("-cgeqo=off -csearch_path=steadyhand_")
    assert url.startswith("postgresql://u:p%40@h:1/d?")


@pytest.mark.parametrize(
    "sql", ["DELETE FROM orders", "CREATE TABLE t (a int)", "INSERT INTO users (name) VALUES ('x') RETURNING id"]
)
async def test_a_check_cannot_write(database, sql):
    with pytest.raises(WorkspaceError, match="read-only transaction"):
        await database.rows(sql, timeout_s=20)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM missing", 'relation "missing" does not exist'),
        ("SELECT 1; DELETE FROM orders", "cannot insert multiple commands"),
        ("SELECT 1 AS a, 2 AS a", "two columns named 'a'"),
        ("-- SELECT * FROM orders", "not a query"),
        ("SET search_path = public", "not a query"),
        ("SELECT generate_series(1, 10001) AS n", "more than 10000 rows"),
    ],
)
async def test_what_cannot_be_answered_is_an_error(database, sql, message):
    with pytest.raises(WorkspaceError, match=message):
        await database.rows(sql, timeout_s=20)


async def test_a_query_without_end_is_stopped(database):
    with pytest.raises(WorkspaceError, match=r"took longer than 0\.3 s"):
        await database.rows("SELECT pg_sleep(1000)", timeout_s=0.3)
    assert await database.rows("SELECT 1 AS a", timeout_s=20) == [{"a": 1}]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"missing": [{"a": 1}]}, "records of table 'missing': .*does not exist"),
        ({"users": [{"nme": "x"}]}, "records of table 'users': column \"nme\""),
        (
            {"users": [{"name": "x", "born": "yesterdayish"}]},
            "invalid input syntax for type date",
        ),
        ({"orders": [{"user_id": 99}]}, "foreign key"),
    ],
)
async def test_a_seed_that_does_not_fit_names_what_is_wrong(database, records, message):
    with pytest.raises(WorkspaceError, match=f"setup.database failed: .*{message}"):
        await database.seed(DatabaseSeed(records=records))


async def test_the_agents_service_reads_and_writes(database):
    service = DatabaseService(database)
    assert await service.execute("UPDATE users SET name = $1", ["same"]) == {"rows_changed": 2}
    assert await service.query("SELECT DISTINCT name FROM users WHERE id > $1", [0]) == [{"name": "same"}]
    assert await service.query("INSERT INTO orders (user_id) VALUES (2) RETURNING user_id") == [{"user_id": 2}]
    assert await service.execute("CREATE TABLE t (a int)") == {"rows_changed": 0}
    assert await database.rows("SELECT count(*) AS c FROM orders", timeout_s=20) == [{"c": 2}]


@pytest.mark.parametrize(
    ("sql", "params"),
    [("SELEC", None), ("SELECT $1", {"a": 1}), ("SELECT $1::int", ["x"]), ("SELECT $1", None), ("", None)],
)
async def test_what_the_agent_gets_wrong_is_an_answer_to_it(database, sql, params):
    for call in (DatabaseService(database).query, DatabaseService(database).execute):
        with pytest.raises(ServiceFault):
            await call(sql, params)


async def test_what_the_agent_sets_in_its_session_does_not_reach_the_checks(database):
    service = DatabaseService(database)
    await service.execute("SET search_path TO public")
    with pytest.raises(ServiceFault, match="not committed"):
        await service.execute("BEGIN; DELETE FROM orders")
    assert await database.rows("SELECT count(*) AS c FROM orders", timeout_s=20) == [{"c": 1}]


async def test_live_neither_isolates_nor_drops(postgres, local):
    live = make_database(DatabaseSeed(url=postgres), environment=local, folder=Path(), live=True)
    await live.open()
    service = DatabaseService(live)
    await service.execute("CREATE TABLE kept (a int)")
    await live.close()
    await live.open()
    assert await service.query("SELECT * FROM public.kept") == []
    await service.execute("DROP TABLE kept")
    await live.close()
    assert live.url == postgres


async def test_no_server_is_an_error_of_the_trial_without_the_password(local, unused_tcp_port):
    pytest.importorskip("asyncpg")
    url = f"postgresql://u:hidden@127.0.0.1:{unused_tcp_port}/shop"
    made = make_database(DatabaseSeed(url=url), environment=local, folder=Path())
    with pytest.raises(WorkspaceError, match=r"'shop' \(127\.0\.0\.1\) cannot be used") as caught:
        await made.open()
    assert "hidden" not in str(caught.value)
    await made.close()


def test_without_the_driver_it_says_what_to_install(local, monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(SetupError, match=r"pip install 'steadyhand\[postgres\]'"):
        make_database(DatabaseSeed(url="postgresql://h/d"), environment=local, folder=Path())
