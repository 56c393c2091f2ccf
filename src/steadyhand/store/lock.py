"""One writer at a time: an advisory lock beside the run record, which the system lets go of when its holder dies."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from steadyhand.errors import StoreError

SUFFIX = ".lock"


class RunLock:
    """Held from `take` until `release`. A lock file that a killed process left behind does not hinder anybody.

    SQLite's own locks are on the record itself and are lost when any descriptor of it is closed, so this one is on a
    file of its own.
    """

    def __init__(self, file: Path, descriptor: int | None) -> None:
        """Use `take`."""
        self._file: Path = file
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, record: Path) -> RunLock:
        """Raises `StoreError` that names the process which writes this record now."""
        file = record.with_name(record.name + SUFFIX)
        locking = _locking()
        if locking is None:
            return cls(file, None)
        while True:
            try:
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StoreError(f"the run record {record} cannot be locked: {error.strerror}") from error
            try:
                locking.flock(descriptor, locking.LOCK_EX | locking.LOCK_NB)
            except OSError:
                holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(descriptor)
                raise StoreError(
                    f"the run record {record} is being written by process {holder}; wait for it, or stop it, and resume"
                ) from None
            if _is_at(descriptor, file):
                with suppress(OSError):  # on a full disk the lock holds all the same, it only names nobody
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return cls(file, descriptor)
            os.close(descriptor)

    def release(self) -> None:
        """Safe to call twice. The file goes first: whoever opened it before finds out that it is no longer there."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._file.unlink(missing_ok=True)
        os.close(descriptor)


def has_writer(record: Path) -> bool:
    """Whether a process that is still there says it writes this record.

    It looks and does not lock: a look that took the lock for a moment could turn a writer away.
    """
    if _locking() is None:
        return True
    try:
        holder = int(record.with_name(record.name + SUFFIX).read_bytes().decode("ascii"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # it is just being written, or the disk was full
        return True
    try:
        os.kill(holder, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process
        return True
    return True


def _locking() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # Windows; there only SQLite keeps writers apart
        return None
    return fcntl


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether the locked file is still the one under that name; its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
