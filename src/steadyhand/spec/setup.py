"""The `setup` of an agent scenario, lowered to its record."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from steadyhand.records.scenario import DatabaseSeed, Mock, MockFault, MockWhen, RealService, Setup, is_url
from steadyhand.spec.faults import with_faults
from steadyhand.spec.validation import FieldPath, Findings, lowered
from steadyhand.spec.yaml import Document

if TYPE_CHECKING:
    from steadyhand.spec.agent_shapes import MockShape, SetupShape

MAX_SQL_BYTES = 16 << 20
_EXPECTED_URL = "expected a URL such as http://127.0.0.1:8000/mcp"


def lower_setup(shape: SetupShape, document: Document, *, virtual_fs: dict[str, str], sql: str | None) -> Setup:
    """`virtual_fs` and `sql` are what was already read from those keys."""
    database = shape.database
    return Setup(
        mocks=tuple(
            with_faults(_mock(mock, document, index), mock.faults, shape.faults)
            for index, mock in enumerate(shape.mocks)
        ),
        services=tuple(
            RealService(
                name=name,
                mcp=service.mcp.strip(),
                place=document.locate(("setup", "services", name)),
                timeout_ms=service.timeout,
            )
            for name, service in shape.services.items()
        ),
        virtual_fs=virtual_fs,
        database=database and lowered(DatabaseSeed, database, sql=sql),
    )


def check_services(setup: dict[str, Any], findings: Findings) -> None:
    """Each entry of `setup.services` must have a command line or a URL. Neither is looked up here."""
    services = setup.get("services")
    if not isinstance(services, dict):
        return
    if "database" in services and setup.get("database") is not None:
        message = "the name `database` is reserved for `setup.database`; choose another"
        findings.error(("setup", "services", "database"), message, "conflict", key=True)
    for name, service in cast("dict[str, Any]", services).items():
        mcp = cast("dict[str, Any]", service).get("mcp") if isinstance(service, dict) else None
        if isinstance(mcp, str) and mcp and (wrong := _wrong_server(mcp.strip())) is not None:
            findings.error(("setup", "services", name, "mcp"), f"{wrong}, found `{mcp}`", "bad-value")


def _wrong_server(mcp: str) -> str | None:
    if is_url(mcp):
        try:
            parts = urlsplit(mcp)
            if parts.hostname is None or parts.port == 0:
                return _EXPECTED_URL
        except ValueError:
            return _EXPECTED_URL
        return "expected a URL without a user and password" if "@" in parts.netloc else None
    if "://" in mcp.partition(" ")[0]:
        return "expected a command line, or a URL that begins with http:// or https://"
    try:
        words = shlex.split(mcp)
    except ValueError as error:
        return f"bad quoting ({error})"
    return None if words else "expected a command line or a URL"


def _mock(shape: MockShape, document: Document, index: int) -> Mock:
    when, error = shape.when, shape.error
    return Mock(
        method=shape.method,
        place=document.locate(("setup", "mocks", index)),
        service=shape.service,
        when=lowered(MockWhen, when, args=when.args, partial_args=when.partial_args),
        response=shape.response,
        response_fn=shape.response_fn,
        error=error and lowered(MockFault, error),
        delay_ms=shape.metadata.delay,
        probability=shape.metadata.probability,
        description=shape.description,
        parameters=shape.parameters,
    )


def read_sql(database: Any, document: Document, findings: Findings) -> str | None:
    """The SQL of `setup.database`, inline or from its file."""
    if not isinstance(database, dict):
        return None
    given = cast("dict[str, Any]", database)
    sql, file = given.get("sql"), given.get("sql_file")
    if not isinstance(file, str) or not file:
        return sql if isinstance(sql, str) else None
    path = ("setup", "database", "sql_file")
    if sql is not None:
        findings.error(path, "found both `sql` and `sql_file`; keep one of them", "conflict", key=True)
        return None
    source = Path(document.folder) / file
    try:
        if source.is_fifo():
            findings.error(path, f"expected a file, found the pipe `{file}`", "unreadable")
            return None
        with source.open("rb") as stream:
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
    """The scenario's digest: of its file and of the SQL file it reads, if any."""
    if sql_file is None or sql is None:
        return document.digest
    return hashlib.sha256(f"{document.digest}\n{sql}".encode()).hexdigest()[:16]


def read_virtual_fs(files: Any, path: FieldPath, findings: Findings) -> dict[str, str]:
    """The files by their path in the workspace. `/out.txt`, `./out.txt` and `out.txt` are the same."""
    if not isinstance(files, dict):
        return {}
    found: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, content in cast("dict[str, Any]", files).items():
        relative = _relative(name)
        if isinstance(relative, _Refused):
            findings.error((*path, name), f"{relative.reason}, found `{name}`", "bad-path", key=True)
        elif relative in written:
            message = f"is the same file as `{written[relative]}`"
            findings.error((*path, name), message, "duplicate-key", key=True)
        else:
            written[relative] = name
            if isinstance(content, str):
                found[relative] = content
    for relative, name in written.items():
        parts = relative.split("/")
        for folder in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if folder in written:
                message = f"`{written[folder]}` is a file, so there cannot be a file inside it"
                findings.error((*path, name), message, "bad-path", key=True)
    return found


class _Refused:
    def __init__(self, reason: str) -> None:
        self.reason: str = reason


def _relative(name: str) -> str | _Refused:
    if "\0" in name or "\\" in name:
        return _Refused("expected a path with `/` between its parts")
    if name.endswith("/"):
        return _Refused("expected the path of a file, not a folder")
    relative = posixpath.normpath(name.lstrip("/"))
    if relative == ".." or relative.startswith("../"):
        return _Refused("expected a path inside the workspace")
    if relative == ".":
        return _Refused("expected the path of a file")
    return relative
