"""Removing workspaces: one's own at the end, and those that a killed run left behind."""

from __future__ import annotations

from pathlib import Path

from steadyhand.builtin.environments.cleanup import kill_trial
from steadyhand.builtin.environments.owner import SUFFIX, UNFINISHED, is_abandoned, is_gone, owner_file
from steadyhand.builtin.environments.removal import remove_tree
from steadyhand.errors import WorkspaceError


def scratch_folder(workspace: Path) -> Path:
    """Where the commands of a trial put temporary files: beside the workspace, not to be taken for output."""
    return workspace.with_name(workspace.name + ".tmp")


def remove_workspace(workspace: Path, *, ran_commands: bool = True) -> None:
    """Kill what still runs there, and remove the folder with all that belongs to it. Safe to repeat.

    The owner's file goes last: if we are killed on the way, the next sweep finishes.
    """
    if ran_commands:
        kill_trial(workspace.name, workspace)
    remove_tree(scratch_folder(workspace))
    remove_tree(workspace)
    owner_file(workspace).unlink(missing_ok=True)


def sweep(root: Path) -> list[str]:
    """Remove the workspaces below `root` whose owning process is gone, and kill what still runs in them.

    Gives the names of those removed. One that cannot be removed is left for the next time.
    """
    for part in root.resolve().glob(f"*{UNFINISHED}"):
        if is_abandoned(part):
            part.unlink(missing_ok=True)
    removed: list[str] = []
    for file in sorted(root.resolve().glob(f"*{SUFFIX}")):
        workspace = file.with_name(file.name.removesuffix(SUFFIX))
        if not is_gone(file):
            continue
        try:
            remove_workspace(workspace)
        except (WorkspaceError, OSError):
            continue
        removed.append(workspace.name)
    return removed
