"""Removing a trial's workspace, with what its commands left running there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from steadyhand.children.daemons import UNFINISHED, is_abandoned, is_gone, kill_trial
from steadyhand.errors import WorkspaceError
from steadyhand.records.base import shorten

SUFFIX = ".owner"


def owner_file(workspace: Path) -> Path:
    return workspace.with_name(workspace.name + SUFFIX)


def remove_tree(path: Path) -> None:
    """Remove a file or folder with everything in it, read-only and very deep folders included.

    It need not exist. Raises `WorkspaceError` if something could not be removed.
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
    """Make every folder writable first, then let `rm` remove them: it has no limit on depth or length of names."""
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        done = subprocess.run(  # noqa: S603 - fixed programs, a path of our own making
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if path.exists() or path.is_symlink():
        raise WorkspaceError(f"workspace {path} could not be removed: {shorten(done.stderr.strip(), 500)}")


def scratch_folder(workspace: Path) -> Path:
    """Where a trial's commands put temporary files: next to the workspace, so that they are not captured as output."""
    return workspace.with_name(workspace.name + ".tmp")


def remove_workspace(workspace: Path, *, ran_commands: bool = True) -> None:
    """Kill what still runs there, and remove the folder and everything that belongs to it. Can be repeated.

    The owner file goes last, so that if we are killed halfway, the next sweep finishes the job.
    """
    if ran_commands:
        kill_trial(workspace.name, workspace)
    remove_tree(scratch_folder(workspace))
    remove_tree(workspace)
    owner_file(workspace).unlink(missing_ok=True)


def sweep(root: Path) -> list[str]:
    """Remove the workspaces below `root` whose owning process is gone, and kill what still runs in them.

    Returns the names of those removed. One that cannot be removed is left for next time.
    """
    for part in root.resolve().glob(f"*{UNFINISHED}"):
        if is_abandoned(part):
            part.unlink(missing_ok=True)
    removed: list[str] = []
    for file in sorted(root.resolve().glob(f"*{SUFFIX}")):
        workspace = file.with_name(file.name.removesuffix(SUFFIX))
        if not is_gone(file):
            continue
        for inner in workspace.glob("*/") if workspace.is_dir() and not workspace.is_symlink() else ():
            sweep(inner)  # the folders that the processes of agents saw
        try:
            remove_workspace(workspace)
        except (WorkspaceError, OSError):
            continue
        removed.append(workspace.name)
    return removed
