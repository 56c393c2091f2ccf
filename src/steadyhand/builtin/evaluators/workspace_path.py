"""A path in a file that must name something inside the workspace."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def relative(path: str) -> str:
    """The path below the workspace in one spelling. Raises `ValueError` when it leads out or names no file."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise ValueError(f"{path!r} leads out of the workspace; name a file inside it, such as 'out.txt'")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts or "\0" in path:
        raise ValueError(f"{path!r} does not name a file; name one inside the workspace, such as 'out.txt'")
    return "/".join(parts)


def _inside(path: str) -> str:
    relative(path)
    return path


WorkspacePath = Annotated[str, AfterValidator(_inside)]
