"""The place in which a trial runs: files and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from steadyhand.records.result import CapturedFile, CommandResult, FileSystemOperation
from steadyhand.records.scenario import DatabaseSeed


class EnvironmentProvider(Protocol):
    """A fresh, isolated workspace for one trial.

    Paths are relative to the workspace; `out.txt`, `./out.txt` and `/out.txt` name the same file, and none leads
    out of it. Every method raises `WorkspaceError` when the environment itself fails. It may declare `closes_at_once`.
    """

    @property
    def name(self) -> str: ...

    @property
    def sandboxed(self) -> bool:
        """Whether commands are kept from the host: its files, its processes and its network."""
        ...

    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        """Make the workspace and write the files. Called once, first."""
        ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a shell command line, or a program with its arguments, to its end.

        A non-zero exit is a result, not an exception. On timeout the process group is killed and the result says
        `timed_out`. Files are asked for with `capture`.
        """
        ...

    def export(self, variables: Mapping[str, str]) -> None:
        """Give these variables to every command from now on; what `run` is given goes before them."""
        ...

    async def read(self, path: str) -> bytes | None:
        """The file's content, or None when there is no such file inside the workspace."""
        ...

    async def write(self, path: str, content: bytes) -> None: ...

    async def list_files(self) -> Sequence[str]:
        """Every regular file of the workspace, as sorted relative paths with `/`."""
        ...

    async def capture(self) -> Mapping[str, CapturedFile]:
        """Every file with its content, as far as the size limits allow."""
        ...

    async def teardown(self) -> None:
        """Kill what still runs and remove the workspace. Safe to call twice, and after a failed `setup`."""
        ...


def closes_at_once(environment: object) -> bool:
    """Whether `teardown`, as the environment stands, waits for nothing: its attribute of this name, else False."""
    return bool(getattr(environment, "closes_at_once", False))


@runtime_checkable
class OnThisMachine(Protocol):
    """An environment whose workspace is a folder here, for agents that work in it themselves."""

    async def folder(self) -> Path:
        """The workspace, made when it is not there yet. Whatever runs in it is ended at `teardown`."""
        ...


@runtime_checkable
class MarksPrograms(Protocol):
    """An environment that finds again what a program left running, if it was started as told here."""

    def marked(self, argv: Sequence[str]) -> list[str]:
        """The command line to start instead of `argv`."""
        ...


class Database(Protocol):
    """Read only: a check must not change what it checks, and its query is no call that the agent made."""

    async def rows(self, sql: str, *, timeout_s: float) -> list[dict[str, Any]]:
        """What a query answers, column names to values that JSON can hold.

        Raises `WorkspaceError` when the query is refused, would write, or takes longer than `timeout_s`.
        """
        ...


class TrialDatabase(Database, Protocol):
    """The same, as the engine sees it: opened after the environment is set up, closed before it is torn down."""

    async def open(self) -> None: ...

    async def seed(self, seed: DatabaseSeed) -> None: ...

    async def close(self) -> None: ...
