"""Where trials have their workspaces."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from steadyhand.builtin.environments.cleanup import sweep
from steadyhand.errors import SetupError


def clean_workspaces() -> Path:
    """The user's own folder for workspaces, rid of what runs that were killed have left there.

    It is a temporary folder and not one beside the scenarios, so that an agent's `..` does not lead to the answers.
    Raises `SetupError` when the folder belongs to somebody else.
    """
    root = Path(tempfile.gettempdir()) / f"steadyhand-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise SetupError(f"{root} belongs to another user; set TMPDIR to a folder of your own")
    workspaces = root / "workspaces"
    workspaces.mkdir(mode=0o700, exist_ok=True)
    sweep(workspaces)
    return workspaces
