"""The workspaces of a run, and its isolation, chosen when the first process of an agent or a command is started."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from steadyhand.builtin.plugin import sweep_workspaces
from steadyhand.compose.cast import Cast
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.ports.isolation import Isolation, Watch
from steadyhand.records.isolation import IsolationKind


class RunIsolation:
    """Implements `ports.isolation.Isolation` by what is chosen. Most decision scenarios start no process, and need to
    know neither the answer key nor what the machine can do. Every method raises `SetupError` if what the user asked for
    cannot be had."""

    def __init__(self, settings: Settings, workspaces: Path) -> None:
        self.casts: Sequence[Cast] = ()
        self.note: str = ""
        """What to say about it, once it is chosen."""
        self._settings = settings
        self._workspaces = workspaces
        self._made: list[Path] = []
        self._lock = Lock()
        self._found: Isolation | None = None

    @property
    def chosen(self) -> Isolation:
        with self._lock:
            if self._found is None:
                from steadyhand.compose.answer_key import choose_isolation  # not for a run that starts no process

                out = self._settings.out
                self._made = (
                    []
                    if self._settings.isolation == "none"
                    else [folder for folder in (out, out.parent) if not folder.exists()]
                )
                self._found, self.note = choose_isolation(self.casts, self._settings, self._workspaces)
            return self._found

    @property
    def kind(self) -> IsolationKind:
        return self.chosen.kind

    @property
    def watch(self) -> Watch | None:
        return self.chosen.watch

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        return self.chosen.command(argv, visible)

    def close(self) -> None:
        """Remove the folder for records that was made only to be hidden, if the run came to nothing."""
        close = getattr(self._found, "close", None)
        if close is not None:
            close()
        for folder in self._made:
            with contextlib.suppress(OSError):  # it is in use
                folder.rmdir()


def clean_workspaces() -> Path:
    """The user's folder for workspaces, cleaned of what killed runs have left there.

    It is a temporary folder and not next to the scenarios, so that an agent's `..` does not lead to the answers. Raises
    `SetupError` if the folder belongs to another user.
    """
    root = Path(tempfile.gettempdir()) / f"steadyhand-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise SetupError(f"{root} belongs to another user; set TMPDIR to a folder that you own")
    workspaces = root / "workspaces"
    workspaces.mkdir(mode=0o700, exist_ok=True)
    sweep_workspaces(workspaces)
    return workspaces
