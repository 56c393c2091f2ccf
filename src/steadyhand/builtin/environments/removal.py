"""Removing a workspace, whatever a program left in it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from steadyhand.errors import WorkspaceError


def remove_tree(path: Path) -> None:
    """Remove a file or folder with everything in it; read-only folders and very deep ones too. Gone is fine.

    Raises `WorkspaceError` when something is still there in the end.
    """
    try:
        _remove(path)
    except (OSError, RecursionError):
        _force(path)


def _remove(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _force(path: Path) -> None:
    """Open every folder to ourselves first, then leave depth and long names to `rm`, which has no limit on them."""
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        done = subprocess.run(  # noqa: S603 - fixed programs, a path of our own making
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if path.exists() or path.is_symlink():
        raise WorkspaceError(f"workspace {path} could not be removed: {done.stderr.strip()[:500]}")
