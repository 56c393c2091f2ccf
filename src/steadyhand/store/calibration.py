"""The file of calibrations: JSON, one entry per judge, suitable for version control."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from steadyhand.errors import StoreError
from steadyhand.records.base import Record
from steadyhand.records.calibration import Calibration

FORMAT = 1


class _File(Record):
    format: int
    calibrations: tuple[Calibration, ...] = ()


def read_calibrations(file: Path) -> dict[str, Calibration]:
    """The calibrations by judge; empty if there is no such file. Raises `StoreError` if it cannot be read."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_File)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(
            f"the calibrations {file} cannot be read: {error}; run `steadyhand calibrate` again"
        ) from error
    if found.format != FORMAT:
        raise StoreError(f"the calibrations {file} have format {found.format}; this version reads format {FORMAT}")
    return {each.judge: each for each in found.calibrations}


def keep_calibration(file: Path, calibration: Calibration) -> None:
    """Add it to the file, replacing an older one of the same judge. The file is replaced atomically.

    Raises `StoreError`.
    """
    known = {**read_calibrations(file), calibration.judge: calibration}
    whole = _File(format=FORMAT, calibrations=tuple(known[judge] for judge in sorted(known)))
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text)
        part.replace(file)
    except OSError as error:
        raise StoreError(f"the calibration cannot be written to {file}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
