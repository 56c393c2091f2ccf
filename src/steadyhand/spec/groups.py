"""Groups of checks, `any_of`, `all_of` and `at_least`, and `negate`: the same in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic import Field

from steadyhand.records.evaluation import GROUPS, EvaluationSpec
from steadyhand.spec.validation import FieldPath, Findings, Shape, describe, validate

ReadPart = Callable[[dict[str, Any], FieldPath], EvaluationSpec | None]
"""Reads one check of a group; None if it is wrong, which it has reported."""
_FEWEST = 2


class AtLeastShape(Shape):
    """How many of some checks must pass."""

    count: int = Field(ge=1)
    of: Any


def group_key(entry: dict[str, Any]) -> str | None:
    """The key by which an entry is a group of checks. `at_least` is also the threshold of some types of check."""
    typed = "type" in entry or "check_type" in entry
    return next(
        (
            key
            for key in GROUPS
            if key in entry and not (key == "at_least" and typed and not isinstance(entry[key], dict))
        ),
        None,
    )


def read_group(
    entry: dict[str, Any], path: FieldPath, findings: Findings, *, key: str, type_key: str, read: ReadPart
) -> EvaluationSpec | None:
    """The group as a check without the keys that every check has. `type_key` is what names the type of a check."""
    others = [name for name in (type_key, *GROUPS) if name != key and name in entry]
    if others:
        findings.error((*path, others[0]), f"found both `{key}` and `{others[0]}`; keep one", "conflict", key=True)
        return None
    given, at, params = entry[key], (*path, key), dict[str, Any]()
    if key == "at_least":
        asked = validate(AtLeastShape, given, at, findings)
        if asked is None:
            return None
        params["count"], given, at = asked.count, asked.of, (*at, "of")
    if not isinstance(given, list) or len(cast("list[Any]", given)) < _FEWEST:
        found = "one" if isinstance(given, list) and given else describe(given)
        findings.error(at, f"expected a list of at least {_FEWEST} checks, found {found}", "wrong-type")
        return None
    entries = cast("list[Any]", given)
    if key == "at_least" and params["count"] > len(entries):
        message = f"expected a whole number from 1 to {len(entries)}, found {params['count']}"
        findings.error((*path, key, "count"), message, "out-of-range")
        return None
    parts: list[EvaluationSpec | None] = []
    for index, part in enumerate(entries):
        if not isinstance(part, dict):
            findings.error((*at, index), f"expected a check, found {describe(part)}", "wrong-type")
            return None
        parts.append(read(cast("dict[str, Any]", part), (*at, index)))
    known = tuple(part for part in parts if part is not None)
    if len(known) < len(parts):
        return None
    return EvaluationSpec(type=key, place=findings.document.locate(path), params=params, parts=known)


def negated(spec: EvaluationSpec, params: Any, path: FieldPath, findings: Findings) -> EvaluationSpec | None:
    """The opposite of a check: one of another kind, or with other parameters, if that says it better."""
    from msgspec.structs import replace

    why: str = getattr(params, "not_negated", "") or getattr(params, "stands_alone", "")
    if why:
        findings.error((*path, "negate"), f"{spec.type} cannot be negated: {why}", "conflict", key=True)
        return None
    opposite = getattr(params, "opposite", None)
    if opposite is None:
        return replace(spec, negate=True)
    try:
        type_, changed = opposite()
    except ValueError as error:
        findings.error((*path, "negate"), f"{spec.type} cannot be negated: {error}", "conflict", key=True)
        return None
    return replace(spec, type=type_, params=changed)
