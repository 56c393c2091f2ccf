"""Who made a workspace: written beside it, so that the next run can tell whether its owner still lives."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from steadyhand.records.base import Record

SUFFIX = ".owner"
UNFINISHED = ".part"


class Owner(Record):
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: str
    boot: str
    node: str
    namespace: str


def current_owner() -> Owner:
    return Owner(
        pid=os.getpid(),
        started=process_start(os.getpid()) or "",
        boot=_read("/proc/sys/kernel/random/boot_id"),
        node=platform.node(),
        namespace=_namespace(),
    )


def write_owner(workspace: Path) -> None:
    """Name this process as the workspace's owner. Appears whole or not at all."""
    target = owner_file(workspace)
    part = target.with_name(f"{target.name}.{os.getpid()}{UNFINISHED}")
    part.write_bytes(msgspec.json.encode(current_owner()))
    part.replace(target)


def owner_file(workspace: Path) -> Path:
    return workspace.with_name(workspace.name + SUFFIX)


def is_abandoned(part: Path) -> bool:
    """Whether the process that began to write this owner's file was killed over it; its name tells which one it was."""
    pid = part.name.removesuffix(UNFINISHED).rpartition(".")[2]
    return pid.isdigit() and not _exists(int(pid))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def is_gone(file: Path) -> bool:
    """Whether the process that wrote this file has ended. In doubt it has not: a live workspace must not be taken."""
    try:
        owner = msgspec.json.decode(file.read_bytes(), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return False
    here = current_owner()
    if owner.node != here.node:
        return False
    if owner.boot != here.boot:
        return True
    if owner.namespace != here.namespace:
        return False
    if here.started:
        return process_start(owner.pid) != owner.started
    return not _exists(owner.pid)


def process_start(pid: int) -> str | None:
    """When the process started, in ticks since boot; None when it has ended or the system does not tell."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return fields[19]


def stat_fields(pid: int) -> list[str] | None:
    """The fields of `/proc/<pid>/stat` after the program's name: state, parent, group, session, ..."""
    text = _read(f"/proc/{pid}/stat")
    # The name stands in brackets and may itself hold brackets and spaces.
    return text.rpartition(")")[2].split() or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
