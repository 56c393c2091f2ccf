"""Selects and removes old runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from steadyhand.errors import StoreError
from steadyhand.records.run import RunHeader
from steadyhand.store.reader import RunEntry
from steadyhand.store.schema import RunLock, remove_record

_LARGEST = 4 * 1024 * 1024
_SKIPPED = frozenset(("node_modules", "__pycache__"))


def prunable(
    runs: Sequence[RunEntry], *, keep: int, before: datetime, named: frozenset[str] = frozenset()
) -> list[RunEntry]:
    """The runs that were started earlier than `before`, except the newest `keep`. `runs` are the newest first.

    Never a run that is being written, cannot be read or is `named`, or from which a run that is kept was derived.
    """
    stays: list[RunHeader] = []
    old: dict[str, RunEntry] = {}
    for position, run in enumerate(runs):
        if run.header is None:
            continue
        may_go = position >= keep and run.status != "running" and run.id not in named
        if may_go and _started(run.header) < before:
            old[run.id] = run
        else:
            stays.append(run.header)
    while stays:
        run = stays.pop()
        for source in (run.origin, run.failed_of, *run.merged_from):
            if source in old:
                header = old.pop(source).header
                stays += [] if header is None else [header]
    return list(old.values())


def _started(header: RunHeader) -> datetime:
    """A run whose start cannot be read counts as new."""
    try:
        started = datetime.fromisoformat(header.started_at)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return started if started.tzinfo is not None else started.replace(tzinfo=UTC)


def named_in_project(folder: Path, ids: set[str]) -> frozenset[str]:
    """The runs that are named by a JSON file below the folder, such as a baseline."""
    found: set[str] = set()
    for parent, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _SKIPPED]
        for name in files:
            if name.endswith(".json"):
                text = _text(Path(parent, name))
                found |= {each for each in ids - found if each in text}
    return frozenset(found)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace") if file.stat().st_size <= _LARGEST else ""
    except OSError:
        return ""


def remove_run(record: Path) -> bool:
    """Remove the record, unless it is being written. Returns whether it was removed."""
    try:
        lock = RunLock.take(record)
    except StoreError:
        return False
    try:
        remove_record(record)
    finally:
        lock.release()
    return not record.exists()
