"""Walking through plain data that may not have the shape it should have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


def mappings(entries: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings of what should be a list of mappings, with their index."""
    if isinstance(entries, list):
        for index, entry in enumerate(cast("list[Any]", entries)):
            if isinstance(entry, dict):
                yield index, cast("dict[str, Any]", entry)
