"""The trial's SQLite database in every kind of environment."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from steadyhand.builtin.services.database import DatabaseService, make_database
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.ports.services import ServiceFault
from steadyhand.records.scenario import DatabaseSeed

SCHEMA = """
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, score REAL, extra TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users(id), photo BLOB);
"""
NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n)"
SEED = DatabaseSeed(
    sql=SCHEMA + "INSERT INTO users (name) VALUES ('root');",
    records={
        "users": [{"id": 7, "name": "Zoë; DROP TABLE users", "score": 1.5}, {"name": "b", "extra": {"a": [1]}}],
        "orders": [{"user_id": 7}],
    },
)


@pytest.fixture
async def database(environment):
    made = make_database(SEED, environment=environment, folder=Path())
    await made.open()
    await made.seed(SEED)
    yield made
    await made.close()


async def test_seeds_and_reads(database, environment):
    assert await database.rows("SELECT * FROM users ORDER BY id", timeout_s=20) == [
        {"id": 1, "name": "root", "score": None, "extra": None},
        {"id": 7, "name": "Zoë; DROP TABLE users", "score": 1.5, "extra": None},
        {"id": 8, "name": "b", "score": None, "extra": '{"a": [1]}'},
    ]
    assert await environment.list_files() == []


async def test_the_agents_commands_find_it(database, environment):
    script = (
        "import os, sqlite3; c = sqlite3.connect(os.environ['DATABASE_URL'].removeprefix('sqlite:///')); "
        "c.execute(\"UPDATE users SET name = 'changed' WHERE id = 7\"); c.commit()"
    )
    ran = await environment.run(["python3", "-c", script])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert await database.rows("SELECT name FROM users WHERE id = 7", timeout_s=20) == [{"name": "changed"}]


async def test_closing_removes_it(environment):
    made = make_database(SEED, environment=environment, folder=Path())
    await made.open()
    file = made.url.removeprefix("sqlite:///")
    assert (await environment.run(["test", "-e", file])).exit_code == 0
    await made.close()
    await made.close()
    assert (await environment.run(["test", "-e", file])).exit_code == 1


@pytest.fixture
async def quick(local, tmp_path):
    """The same content in an existing file: each step of creating one takes a process."""
    connection = sqlite3.connect(tmp_path / "quick.sqlite")
    connection.executescript(SEED.sql)
    connection.executescript("""
        INSERT INTO users (id, name, score) VALUES (7, 'Zoë; DROP TABLE users', 1.5);
        INSERT INTO users (name, extra) VALUES ('b', '{"a": [1]}');
        INSERT INTO orders (user_id) VALUES (7);
    """)
    connection.close()
    made = make_database(DatabaseSeed(url="sqlite:///quick.sqlite"), environment=local, folder=tmp_path, live=True)
    await made.open()
    yield made
    await made.close()


async def test_two_trials_do_not_share_it(quick, local):
    other = make_database(DatabaseSeed(sql=SCHEMA), environment=local, folder=Path())
    await other.open()
    await other.seed(DatabaseSeed(sql=SCHEMA))
    assert await other.rows("SELECT * FROM users", timeout_s=20) == []
    await other.close()
    assert len(await quick.rows("SELECT * FROM users", timeout_s=20)) == 3


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM users", "CREATE TABLE t (a)", "WITH x AS (SELECT 1) INSERT INTO users (name) SELECT 'x' FROM x"],
)
async def test_a_check_cannot_write(quick, sql):
    with pytest.raises(WorkspaceError, match="refused: attempt to write a readonly database"):
        await quick.rows(sql, timeout_s=20)
    assert len(await quick.rows("SELECT * FROM users", timeout_s=20)) == 3


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM missing", "no such table: missing"),
        ("SELECT a.id, b.id FROM users a, users b", "two columns named 'id'"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("-- SELECT * FROM users", "not a query"),
        ("BEGIN", "not a query"),
        (
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT x FROM n LIMIT 10001",
            "more than 10000 rows",
        ),
        ("SELECT replace(hex(zeroblob(2000000)), '0', 'x') AS a", "too large"),
    ],
)
async def test_what_cannot_be_answered_is_an_error(quick, sql, message):
    with pytest.raises(WorkspaceError, match=message):
        await quick.rows(sql, timeout_s=20)


async def test_a_query_without_end_is_stopped(quick):
    endless = f"{NUMBERS} SELECT count(*) AS c FROM n"
    with pytest.raises(WorkspaceError, match=r"took longer than 0\.3 s"):
        await quick.rows(endless, timeout_s=0.3)


async def test_values_that_json_cannot_hold(quick):
    rows = await quick.rows("SELECT x'00ff' AS b, 9e999 AS i, CAST(x'ff41' AS TEXT) AS t", timeout_s=20)
    assert rows == [{"b": "00ff", "i": "inf", "t": "\ufffdA"}]


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (DatabaseSeed(records={"missing": [{"a": 1}]}), "records of table 'missing': no such table: missing"),
        (
            DatabaseSeed(records={"users": [{"nme": "x"}]}),
            "'users': table users has no column named nme",
        ),
        (DatabaseSeed(records={"orders": [{"user_id": 99}]}), "FOREIGN KEY constraint failed"),
        (DatabaseSeed(sql="CREATE TABL x"), "syntax error"),
        (DatabaseSeed(records={"users": [{"name": 2**70}]}), "too large"),
    ],
)
async def test_a_seed_that_does_not_fit_names_what_is_wrong(quick, seed, message):
    with pytest.raises(WorkspaceError, match=f"setup.database failed: .*{message}"):
        await quick.seed(seed)
    assert len(await quick.rows("SELECT * FROM users", timeout_s=20)) == 3


async def test_the_agents_service_reads_and_writes(quick):
    service = DatabaseService(quick)
    assert await service.execute("UPDATE users SET score = ? WHERE id < ?", [2, 8]) == {"rows_changed": 2}
    assert await service.execute("UPDATE users SET score = :s WHERE id = 8", {"s": 3}) == {"rows_changed": 1}
    assert await service.query("SELECT sum(score) AS s FROM users") == [{"s": 7.0}]
    assert await service.query("INSERT INTO users (name) VALUES ('n') RETURNING id") == [{"id": 9}]
    assert await quick.rows("SELECT count(*) AS c FROM users", timeout_s=20) == [{"c": 4}]


@pytest.mark.parametrize("sql", ["SELEC", "", None, "INSERT INTO orders (user_id) VALUES (99)", "SELECT ?"])
async def test_what_the_agent_gets_wrong_is_an_answer_to_it(quick, sql):
    for call in (DatabaseService(quick).query, DatabaseService(quick).execute):
        with pytest.raises(ServiceFault):
            await call(sql)


@pytest.mark.parametrize("sql", ["ATTACH DATABASE '{file}' AS o", "VACUUM INTO '{file}'"])
async def test_no_sql_reaches_another_file(quick, tmp_path, sql):
    file = tmp_path / "other.sqlite"
    with pytest.raises(ServiceFault, match="authori"):
        await DatabaseService(quick).execute(sql.format(file=file))
    assert not file.exists()


def test_only_query_and_execute_are_offered(quick):
    service = quick.service()
    assert service.tools
    assert [name for name in dir(service.build()) if not name.startswith("_")] == ["execute", "query"]


@pytest.fixture
def given(tmp_path):
    file = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
    connection.close()
    return file


def _rows(file):
    connection = sqlite3.connect(file)
    try:
        return connection.execute("SELECT a FROM t").fetchall()
    finally:
        connection.close()


async def test_a_file_that_is_given_is_copied(local, given):
    seed = DatabaseSeed(url="sqlite:///shop.sqlite", records={"t": [{"a": 2}]})
    made = make_database(seed, environment=local, folder=given.parent)
    await made.open()
    await made.seed(seed)
    assert await made.rows("SELECT a FROM t", timeout_s=20) == [{"a": 1}, {"a": 2}]
    await made.close()
    assert _rows(given) == [(1,)]


async def test_live_works_on_the_file_itself(local, given):
    made = make_database(DatabaseSeed(url=f"sqlite:///{given}"), environment=local, folder=Path("/"), live=True)
    await made.open()
    await DatabaseService(made).execute("INSERT INTO t VALUES (3)")
    await made.close()
    assert _rows(given) == [(1,), (3,)]


def test_live_without_a_url_has_no_database(local):
    assert make_database(SEED, environment=local, folder=Path(), live=True) is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://x/y", "must start with sqlite: or postgresql:, not 'mysql'"),
        ("sqlite:///gone.db", "file not found: .*gone.db"),
    ],
)
def test_a_url_that_cannot_be_used_stops_the_run(local, tmp_path, url, message):
    with pytest.raises(SetupError, match=message):
        make_database(DatabaseSeed(url=url), environment=local, folder=tmp_path)


async def test_an_environment_without_the_file_is_an_error(local, quick):
    await local.run(["rm", quick.url.removeprefix("sqlite:///")])
    with pytest.raises(WorkspaceError, match="unable to open database file"):
        await quick.rows("SELECT 1 AS a", timeout_s=20)


async def test_a_file_that_cannot_be_removed_is_an_error(local):
    made = make_database(SEED, environment=local, folder=Path())
    await made.open()
    await local.run(["mkdir", f"{made.url.removeprefix('sqlite:///')}-wal"])
    with pytest.raises(WorkspaceError, match=r"the trial's database could not be removed: .*-wal"):
        await made.close()
    await made.close()
