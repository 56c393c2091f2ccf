"""Names a user wrote, and the right ones they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

PathPart = str | int
Path = tuple[PathPart, ...]


def show_path(path: Path) -> str:
    """A field's path as people write it: `run[0].evaluations[1].pattern`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() or (part and part.replace("-", "_").isidentifier()):
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most like `name`, or None when nothing is near. `maxTurns` is near to `max_turns`."""
    by_letters: dict[str, str] = {}
    for right in allowed:
        by_letters.setdefault(_letters(right), right)
    wanted = _letters(name)
    if wanted in by_letters:
        return by_letters[wanted]
    near = difflib.get_close_matches(wanted, by_letters, n=1, cutoff=0.6)
    return by_letters[near[0]] if near else None


def advice(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean `x`? (allowed: x, y)`, as far as it applies."""
    names = list(allowed)
    near = nearest(name, names)
    hint = f"; did you mean `{near}`?" if near else ""
    return f"{hint} (allowed: {', '.join(names)})" if names else hint


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()
