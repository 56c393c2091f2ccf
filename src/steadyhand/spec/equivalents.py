"""`mutants.yaml` beside scenarios: mutants that a person found to be as good as the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pydantic import Field

from steadyhand.errors import FileError
from steadyhand.spec.discovery import MUTANTS
from steadyhand.spec.validation import Findings, Name, Shape, validate
from steadyhand.spec.yaml import read_document


class EquivalentShape(Shape):
    """A mutant that is no worse than the answer it was made from."""

    scenario: Name = Field(description="Id of the scenario")
    operator: Name = Field(description="Name of the operator")
    hash: str = Field(pattern=r"^m[0-9a-f]{11}$", description="Hash of the mutant's text, as the report shows it")
    reason: Name = Field(description="Why it is no worse")


class EquivalentsShape(Shape):
    """Mutants that a person found to be as good as the original."""

    equivalent: list[EquivalentShape] = Field(description="The mutants that do not count")


def read_equivalents(folder: Path) -> dict[tuple[str, str, str], str]:
    """The reasons, by scenario, operator and hash; empty without a file. Raises `FileError`."""
    file = folder / MUTANTS
    if not file.exists():
        return {}
    document, problems = read_document(str(file), str(file))
    if document is None:
        raise FileError(problems)
    findings = Findings(document)
    shape = validate(EquivalentsShape, cast("dict[str, Any]", document.data), (), findings)
    if shape is None or findings.failed:
        raise FileError(findings.problems)
    return {(each.scenario, each.operator, each.hash): each.reason for each in shape.equivalent}
