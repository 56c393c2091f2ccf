"""The process that runs one `python` check. Started by `scripts`, never imported for its effects."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from steadyhand.children.channel import Frames, Kind, packed, read, receive_variables
from steadyhand.children.process import die_with_parent, keep_together
from steadyhand.errors import SetupError
from steadyhand.records.base import UnreadableValue, plain, plain_text
from steadyhand.user_file import fault, load_file


def main(fd: int) -> None:
    die_with_parent()
    keep_together()
    connection = socket.socket(fileno=fd)
    os.environ.update(receive_variables(connection))
    frames = Frames()
    found = frames.feed(connection.recv(65_536))
    while not found:
        found = frames.feed(connection.recv(65_536))
    file, name, given = read(found[0].payload)
    connection.sendall(packed(Kind.DONE, 1, "", _answer(Path(file), name, given)))
    connection.close()
    os._exit(0)


def _answer(file: Path, name: str, given: Mapping[str, Any]) -> list[Any]:
    """The value and the reason, an error instead, and which of what is given the function takes."""
    try:
        function = _function(file, name)
        used = _parameters(function, given)
    except SetupError as error:
        return [None, "", str(error), []]
    try:
        value = function(**{each: given[each] for each in used})
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        why = ""
        if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == 2:
            value, why = cast("tuple[Any, Any]", value)
        return [plain(value), plain_text(str(why)), "", used]
    except UnreadableValue as error:
        return [None, "", f"its result cannot be read: {error}", used]
    except BaseException as error:  # noqa: BLE001 - whatever it raises is an error of the check, `SystemExit` included
        return [None, "", plain_text(f"it raised {fault(error, file)}"), used]


async def _awaited(value: Any) -> Any:
    return await value


def _function(file: Path, name: str) -> Callable[..., Any]:
    module = load_file(file, noun="check file")
    found: object = getattr(module, name, None)
    if not callable(found):
        what = "has no" if found is None else "has something else than a function as"
        raise SetupError(f"{file.name} {what} {name!r}")
    return found


def _parameters(function: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """Those that it takes. One that nothing is known of is an error, and so is a function that takes none."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return list(given)
    names = [each.name for each in parameters if each.name in given]
    missing = [each.name for each in parameters if each.name not in given and each.default is each.empty]
    if missing or not names:
        asked = f"takes {missing[0]!r}" if missing else "takes none of what is known"
        raise SetupError(f"{cast('Any', function).__name__} {asked}; expected {', '.join(given)}")
    return names
