"""Which format a file is in: its shape says, not its name."""

from __future__ import annotations

from typing import Any, Literal, cast

from steadyhand.spec.naming import nearest

Dialect = Literal["agent", "decision", "matrix", "rubric"]

DECIDING: tuple[tuple[str, Dialect], ...] = (
    ("matrix", "matrix"),
    ("base_scenario", "matrix"),
    ("run", "agent"),
    ("messages", "decision"),
    ("dimensions", "rubric"),
)
# Keys that only a file of ours has. `name`, `description`, `id` and `tags` stand in many other YAML files.
_ENTRIES = {
    "run": frozenset({"input", "code", "conversation", "evaluations"}),
    "messages": frozenset({"role", "content"}),
}
_TELLING: dict[Dialect, frozenset[str]] = {
    "agent": frozenset({"environment", "setup", "judgment", "plugins", "character"}),
    "decision": frozenset({"domain", "latency_budget", "safety_invariants", "constraint", "rubric", "expected_action"}),
    "matrix": frozenset({"runs_per_combination"}),
    "rubric": frozenset(),
}


def recognise(data: Any) -> Dialect | None:
    """The format that the keys speak for, or None when they speak for none."""
    if not isinstance(data, dict):
        return None
    keys = cast("dict[str, Any]", data)
    for key, dialect in DECIDING:
        if key in keys:
            return dialect
    best: Dialect | None = None
    most = 0
    for dialect, telling in _TELLING.items():
        votes = len(telling & keys.keys())
        if votes > most:
            best, most = dialect, votes
    return best


def misspelt(data: Any) -> tuple[str, str] | None:
    """A key that was meant to be `run` or `messages`, with the right one; None when there is none.

    The name alone does not say: `images` of a Kubernetes file is nearly `messages`. What the key holds has to fit too.
    """
    if not isinstance(data, dict):
        return None
    for key, value in cast("dict[str, Any]", data).items():
        meant = nearest(key, _ENTRIES)
        entries = cast("list[Any]", value) if isinstance(value, list) else []
        keys = {name for entry in entries if isinstance(entry, dict) for name in cast("dict[str, Any]", entry)}
        if meant is not None and keys & _ENTRIES[meant]:
            return key, meant
    return None


SHAPES = (
    "an agent scenario has `run`, a decision scenario `messages`, a matrix `matrix` and `base_scenario`, "
    "a rubric `dimensions`"
)
