"""Evaluations of an agent scenario, checked against what their types take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.spec.findings import Findings, describe
from steadyhand.spec.naming import Path, advice, nearest
from steadyhand.spec.shapes.evaluation import EvaluationHead
from steadyhand.spec.validation import validate

Catalogue = Mapping[str, type[BaseModel]]
COMMON_KEYS = frozenset(EvaluationHead.model_fields)


def read_evaluations(entries: Any, path: Path, catalogue: Catalogue, findings: Findings) -> tuple[EvaluationSpec, ...]:
    """Those of `entries` that are right. What is not even a list of mappings is for the caller's shape to report."""
    if not isinstance(entries, list):
        return ()
    found: list[EvaluationSpec] = []
    for index, entry in enumerate(cast("list[Any]", entries)):
        if isinstance(entry, dict):
            spec = _read(cast("dict[str, Any]", entry), (*path, index), catalogue, findings)
            if spec is not None:
                found.append(spec)
    return tuple(found)


def _read(entry: dict[str, Any], path: Path, catalogue: Catalogue, findings: Findings) -> EvaluationSpec | None:
    type_ = entry.get("type")
    if isinstance(type_, str) and type_ and type_ not in catalogue:
        hint = advice(type_, sorted(catalogue))
        findings.error((*path, "type"), f"unknown evaluation type {describe(type_)}{hint}", "unknown-type")
        validate(EvaluationHead, _head(entry), path, findings)
        return None
    if not isinstance(type_, str) or not type_:
        # Without a type nothing is known of the other keys but that one of them may be `type` misspelt.
        stray = {
            key: value for key, value in entry.items() if key in COMMON_KEYS or nearest(key, COMMON_KEYS) == "type"
        }
        validate(EvaluationHead, stray, path, findings)
        return None
    head = validate(EvaluationHead, _head(entry), path, findings)
    rest = {key: value for key, value in entry.items() if key not in COMMON_KEYS}
    params = validate(catalogue[type_], rest, path, findings, also=COMMON_KEYS)
    if head is None or params is None:
        return None
    return EvaluationSpec(
        type=type_,
        place=findings.document.locate(path),
        params=params.model_dump(exclude_unset=True, by_alias=False),
        description=head.description,
        weight=head.weight,
    )


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in COMMON_KEYS}
