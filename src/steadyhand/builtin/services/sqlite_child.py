"""The program that runs SQL on a trial's SQLite file, inside the trial's environment. It needs nothing but Python.

It reads a request as JSON from stdin and answers in JSON on stdout. SQL cannot reach another file, because attaching
databases is disabled.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    request = json.load(sys.stdin)
    try:
        answer = {"answer": _OPERATIONS[request["operation"]](request)}
    except (sqlite3.Error, sqlite3.Warning, OSError, ValueError, OverflowError) as error:
        answer = {"error": f"{error}"}
    json.dump(answer, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # what an interpreter does at its end takes longer than most queries


def _make(request: dict[str, Any]) -> str:
    """Create the file, with the given content if any, and return its path."""
    import binascii  # base64 takes long to import

    file = f"{os.path.realpath(_temporary_folder())}/{request['name']}"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(binascii.a2b_base64(request["content"]))
    return file


def _temporary_folder() -> str:
    """As `tempfile` finds it, which takes longer to import than all the rest."""
    given = os.environ.get("TMPDIR")
    if given and os.path.isdir(given) and os.access(given, os.W_OK | os.X_OK):  # noqa: PTH112
        return given
    import tempfile

    return tempfile.gettempdir()


def _seed(request: dict[str, Any]) -> None:
    connection = _connect(request["file"], "rw")
    try:
        if request["sql"]:
            connection.executescript(request["sql"])
        for table, rows in request["records"].items():
            for row in rows:
                columns = ", ".join(_quoted(name) for name in row)
                places = ", ".join("?" for _ in row)
                values = [json.dumps(value) if isinstance(value, (dict, list)) else value for value in row.values()]
                what = f"({columns}) VALUES ({places})" if row else "DEFAULT VALUES"
                try:
                    connection.execute(f"INSERT INTO {_quoted(table)} {what}", values)
                except sqlite3.Error as error:
                    raise ValueError(f"records of table {table!r}: {error}") from error
        connection.commit()
    finally:
        connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _query(request: dict[str, Any]) -> dict[str, Any]:
    connection = _connect(request["file"], "ro" if request["read_only"] else "rw")
    try:
        if request["read_only"]:
            connection.execute("PRAGMA query_only = ON")
        cursor = connection.execute(request["sql"], _parameters(request["params"]))
        columns = [column[0] for column in cursor.description or ()]
        if request["read_only"] and not columns:
            raise ValueError("not a query: it returns no columns")
        rows = cursor.fetchmany(request["limit"] + 1)
        connection.commit()
    finally:
        connection.close()
    return {"columns": columns, "rows": [[_plain(value) for value in row] for row in rows]}


def _execute(request: dict[str, Any]) -> int:
    connection = _connect(request["file"], "rw")
    try:
        count = connection.execute(request["sql"], _parameters(request["params"])).rowcount
        connection.commit()
    finally:
        connection.close()
    return max(count, 0)


def _connect(file: str, mode: str) -> sqlite3.Connection:
    escaped = file.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(f"file:{escaped}?mode={mode}", uri=True, timeout=5.0)
    connection.text_factory = _text
    connection.execute("PRAGMA foreign_keys = ON")
    connection.set_authorizer(_allow)
    return connection


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _allow(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _parameters(given: Any) -> Any:
    if isinstance(given, dict):
        named: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]
        return named
    return [json.dumps(value) if isinstance(value, (dict, list)) else value for value in given or ()]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


_OPERATIONS = {
    "make": _make,
    "seed": _seed,
    "query": _query,
    "execute": _execute,
}

if __name__ == "__main__":
    main()
