"""Converts LostBench files to decision scenarios: read, map, check, and only then write."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from steadyhand.errors import SetupError
from steadyhand.importers.lostbench.case import Unmappable, map_case
from steadyhand.importers.lostbench.source import Skipped, read_source, to_yaml
from steadyhand.spec.load import load


class Imported(NamedTuple):
    """The files written, notes on what was left out of them, and the cases skipped altogether."""

    written: list[Path]
    notes: list[str]
    skipped: list[Skipped]


class _Text(NamedTuple):
    where: str
    name: str
    text: str


def import_lostbench(source: Path, out: Path, *, force: bool = False) -> Imported:
    """Write one decision scenario to the folder `out` for each case of `source`.

    A file is kept only if it loads. Raises `SetupError`, with nothing written, when nothing can be read, when a file
    exists and `force` is not set, or when `out` cannot be written.
    """
    found = read_source(source)
    if not found.cases:
        reasons = "".join(f"\n  {skipped}" for skipped in found.skipped)
        raise SetupError(f"{source}: found no readable LostBench scenario{reasons}")
    texts: list[_Text] = []
    notes: list[str] = []
    skipped = list(found.skipped)
    ids: set[str] = set()
    for case in found.cases:
        try:
            mapped = map_case(case.data, case.file)
        except Unmappable as reason:
            skipped.append(Skipped(case.where, str(reason)))
            continue
        id_, number = mapped.stem, 1
        while id_ in ids:
            number += 1
            id_ = f"{mapped.stem}_{number}"
        ids.add(id_)
        notes.extend(f"{case.where}: {note}" for note in mapped.notes)
        texts.append(_Text(case.where, f"{id_}.yaml", to_yaml({"id": id_, **mapped.scenario})))
    if texts and not force:
        there = [out / text.name for text in texts if os.path.lexists(out / text.name)]
        if there:
            more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
            raise SetupError(
                f"{there[0]} already exists{more}; nothing was written. Choose another --out-dir, or use --force"
            )
    written = _write(out, texts, skipped) if texts else []
    return Imported(written, notes, skipped)


def _write(out: Path, texts: list[_Text], skipped: list[Skipped]) -> list[Path]:
    """Write all files to a staging folder first, then move each into place, so that none is seen half-written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".import-", dir=out))
    except OSError as error:
        raise SetupError(f"{out} cannot be written: {error.strerror}") from error
    try:
        for text in texts:
            (staging / text.name).write_text(text.text, encoding="utf-8", errors="backslashreplace", newline="\n")
        # The first error of each file that does not load, by the file's name.
        refused: dict[str, str] = {}
        for problem in load([staging], catalogue={}).errors:
            path = f"{problem.place.path}: " if problem.place.path else ""
            refused.setdefault(Path(problem.place.file).name, f"the scenario would not load: {path}{problem.message}")
        kept = [text for text in texts if text.name not in refused]
        blocked = next((out / text.name for text in kept if (out / text.name).is_dir()), None)
        if blocked is not None:
            raise SetupError(f"{blocked} is a folder; nothing was written. Choose another --out-dir")
        for text in kept:
            (staging / text.name).replace(out / text.name)
    except OSError as error:
        raise SetupError(f"{out} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    skipped.extend(Skipped(text.where, refused[text.name]) for text in texts if text.name in refused)
    return [out / text.name for text in kept]
