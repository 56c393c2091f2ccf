"""The database of a trial: created and seeded first, read by checks, offered to the agent, removed at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from steadyhand.builtin.services.postgres import PostgresDatabase
from steadyhand.builtin.services.rows import Refused
from steadyhand.builtin.services.sqlite import SqliteDatabase
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.services import ProvidedService, ServiceFault
from steadyhand.records.scenario import DatabaseSeed

AGENT_TIMEOUT_S = 30.0
_KINDS = ("sqlite", "postgresql", "postgres")


class Backend(Protocol):
    """A kind of database. Methods raise `rows.Refused` if the database refuses the SQL."""

    @property
    def url(self) -> str: ...

    async def open(self) -> None: ...

    async def seed(self, sql: str | None, records: dict[str, list[dict[str, Any]]]) -> None: ...

    async def query(self, sql: str, params: Any, *, timeout_s: float, read_only: bool) -> list[dict[str, Any]]: ...

    async def execute(self, sql: str, params: Any, *, timeout_s: float) -> int: ...

    async def close(self) -> None: ...


class ServiceDatabase:
    """The trial's database. Opened after the environment is set up, closed before it is torn down."""

    def __init__(self, backend: Backend, environment: EnvironmentProvider) -> None:
        self._backend: Backend = backend
        self._environment: EnvironmentProvider = environment

    @property
    def url(self) -> str:
        """The value of `DATABASE_URL` for the agent's commands."""
        return self._backend.url

    async def open(self) -> None:
        """Create it, and set `DATABASE_URL` for the trial's commands. Raises `WorkspaceError`."""
        try:
            await self._backend.open()
        except Refused as refusal:
            raise WorkspaceError(f"the trial's database could not be created: {refusal}") from refusal
        self._environment.export({"DATABASE_URL": self.url})

    async def seed(self, seed: DatabaseSeed) -> None:
        """Run the SQL, then insert the records. Raises a `WorkspaceError` that names the table."""
        try:
            await self._backend.seed(seed.sql, seed.records)
        except Refused as refusal:
            raise WorkspaceError(f"setup.database failed: {refusal}") from refusal

    async def rows(self, sql: str, *, timeout_s: float) -> list[dict[str, Any]]:
        try:
            return await self._backend.query(sql, None, timeout_s=timeout_s, read_only=True)
        except Refused as refusal:
            raise WorkspaceError(f"the query was refused: {refusal}") from refusal

    async def query(self, sql: str, params: Any = None) -> list[dict[str, Any]]:
        """The rows of a query. Raises `rows.Refused`."""
        return await self._backend.query(sql, params, timeout_s=AGENT_TIMEOUT_S, read_only=False)

    async def execute(self, sql: str, params: Any = None) -> int:
        """The number of rows changed. Raises `rows.Refused`."""
        return await self._backend.execute(sql, params, timeout_s=AGENT_TIMEOUT_S)

    async def close(self) -> None:
        """Safe to call twice, and after a failed `open`."""
        try:
            await self._backend.close()
        except Refused as refusal:
            raise WorkspaceError(f"the trial's database could not be removed: {refusal}") from refusal

    def service(self) -> ProvidedService:
        """The service `database`, whose methods the built-in agent gets as tools."""
        return ProvidedService(build=lambda: DatabaseService(self), plugin="steadyhand", tools=True)


class DatabaseService:
    """What an agent can do with the database. Bad SQL is reported to the agent, and is not an error of the trial."""

    def __init__(self, database: ServiceDatabase) -> None:
        self._database: ServiceDatabase = database

    async def query(self, sql: str, params: list[Any] | dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run one SQL query on the trial's database and answer with its rows. Parameters are `?` in SQLite, `$1` in
        PostgreSQL."""
        try:
            return await self._database.query(_statement(sql), params)
        except Refused as refusal:
            raise ServiceFault(str(refusal), code="SQL_ERROR") from refusal

    async def execute(self, sql: str, params: list[Any] | dict[str, Any] | None = None) -> dict[str, int]:
        """Run one SQL statement that changes the trial's database and answer with how many rows it changed."""
        try:
            return {"rows_changed": await self._database.execute(_statement(sql), params)}
        except Refused as refusal:
            raise ServiceFault(str(refusal), code="SQL_ERROR") from refusal


def make_database(
    seed: DatabaseSeed, *, environment: EnvironmentProvider, folder: Path, live: bool = False
) -> ServiceDatabase | None:
    """The database that `setup.database` describes, not opened yet. `folder` is that of the scenario file.

    A live trial uses the real database at the URL; without a URL it has none. Raises `SetupError` for an unknown kind
    of URL, a missing file and a missing driver.
    """
    if seed.url is None:
        return None if live else ServiceDatabase(SqliteDatabase(environment), environment)
    scheme = urlsplit(seed.url).scheme
    if scheme not in _KINDS:
        raise SetupError(f"setup.database: the URL must start with sqlite: or postgresql:, not {scheme!r}")
    if scheme != "sqlite":
        return ServiceDatabase(PostgresDatabase(seed.url, isolated=not live), environment)
    # The file of `sqlite:///relative` or `sqlite:////absolute`; None for one in memory.
    path = unquote(urlsplit(seed.url).path).removeprefix("/")
    file = None if path in ("", ":memory:") else (folder / path).resolve()
    if file is None:
        return None if live else ServiceDatabase(SqliteDatabase(environment), environment)
    if not file.is_file():
        raise SetupError(f"setup.database: file not found: {file}; without a `url` each trial gets a new database")
    backend = SqliteDatabase(environment, existing=file) if live else SqliteDatabase(environment, template=file)
    return ServiceDatabase(backend, environment)


def _statement(sql: object) -> str:
    if not isinstance(sql, str) or not sql.strip():
        raise Refused("`sql` must be a string with one SQL statement")
    return sql
