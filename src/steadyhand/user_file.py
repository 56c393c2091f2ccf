"""A user's Python file: finding it, importing it, and the line at fault.

Child processes import this, so it imports nothing large.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from steadyhand.errors import SetupError

_PACKAGE = str(Path(__file__).parent) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep


def file_beside(name: str, folder: Path, *, wanted_by: str) -> Path:
    """A file relative to the scenario's folder or, failing that, to the current folder. Raises `SetupError`."""
    looked = [base / name for base in dict.fromkeys((folder, Path.cwd()))]
    for candidate in looked:
        if candidate.is_file():
            return candidate.resolve()
    places = ", ".join(str(candidate.parent.resolve()) for candidate in looked)
    raise SetupError(f"{wanted_by}: file not found: {name!r} (searched {places})")


def load_file(path: Path, *, noun: str = "plugin file") -> ModuleType:
    """The module of this file, under a unique name; an unchanged file is imported only once.

    Its folder is on `sys.path` during the import, so that it can import neighbouring modules. Raises `SetupError` with
    the line at fault when the file raises; `noun` is what the message calls it.
    """
    path = path.resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SetupError(f"{noun} {path}: {error.strerror}") from error
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()[:16]
    name = f"steadyhand_plugin_file_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{noun} {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    with _neighbours(path.parent):
        sys.modules[name] = module  # dataclasses and type hints look their module up while it is being imported
        try:
            exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's own plugin
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise SetupError(f"{noun} {fault(error, path)}") from error
    return module


def fault(error: BaseException, path: Path | None = None) -> str:
    """`file:line: what was raised`; the line is the last one of the user's own code, or else the last one in `path`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    where = _line_of(error, path)
    return f"{where}: {type(error).__name__}: {error}" if where else f"{type(error).__name__}: {error}"


def raised(error: BaseException) -> str:
    """The exception, and the file and line that raised it."""
    where = _line_of(error)
    return f"{type(error).__name__}: {error} (raised at {where})" if where else f"{type(error).__name__}: {error}"


def _line_of(error: BaseException, path: Path | None = None) -> str:
    """The last line outside this package that the exception passed through; empty if there is none, as when a user's
    function cannot be called with the arguments that we give it."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_PACKAGE)]
    if path is not None:
        own = [frame for frame in frames if not _is_library(frame.filename)]
        frames = own or [frame for frame in frames if frame.filename == str(path)] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _is_library(file: str) -> bool:
    """Whether it is an installed package, a module of Python's, or no file."""
    return (
        not Path(file).is_absolute()
        or file.startswith(_LIBRARY)
        or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    )


@contextmanager
def _neighbours(folder: Path) -> Generator[None]:
    """Put the folder first on `sys.path`. Modules imported from it are forgotten afterwards, so that a module of the
    same name next to another plugin is not mistaken for it."""
    before = set(sys.modules)
    entry = str(folder)
    importlib.invalidate_caches()
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder) and not name.startswith("steadyhand_plugin_file_"):
                del sys.modules[name]
