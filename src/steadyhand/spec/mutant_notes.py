"""`mutants.yaml` beside scenarios: mutants that a person found to be as good as the original, and bad answers that a
model or a person wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pydantic import Field

from steadyhand.errors import FileError
from steadyhand.records.base import Record
from steadyhand.spec.discovery import MUTANTS
from steadyhand.spec.validation import Findings, Name, Shape, validate
from steadyhand.spec.yaml import read_document


class EquivalentShape(Shape):
    """A mutant that is no worse than the answer it was made from."""

    scenario: Name = Field(description="Id of the scenario")
    operator: Name = Field(description="Name of the operator")
    hash: str = Field(pattern=r"^m[0-9a-f]{11}$", description="Hash of the mutant's text, as the report shows it")
    reason: Name = Field(description="Why it is no worse")


class WrittenShape(Shape):
    """A bad answer in somebody's own words."""

    scenario: Name = Field(description="Id of the scenario")
    text: Name = Field(description="The answer")
    signed: Name | None = Field(default=None, description="Who read it and found it wrong; without it, it is not used")


class MutantsShape(Shape):
    """What a person said of mutants."""

    equivalent: list[EquivalentShape] = Field(default=[], description="The mutants that do not count")
    written: list[WrittenShape] = Field(default=[], description="Bad answers to try beside those of the operators")


class MutantNotes(Record):
    """`equivalent` has the reasons, by scenario, operator and hash; `written` the signed answers, as scenario and
    text; `unsigned` the scenarios of the others."""

    equivalent: dict[tuple[str, str, str], str] = {}
    written: tuple[tuple[str, str], ...] = ()
    unsigned: tuple[str, ...] = ()


def read_mutant_notes(folder: Path) -> MutantNotes:
    """Empty without a file. Raises `FileError`."""
    file = folder / MUTANTS
    if not file.exists():
        return MutantNotes()
    document, problems = read_document(str(file), str(file))
    if document is None:
        raise FileError(problems)
    findings = Findings(document)
    shape = validate(MutantsShape, cast("dict[str, Any]", document.data), (), findings)
    if shape is None or findings.failed:
        raise FileError(findings.problems)
    return MutantNotes(
        equivalent={(each.scenario, each.operator, each.hash): each.reason for each in shape.equivalent},
        written=tuple((each.scenario, each.text) for each in shape.written if each.signed is not None),
        unsigned=tuple(each.scenario for each in shape.written if each.signed is None),
    )
