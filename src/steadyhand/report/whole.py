"""Records as JSON objects in which every key is there, null when nothing is known."""

from __future__ import annotations

from typing import Any, cast

import msgspec


def whole(value: Any) -> Any:
    """Like `msgspec.to_builtins`, but with what is at its default. Values that users brought stay as they are."""
    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [whole(item) for item in cast("tuple[Any, ...]", value)]
    return value
