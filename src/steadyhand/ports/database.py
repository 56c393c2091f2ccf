"""The database of a trial, as its checks see it."""

from __future__ import annotations

from typing import Any, Protocol

from steadyhand.records.scenario import DatabaseSeed


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
