"""From `package.module:name` or `./file.py:name` to the object that has this name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from steadyhand.builtin.agents.beside import file_beside
from steadyhand.errors import SetupError
from steadyhand.plugins.discovery import fault, load_file


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The object, and the file that messages point into."""

    found: Any
    file: Path | None


def find_target(target: str, folder: Path) -> Target:
    """Raises `SetupError` when there is no such file, module or name, or importing it fails.

    While it is imported, the scenario's folder is importable; a module that lies in it is loaded as a file, so that
    the same name beside another scenario is another agent.
    """
    where = f"agent python:{target}"
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise SetupError(f"{where}: expected python:package.module:name or python:./file.py:name")
    module = _module(place, folder, where)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = ", ".join(sorted(key for key, value in vars(module).items() if _is_candidate(key, value, module)))
            raise SetupError(f"{where}: {place} has no {name!r} (it has: {known or 'nothing callable'})") from None
    file = getattr(module, "__file__", None)
    return Target(found=found, file=Path(file) if file else None)


def _module(place: str, folder: Path, where: str) -> ModuleType:
    if place.endswith(".py") or "/" in place:
        return load_file(file_beside(place, folder, wanted_by=where), noun=f"{where}:")
    beside = folder.joinpath(*place.split(".")).with_suffix(".py")
    if "." not in place and beside.is_file():
        return load_file(beside, noun=f"{where}:")
    return _imported(place, folder, where)


def _imported(place: str, folder: Path, where: str) -> ModuleType:
    entry = str(folder)
    importlib.invalidate_caches()
    sys.path.insert(0, entry)
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise SetupError(
                f"{where}: there is no module {place!r}; install its package, or name a file beside the scenario as "
                "python:./file.py:name"
            ) from error
        raise SetupError(f"{where}: {fault(error)}") from error
    except (Exception, SystemExit) as error:
        raise SetupError(f"{where}: {fault(error)}") from error
    finally:
        sys.path.remove(entry)
    top = place.partition(".")[0]
    file = getattr(module, "__file__", None)
    if (folder / top).is_dir() and file and not Path(file).resolve().is_relative_to(folder.resolve()):
        raise SetupError(
            f"{where}: {place!r} is already loaded from {file}, and {folder} has one of its own; "
            "give one of them another name, or name the file as python:./file.py:name"
        )
    return module


def _is_candidate(key: str, value: Any, module: ModuleType) -> bool:
    return callable(value) and not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
