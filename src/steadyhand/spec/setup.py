"""The `setup` of an agent scenario, lowered to its record."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

from steadyhand.records.scenario import DatabaseSeed, Mock, MockFault, MockWhen, Setup
from steadyhand.spec.document import Document
from steadyhand.spec.findings import Findings
from steadyhand.spec.shapes.setup import MockShape, SetupShape

MAX_SQL_BYTES = 16 << 20


def lower_setup(shape: SetupShape, document: Document, *, virtual_fs: dict[str, str], sql: str | None) -> Setup:
    """`virtual_fs` and `sql` are what was read of those keys before."""
    database = shape.database
    return Setup(
        mocks=tuple(_mock(mock, document, index) for index, mock in enumerate(shape.mocks)),
        virtual_fs=virtual_fs,
        database=DatabaseSeed(sql=sql, records=database.records, url=database.url) if database else None,
    )


def _mock(shape: MockShape, document: Document, index: int) -> Mock:
    when, error = shape.when, shape.error
    return Mock(
        method=shape.method,
        place=document.locate(("setup", "mocks", index)),
        service=shape.service,
        when=MockWhen(
            args=when.args,
            input=when.input,
            context=when.context,
            matcher=when.matcher,
            partial_args=when.partial_args,
        ),
        response=shape.response,
        response_fn=shape.response_fn,
        error=MockFault(code=error.code, message=error.message, status=error.status) if error else None,
        delay_ms=shape.metadata.delay,
        probability=shape.metadata.probability,
    )


def read_sql(database: Any, document: Document, findings: Findings) -> str | None:
    """The SQL of `setup.database`, inline or out of its file."""
    if not isinstance(database, dict):
        return None
    given = cast("dict[str, Any]", database)
    sql, file = given.get("sql"), given.get("sql_file")
    if not isinstance(file, str) or not file:
        return sql if isinstance(sql, str) else None
    path = ("setup", "database", "sql_file")
    if sql is not None:
        findings.error(path, "found `sql` and `sql_file`; give one of them", "conflict", key=True)
        return None
    try:
        with (Path(document.folder) / file).open("rb") as stream:
            content = stream.read(MAX_SQL_BYTES + 1)
        if len(content) > MAX_SQL_BYTES:
            findings.error(path, f"`{file}` is larger than 16 MiB", "too-large")
            return None
        return content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"`{file}`, relative to the scenario file, cannot be read: {reason}"
        findings.error(path, message, "missing-file")
        return None


def digest_with(document: Document, sql_file: str | None, sql: str | None) -> str:
    """The scenario's digest: of its file and, when there is one, of the SQL file it reads."""
    if sql_file is None or sql is None:
        return document.digest
    return hashlib.sha256(f"{document.digest}\n{sql}".encode()).hexdigest()[:16]
