"""Importing a plugin that is a file beside a scenario."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from steadyhand.errors import SetupError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def load_file(path: Path, *, noun: str = "plugin file") -> ModuleType:
    """The module of this file, under a name of its own; the same file is imported once while it does not change.

    While it is imported its folder is on `sys.path`, so that it can import its neighbours. Raises `SetupError` with
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
    """`file:line: what was raised`; the line is the last one in `path`, when the exception passed through it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if path is not None and frame.filename == str(path)] or frames
    where = f"{inside[-1].filename}:{inside[-1].lineno}: " if inside else ""
    return f"{where}{type(error).__name__}: {error}"


@contextmanager
def _neighbours(folder: Path) -> Generator[None]:
    """The folder first on `sys.path`; what was imported from it is forgotten after, so that a module of the same
    name beside another plugin is not mistaken for it."""
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


GROUP = "steadyhand.plugins"


class InstalledPlugins:
    """The entry points of the group `steadyhand.plugins`, read when first asked for and then kept.

    Make one per run: reading them looks at every installed package.
    """

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] | None = None

    def _entries(self) -> dict[str, EntryPoint]:
        if self._found is None:
            from importlib.metadata import entry_points

            self._found = {entry.name: entry for entry in entry_points(group=GROUP)}
        return self._found

    def get(self, name: str) -> EntryPoint | None:
        return self._entries().get(name)

    def names(self) -> list[str]:
        return sorted(self._entries())
