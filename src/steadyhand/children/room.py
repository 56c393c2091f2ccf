"""A room of its own for an agent: everything is where it was, but not what its trial is judged by, nor other processes.

Three ways, the best first: bubblewrap, namespaces of our own, and Landlock; `room_program.py` has the last two. Each is
tried once before it is used. Root loses the capabilities by which it could leave the room.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from steadyhand.children import room_program
from steadyhand.ports.isolation import Watch
from steadyhand.records.isolation import AnswerKey, IsolationKind

Means = Literal["bubblewrap", "namespaces", "landlock"]

_TIMEOUT_S = 20.0
_PROGRAM = [sys.executable, "-I", "-S", str(Path(room_program.__file__))]
_IN = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
_OUT = 'exec "$@" <&3 >&4 3<&- 4>&-'
"""bubblewrap keeps its standard streams until the end; a program that closes its own must be seen to have done so."""


class Room:
    """Implements `ports.isolation.Isolation`."""

    kind: IsolationKind = "room"
    watch: Watch | None = None

    def __init__(self, key: AnswerKey, means: Means) -> None:
        self.means: Means = means
        self._key = key

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        """See `ports.isolation.Isolation`. What is `visible` must exist."""
        if self.means == "bubblewrap":
            return [*self._bubblewrap, *_pairs("--bind", map(str, visible)), "--", "/bin/sh", "-c", _OUT, "sh", *argv]
        return [*self._program, *(each for path in visible for each in ("--show", str(path))), "--", *argv]

    @cached_property
    def _bubblewrap(self) -> list[str]:
        key, blank = self._key, str(_blank(self._key))
        dropped = [word for name in room_program.CAPABILITIES for word in ("--cap-drop", name)]
        return [
            *("/bin/sh", "-c", _IN, "sh"),
            *(shutil.which("bwrap") or "bwrap", "--dev-bind", "/", "/", "--die-with-parent", "--unshare-pid"),
            *("--proc", "/proc", *((*dropped, *_pairs("--ro-bind", room_program.KERNEL)) if os.getuid() == 0 else ())),
            *_pairs("--bind-try", self._pinned),
            *_pairs("--ro-bind-try", (*key.fixed, blank)),
            *(word for folder in key.folders for word in ("--tmpfs", folder, "--remount-ro", folder)),
            *(word for file in (*key.files, *_disks()) for word in ("--ro-bind", blank, file)),
            *("--tmpfs", key.workspaces),
        ]

    @cached_property
    def _program(self) -> list[str]:
        hidden = [word for file in (*self._key.files, *_disks()) for word in ("--file", file)]
        hidden += [word for folder in self._key.folders for word in ("--folder", folder)]
        kept = [word for path in self._pinned for word in ("--pin", path)]
        kept += [word for path in self._key.fixed for word in ("--fix", path)]
        return [*_PROGRAM, self.means, *hidden, *kept, "--workspaces", self._key.workspaces]

    @cached_property
    def _pinned(self) -> list[str]:
        """The folders that lead to what is closed or fixed, and that could be renamed: something else could be put in
        their place, for us. A mount cannot be renamed."""
        key = self._key
        kept = (*key.files, *key.folders, *key.fixed, key.workspaces)
        above = {str(folder) for path in kept for folder in Path(path).parents}
        inside = {
            folder for folder in above if any(folder.startswith(f"{each}/") for each in (*key.folders, *key.fixed))
        }
        return sorted(each for each in above - inside if each != "/" and os.access(Path(each).parent, os.W_OK))

    def refusal(self) -> str | None:
        """Why this machine does not permit it; None if it works."""
        if self.means == "bubblewrap" and shutil.which("bwrap") is None:
            return "bubblewrap is not installed"
        try:
            tried = subprocess.run(  # noqa: S603 - our own command line
                self.command(["/bin/sh", "-c", "exit 0"], ()),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.means}: {error}"
        if tried.returncode == 0:
            return None
        said = tried.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"{self.means}: {said[-1] if said else f'exit code {tried.returncode}'}"


def find_room(key: AnswerKey) -> Room | str:
    """The best room that this machine can make, or why it can make none."""
    if sys.platform != "linux":
        return "it needs Linux"
    _make_blank(_blank(key))
    refusals: list[str] = []
    for means in ("bubblewrap", "namespaces", "landlock"):
        room = Room(key, means)
        refusal = room.refusal()
        if refusal is None:
            return room
        refusals.append(refusal)
    return "; ".join(refusals)


def _blank(key: AnswerKey) -> Path:
    """What is mounted over a file by bubblewrap. It is next to the workspaces, and empty."""
    return Path(key.workspaces).parent / "empty"


def _make_blank(blank: Path) -> None:
    """Whatever else is in its place would be seen in every file of the key."""
    if not blank.is_symlink() and blank.is_file() and not blank.stat().st_size:
        return
    blank.unlink(missing_ok=True)
    blank.touch(0o444, exist_ok=False)


def _pairs(option: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from (option, path, path)


def _disks() -> Iterator[str]:
    """The devices from which root could read files past any mask."""
    if os.getuid() != 0:
        return
    for path in Path("/dev").iterdir():
        if stat.S_ISBLK(path.lstat().st_mode):
            yield str(path)
