"""Values that any encoder takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec


def plain(value: Any) -> Any:
    """The same value in built-in types, with what cannot be written put as text.

    Agents, mocks and plugins hand over anything: half a surrogate pair, an integer of a hundred digits, an object. A
    trial is not lost over it.
    """
    return _tidy(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=repr))


def _tidy(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case bool():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else str(value)
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            return {key if isinstance(key, int) else _tidy(str(key)): _tidy(item) for key, item in items}
        case list() | tuple():
            return [_tidy(item) for item in cast("list[Any]", value)]
        case _:
            return value
