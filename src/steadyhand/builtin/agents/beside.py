"""Files that the name of an agent mentions."""

from __future__ import annotations

from pathlib import Path

from steadyhand.errors import SetupError


def file_beside(name: str, folder: Path, *, wanted_by: str) -> Path:
    """A file relative to the scenario's folder or, failing that, to the current one. Raises `SetupError`."""
    looked = [base / name for base in dict.fromkeys((folder, Path.cwd()))]
    for candidate in looked:
        if candidate.is_file():
            return candidate.resolve()
    places = " nor ".join(str(candidate.parent.resolve()) for candidate in looked)
    raise SetupError(f"{wanted_by}: there is no file {name!r}, neither in {places}")
