"""The runs of a folder, and finding one by what a person types."""

from __future__ import annotations

from pathlib import Path

from steadyhand.errors import StoreError
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import SUFFIX, never_begun

_STAMP = len("20261116-104455")
_SHOWN = 5


class RunEntry(Record):
    """A run of the folder. When its file cannot be read, `problem` says why and the rest is empty."""

    id: str
    path: Path
    header: RunHeader | None = None
    status: str = ""
    counts: dict[Verdict, int] = {}
    problem: str | None = None


def list_runs(folder: Path) -> list[RunEntry]:
    """Every run of the folder, the newest first. A file that cannot be read never hides the others."""
    return [_entry(path) for path in _newest_first(folder)]


def find_run(folder: Path, name: str) -> Path:
    """The file of a run, by id, by the beginning of an id if only one has it, as `last`, or by path.

    Raises `StoreError` that says which runs there are.
    """
    paths = _newest_first(folder)
    if name == "last":
        begun = next((path for path in paths if not never_begun(path)), None)
        if begun is not None:
            return begun
        raise StoreError(f"there are no runs in {folder} yet")
    exact = [path for path in paths if path.stem == name]
    found = exact or [path for path in paths if name and path.stem.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise StoreError(f"{name!r} could be any of {len(found)} runs: {_some(found)}; give more of its id")
    if Path(name).is_file():
        return Path(name)
    there = f"there are: {_some(paths)}" if paths else "there are no runs yet"
    raise StoreError(f"no run {name!r} in {folder}, and no such file; {there}")


def _newest_first(folder: Path) -> list[Path]:
    found = [(path.stem[:_STAMP], path.stat().st_mtime_ns, path) for path in folder.glob(f"*{SUFFIX}")]
    return [path for *_, path in sorted(found, reverse=True)]


def _some(paths: list[Path]) -> str:
    rest = len(paths) - _SHOWN
    return ", ".join(path.stem for path in paths[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _entry(path: Path) -> RunEntry:
    try:
        reader = RunReader.open(path)
        return RunEntry(id=path.stem, path=path, header=reader.header, status=reader.status, counts=reader.counts())
    except StoreError as error:
        return RunEntry(id=path.stem, path=path, problem=str(error))
