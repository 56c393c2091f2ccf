"""What keeps agents that we start, and what they start, from what their trials are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from steadyhand.ports.agent import AgentProcess
from steadyhand.records.isolation import IsolationKind


class Watch(Protocol):
    """Sees which files of the answer key a process opens. If it `names_processes`, what we open ourselves counts for
    nobody."""

    @property
    def names_processes(self) -> bool: ...

    def begin(self, process: AgentProcess, workspace: Path | None = None) -> None:
        """The process, or what it starts, may open files from now on, and those in its `workspace` are its own. Safe to
        repeat."""
        ...

    def end(self, process: AgentProcess) -> tuple[str, ...]:
        """What it has opened since it first began, as far as can be known. Until it begins again, it does not have the
        turn."""
        ...


class Isolation(Protocol):
    """Chosen once for a run. `kind` is what is recorded."""

    @property
    def kind(self) -> IsolationKind: ...

    @property
    def watch(self) -> Watch | None:
        """Only if what agents open is watched."""
        ...

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        """The command line that starts `argv` in a room of its own, where of all workspaces it sees only those that
        are `visible`; `argv` itself if there are no rooms."""
        ...


class NoIsolation:
    """Nothing is kept from anybody."""

    kind: IsolationKind = "none"
    watch: Watch | None = None

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        return list(argv)
