"""The environment of a trial: its files, commands and database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from steadyhand.records.result import CapturedFile, CommandResult, FileSystemOperation
from steadyhand.records.scenario import DatabaseSeed


class EnvironmentProvider(Protocol):
    """A fresh, isolated workspace for one trial.

    Paths are relative to the workspace and cannot leave it; `out.txt`, `./out.txt` and `/out.txt` name the same file.
    Every method raises `WorkspaceError` if the environment itself fails. It may declare `closes_at_once`, and
    `isolation` and `opened_key_files` as in `AgentFacts`, for the commands it has run.
    """

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def sandboxed(self) -> bool:
        """Whether commands cannot reach the host's files, processes and network."""
        ...

    @abstractmethod
    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        """Create the workspace and write the files. Called once, before anything else."""
        ...

    @abstractmethod
    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a shell command line, or a program with its arguments, to its end.

        A non-zero exit code is a result, not an exception. On timeout the process group is killed and `timed_out` is
        set. Use `capture` for files.
        """
        ...

    @abstractmethod
    def export(self, variables: Mapping[str, str]) -> None:
        """Set variables for every command from now on; those passed to `run` take precedence."""
        ...

    @abstractmethod
    async def read(self, path: str) -> bytes | None:
        """The file's content, or None if there is no such file in the workspace."""
        ...

    @abstractmethod
    async def write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    async def list_files(self) -> Sequence[str]:
        """The regular files of the workspace, as sorted relative paths with `/`."""
        ...

    @abstractmethod
    async def capture(self) -> Mapping[str, CapturedFile]:
        """All files with their content, within the size limits."""
        ...

    @abstractmethod
    async def teardown(self) -> None:
        """Kill running processes and remove the workspace. Safe to call twice, and after a failed `setup`."""
        ...


@runtime_checkable
class OnThisMachine(Protocol):
    """An environment whose workspace is a local folder, for agents that work in it directly."""

    async def folder(self) -> Path:
        """The workspace, created if necessary. Processes that run in it are killed at `teardown`."""
        ...


@runtime_checkable
class MarksPrograms(Protocol):
    """An environment that can find leftover processes of a program, if it was started with this command line."""

    def marked(self, argv: Sequence[str]) -> list[str]:
        """The command line to start instead of `argv`."""
        ...


class Database(Protocol):
    """The trial's database for checks. Read-only: a check must not change what it checks."""

    async def rows(self, sql: str, *, timeout_s: float) -> list[dict[str, Any]]:
        """The rows of a query as dicts, with values that JSON can hold.

        Raises `WorkspaceError` if the query is refused, would write, or takes longer than `timeout_s`.
        """
        ...


class TrialDatabase(Database, Protocol):
    """A database as the engine sees it: opened after the environment is set up, closed before it is torn down."""

    async def open(self) -> None: ...

    async def seed(self, seed: DatabaseSeed) -> None: ...

    async def close(self) -> None: ...
