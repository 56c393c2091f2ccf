"""Finds the object that `package.module:name` or `./file.py:name` names, and how to call it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from steadyhand.builtin.agents.python_call import OF_A_TURN, OF_THE_TRIAL, Parameters, parameters_of
from steadyhand.errors import SetupError
from steadyhand.user_file import fault, file_beside, load_file


class PythonTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The object, and the file in which messages give line numbers."""

    found: Any
    file: Path | None


def read_target(target: str, folder: Path) -> tuple[str, str]:
    """The module or file, and the name in it. Imports nothing.

    Raises `SetupError` if the target is malformed or its file does not exist.
    """
    where = f"agent python:{target}"
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise SetupError(f"{where}: expected python:package.module:name or python:./file.py:name")
    if _is_file(place):
        file_beside(place, folder, wanted_by=where)
    return place, name


def find_target(target: str, folder: Path) -> PythonTarget:
    """Raises `SetupError` if the file, module or name does not exist, or importing it fails.

    The scenario's folder is on `sys.path` during the import. A module in that folder is loaded as a file, so that
    another scenario can have a different agent of the same name.
    """
    where = f"agent python:{target}"
    place, name = read_target(target, folder)
    module = _module(place, folder, where)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = ", ".join(sorted(key for key, value in vars(module).items() if _is_candidate(key, value, module)))
            raise SetupError(
                f"{where}: {place} has no {name!r} (it has: {known or 'no functions or classes'})"
            ) from None
    file = getattr(module, "__file__", None)
    return PythonTarget(found=found, file=Path(file) if file else None)


def _module(place: str, folder: Path, where: str) -> ModuleType:
    if _is_file(place):
        return load_file(file_beside(place, folder, wanted_by=where), noun=f"{where}:")
    beside = folder.joinpath(*place.split(".")).with_suffix(".py")
    if "." not in place and beside.is_file():
        return load_file(beside, noun=f"{where}:")
    return _imported(place, folder, where)


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place


def _imported(place: str, folder: Path, where: str) -> ModuleType:
    entry = str(folder)
    importlib.invalidate_caches()
    sys.path.insert(0, entry)
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise SetupError(
                f"{where}: no module named {place!r}; install its package, or give a file next to the scenario as "
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
            f"{where}: {place!r} is already loaded from {file}, and {folder} has one as well; "
            "rename one of them, or give the file as python:./file.py:name"
        )
    return module


def _is_candidate(key: str, value: Any, module: ModuleType) -> bool:
    return callable(value) and not key.startswith("_") and getattr(value, "__module__", None) == module.__name__


def file_of(found: Any) -> Path | None:
    """The source file; None for an object defined at a prompt."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(found))
    except TypeError:
        return None
    return Path(file) if file else None


class Callee(msgspec.Struct, frozen=True, kw_only=True):
    """A function or method of the agent. `on_loop` is whether its code runs on the event loop."""

    wanted: Parameters
    on_loop: bool
    streams: bool = False


class AgentCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What to call on the agent. `made` is the constructor, or None if the agent is not a class."""

    respond: Callee
    made: Parameters | None = None
    open: Callee | None = None
    close: Callee | None = None

    @property
    def names(self) -> frozenset[str]:
        """Everything that it asks for."""
        callees = (self.respond, self.open, self.close)
        asked = [callee.wanted for callee in callees if callee is not None] + ([self.made] if self.made else [])
        return frozenset(name for wanted in asked for name in wanted.names)


def shape_of(found: Any, where: str) -> AgentCalls:
    """Raises `SetupError` for an object that is not an agent, or has a required parameter that we do not provide."""
    if inspect.isclass(found):
        return _class_shape(found, where)
    if not callable(found):
        if hasattr(found, "respond"):
            raise SetupError(f"{where} is an instance, which all trials would share; name its class instead")
        raise SetupError(f"{where} is a {type(found).__name__}; expected a function, or a class with `respond`")
    return AgentCalls(respond=_callee(found, OF_A_TURN, where))


def _class_shape(found: type[Any], where: str) -> AgentCalls:
    if not callable(getattr(found, "respond", None)):
        raise SetupError(f"{where} is a class without a `respond` method")

    def method(name: str, offered: tuple[str, ...]) -> Callee | None:
        function = getattr(found, name, None)
        if function is None:
            return None
        bound = inspect.isfunction(inspect.getattr_static(found, name))
        return _callee(function, offered, f"{where}.{name}", bound=bound)

    respond = method("respond", OF_A_TURN)
    assert respond is not None
    return AgentCalls(
        respond=respond,
        made=parameters_of(found, offered=OF_THE_TRIAL, where=where),
        open=method("open", OF_THE_TRIAL),
        close=method("close", OF_THE_TRIAL),
    )


def _callee(function: Callable[..., Any], offered: tuple[str, ...], where: str, *, bound: bool = False) -> Callee:
    code = function if inspect.isroutine(function) or hasattr(function, "func") else type(function).__call__
    if inspect.isgeneratorfunction(code) and offered is not OF_A_TURN:
        raise SetupError(f"{where} is a generator, which nobody would read")
    streams = inspect.isasyncgenfunction(code)
    return Callee(
        wanted=parameters_of(function, offered=offered, where=where, bound=bound),
        on_loop=streams or inspect.iscoroutinefunction(code),
        streams=streams,
    )
