"""A trial's SQLite file, inside the trial's environment, where the agent's commands can open it as well.

All SQL runs in a program inside the environment: SQL written by a model can reach no more than its commands can, and
replacing the file by a link gains nothing.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
from pathlib import Path
from typing import Any, cast

from steadyhand.builtin.services.rows import MAX_ROWS, Refused, as_rows
from steadyhand.errors import WorkspaceError
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.records.base import shorten

_START = 'python=$1; [ -x "$python" ] || python=python3; exec "$python" -I -S -c "$2"'
_LARGEST = 64 << 20
_SETUP_S = 60.0


class SqliteDatabase:
    """The file is kept with the trial's temporary files, not in the workspace: it is not an output of the agent.

    `template` is a database file to copy; `existing` is one to use in place.
    """

    def __init__(
        self, environment: EnvironmentProvider, *, template: Path | None = None, existing: Path | None = None
    ) -> None:
        self._environment: EnvironmentProvider = environment
        self._template: Path | None = template
        self._existing: Path | None = existing
        self._file: str = str(existing) if existing else ""
        self._program: str = ""

    @property
    def url(self) -> str:
        return f"sqlite:///{self._file}"

    async def open(self) -> None:
        if self._existing is None:
            name = f"steadyhand-{secrets.token_hex(8)}.sqlite"
            content = base64.b64encode(_read(self._template)).decode()
            self._file = await self._ask(_SETUP_S, operation="make", name=name, content=content)

    async def seed(self, sql: str | None, records: dict[str, list[dict[str, Any]]]) -> None:
        if sql or records:
            await self._ask(_SETUP_S, operation="seed", file=self._file, sql=sql, records=records)

    async def query(self, sql: str, params: Any, *, timeout_s: float, read_only: bool) -> list[dict[str, Any]]:
        response = await self._ask(
            timeout_s,
            operation="query",
            file=self._file,
            sql=sql,
            params=params,
            read_only=read_only,
            limit=MAX_ROWS,
        )
        return as_rows(response["columns"], response["rows"])

    async def execute(self, sql: str, params: Any, *, timeout_s: float) -> int:
        return await self._ask(timeout_s, operation="execute", file=self._file, sql=sql, params=params)

    async def close(self) -> None:
        if self._existing is None and self._file:
            file, self._file = self._file, ""
            files = [f"{file}{suffix}" for suffix in ("", "-journal", "-wal", "-shm")]
            ran = await self._environment.run(["rm", "-f", *files], timeout_s=_SETUP_S)
            if ran.timed_out:
                raise _too_long(_SETUP_S)
            if ran.exit_code:
                raise Refused(shorten(ran.stderr.strip(), 500, keep="end") or f"exit code {ran.exit_code}")

    async def _ask(self, timeout_s: float, **request: Any) -> Any:
        """Raises `Refused` if SQLite refuses the SQL, and `WorkspaceError` if the program itself fails."""
        if not self._program:
            self._program = Path(__file__).with_name("sqlite_child.py").read_text("utf-8")
        try:
            asked = json.dumps(request, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Refused(f"a value cannot be passed to the database: {error}") from error
        ran = await self._environment.run(
            ["sh", "-c", _START, "sh", sys.executable, self._program], timeout_s=timeout_s, stdin=asked
        )
        if ran.timed_out:
            raise _too_long(timeout_s)
        if ran.truncated:
            raise Refused("the result is too large; narrow the query")
        try:
            response = cast("dict[str, Any]", json.loads(ran.stdout))
        except ValueError:
            said = shorten(ran.stderr.strip(), 500, keep="end") or f"exit code {ran.exit_code}"
            raise WorkspaceError(
                f"the trial's SQLite database needs Python 3 in the environment {self._environment.name!r}: {said}"
            ) from None
        if "error" in response:
            raise Refused(response["error"])
        return response["answer"]


def _too_long(timeout_s: float) -> Refused:
    return Refused(f"it took longer than {timeout_s:g} s")


def _read(template: Path | None) -> bytes:
    if template is None:
        return b""
    try:
        if template.stat().st_size > _LARGEST:
            raise WorkspaceError(f"the database {template} is larger than {_LARGEST >> 20} MiB")
        return template.read_bytes()
    except OSError as error:
        raise WorkspaceError(f"the database {template} cannot be read: {error.strerror}") from error
