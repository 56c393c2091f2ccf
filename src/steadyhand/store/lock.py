"""One writer at a time: an advisory lock beside the run record, released by the system when its holder dies."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from steadyhand.errors import StoreError

SUFFIX = ".lock"


class RunLock:
    """Held from `take` until `release`. A lock file left behind by a killed process blocks nobody.

    It is a separate file because a lock on the record itself is lost when any descriptor of the record is closed.
    """

    def __init__(self, file: Path, descriptor: int | None) -> None:
        """Use `take`."""
        self._file: Path = file
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, record: Path) -> RunLock:
        """Raises `StoreError`, which names the process that is writing this record."""
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
                    f"the run record {record} is being written by process {holder}; wait for it or stop it, then resume"
                ) from None
            if _is_at(descriptor, file):
                with suppress(OSError):  # on a full disk the lock still holds, only without a name
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return cls(file, descriptor)
            os.close(descriptor)

    def release(self) -> None:
        """Safe to call twice. The file is removed first, so that whoever opened it before notices."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._file.unlink(missing_ok=True)
        os.close(descriptor)


def has_writer(record: Path) -> bool:
    """Whether a living process is recorded as the writer of this record.

    It does not try the lock, as holding it even for a moment could turn a writer away.
    """
    if _locking() is None:
        return True
    try:
        holder = int(record.with_name(record.name + SUFFIX).read_bytes().decode("ascii"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # being written at this moment, or the disk was full
        return True
    try:
        os.kill(holder, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True


def _locking() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # Windows, where only SQLite keeps writers apart
        return None
    return fcntl


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether the locked file still has that name; its last holder may have removed it in the meantime."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
