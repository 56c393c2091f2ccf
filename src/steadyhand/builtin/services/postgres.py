"""A trial's own schema in a PostgreSQL database, dropped afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import decimal
import importlib
import json
import math
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from steadyhand.builtin.services.rows import MAX_ROWS, Refused, as_rows
from steadyhand.errors import SetupError, WorkspaceError


def plain_value(value: Any) -> Any:
    """A value for JSON: numbers stay, bytes become hexadecimal, dates ISO 8601, and the rest text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return _number(value)
        case bytes():
            return value.hex()
        case dt.date() | dt.time():
            return value.isoformat()
        case list() | tuple():
            return [plain_value(item) for item in cast("list[Any]", value)]
        case Mapping():
            return {str(key): plain_value(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case _:
            return str(value)


def _number(value: decimal.Decimal) -> int | float | str:
    if not value.is_finite():
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


_CONNECT_S = 20.0
_SETUP_S = 60.0


class PostgresDatabase:
    """With `isolated`, unqualified names refer to a new schema; without, the database is used as it is.

    Every statement has its own connection, so that session settings of the agent do not affect checks.
    """

    def __init__(self, url: str, *, isolated: bool) -> None:
        """Raises `SetupError` if the driver is missing. Does not connect yet."""
        try:
            self._driver: Any = importlib.import_module("asyncpg")  # untyped
        except ImportError as error:
            raise SetupError(
                f"a PostgreSQL database needs the package asyncpg ({error}): pip install 'steadyhand[postgres]'"
            ) from error
        self._given: str = url
        self._schema: str | None = f"steadyhand_{secrets.token_hex(8)}" if isolated else None
        self._made: bool = False

    @property
    def url(self) -> str:
        """The URL for the agent, with the schema in the options that libpq and drivers based on it understand."""
        if self._schema is None:
            return self._given
        parts = urlsplit(self._given)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        query["options"] = f"{query.get('options', '')} -csearch_path={self._schema}".strip()
        return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))

    async def open(self) -> None:
        async with self._connected(_SETUP_S) as connection:
            if self._schema:
                await connection.execute(f"CREATE SCHEMA {self._schema}")
                self._made = True

    async def seed(self, sql: str | None, records: dict[str, list[dict[str, Any]]]) -> None:
        async with self._connected(_SETUP_S) as connection:
            if sql:
                await connection.execute(sql)
        async with self._connected(_SETUP_S) as connection, connection.transaction():
            for table, rows in records.items():
                for row in rows:
                    await self._insert(connection, table, row)

    async def _insert(self, connection: Any, table: str, row: dict[str, Any]) -> None:
        """Insert rows as JSON. PostgreSQL converts the values, so that a date can be given as text."""
        name = _quoted(table)
        columns = ", ".join(_quoted(column) for column in row)
        statement = f"INSERT INTO {name} DEFAULT VALUES"
        values: list[Any] = []
        if row:
            source = f"jsonb_populate_record(NULL::{name}, $1::text::jsonb)"
            statement = f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {source}"  # noqa: S608 - quoted names
            values = [json.dumps(row)]
        try:
            await connection.execute(statement, *values)
        except (self._driver.PostgresError, ValueError) as error:
            raise Refused(f"records of table {table!r}: {error}") from error

    async def query(self, sql: str, params: Any, *, timeout_s: float, read_only: bool) -> list[dict[str, Any]]:
        values = _positional(params)
        async with self._connected(timeout_s) as connection, connection.transaction(readonly=read_only):
            statement = await connection.prepare(sql)
            names = [str(attribute.name) for attribute in statement.get_attributes()]
            rows: list[Sequence[Any]] = []
            if names:
                # A cursor, so that a large table is not read further than the limit on rows.
                rows = await (await statement.cursor(*values)).fetch(MAX_ROWS + 1)
            else:
                await statement.fetch(*values)
                if read_only:
                    raise Refused("not a query: it returns no columns")
        return as_rows(names, [[plain_value(value) for value in row] for row in rows])

    async def execute(self, sql: str, params: Any, *, timeout_s: float) -> int:
        values = _positional(params)
        async with self._connected(timeout_s) as connection:
            count = str(await connection.execute(sql, *values)).rpartition(" ")[2]
            if connection.is_in_transaction():
                raise Refused(
                    "the transaction was not committed; each call has its own connection, so nothing was changed"
                )
        return int(count) if count.isdigit() else 0

    async def close(self) -> None:
        """Drop the schema. Raises `WorkspaceError` if that fails."""
        if not self._made:
            return
        self._made = False
        try:
            async with self._connected(_SETUP_S) as connection:
                await connection.execute(f"SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {self._schema} CASCADE")
        except Refused as refusal:
            raise WorkspaceError(
                f"could not drop the schema {self._schema} of {self._address()}: {refusal}"
            ) from refusal

    @contextlib.asynccontextmanager
    async def _connected(self, timeout_s: float) -> AsyncGenerator[Any]:
        """A connection for `timeout_s`. Raises `Refused` if PostgreSQL refuses the SQL, `WorkspaceError` if it cannot
        be reached."""
        driver = self._driver
        connection = await self._connect()
        try:
            async with asyncio.timeout(timeout_s):
                yield connection
        except TimeoutError as error:
            raise Refused(f"it took longer than {timeout_s:g} s") from error
        except (OSError, driver.PostgresConnectionError) as error:
            raise WorkspaceError(f"the PostgreSQL database {self._address()} is gone: {_reason(error)}") from error
        except (driver.PostgresError, driver.InterfaceError, ValueError) as error:
            raise Refused(_reason(error)) from error
        finally:
            await self._disconnect(connection)

    async def _connect(self) -> Any:
        driver = self._driver
        settings = {"application_name": "steadyhand", **({"search_path": self._schema} if self._schema else {})}
        try:
            connection = await driver.connect(self._given, timeout=_CONNECT_S, server_settings=settings)
            for kind in ("json", "jsonb"):
                await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        except (OSError, TimeoutError, ValueError, driver.PostgresError, driver.InterfaceError) as error:
            raise WorkspaceError(
                f"the PostgreSQL database {self._address()} cannot be used: {_reason(error)}"
            ) from error
        return connection

    async def _disconnect(self, connection: Any) -> None:
        """Close the connection, which cancels a statement that timed out."""
        try:
            await connection.close(timeout=5.0)
        except (OSError, TimeoutError, self._driver.PostgresError, self._driver.InterfaceError):
            connection.terminate()

    def _address(self) -> str:
        """The URL without what may be a secret."""
        parts = urlsplit(self._given)
        return f"{parts.path.lstrip('/') or 'of the default name'!r} ({parts.hostname or 'this machine'})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _positional(params: Any) -> Sequence[Any]:
    if isinstance(params, dict):
        raise Refused("parameters must be a list, for $1, $2 and so on in the SQL")
    return cast("Sequence[Any]", params or ())


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
