"""Files to scenarios, matrices and rubrics, with everything that is wrong with any of them."""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager

from steadyhand.records.base import Record
from steadyhand.records.evaluation import Rubric
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Matrix, Scenario
from steadyhand.spec.dialects import SHAPES, misspelt, recognise
from steadyhand.spec.discover import Found, discover
from steadyhand.spec.document import Document, read_document
from steadyhand.spec.evaluations import Catalogue
from steadyhand.spec.findings import Findings, describe
from steadyhand.spec.ids import Identified, settle_ids
from steadyhand.spec.patterns import Finding, inspect_pattern
from steadyhand.spec.vocabulary import Extend, Vocabulary

ENVIRONMENTS = ("local", "e2b")


class Loaded(Record):
    """What could be read, and in `problems` every error and warning of all files, file by file in order."""

    scenarios: tuple[Scenario, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    rubrics: tuple[Rubric, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == "warning")


def load(
    paths: Sequence[str | os.PathLike[str]],
    *,
    catalogue: Catalogue,
    environments: Collection[str] = ENVIRONMENTS,
    extend: Extend | None = None,
) -> Loaded:
    """Read files, folders and globs. Never raises for what is in them: one bad file hides no other.

    `catalogue` goes from each type of evaluation to the model of its parameters; `environments` are the values
    that `environment.type` may have. `extend` is asked what a scenario's own plugins add to both.
    """
    found, problems = discover(paths)
    reader = _Reader(Vocabulary(catalogue, environments), extend)
    with _without_collection():
        for file in found:
            reader.read(file)
    scenarios, clashes = settle_ids(reader.scenarios)
    if found and not (reader.recognised or reader.problems or problems):
        message = f"none of the {len(found)} YAML files found is a scenario: {SHAPES}"
        problems.append(Problem(place=Place(file=os.fspath(paths[0])), message=message, code="no-scenarios"))
    return Loaded(
        scenarios=tuple(scenarios),
        matrices=tuple(reader.matrices),
        rubrics=tuple(reader.rubrics),
        problems=(*problems, *_merge(reader.problems, clashes, found)),
    )


def _merge(problems: list[Problem], clashes: list[Problem], found: list[Found]) -> list[Problem]:
    """Both in the order of the files."""
    if not clashes:
        return problems
    order = {file.file: index for index, file in enumerate(found)}
    return sorted([*problems, *clashes], key=lambda problem: order.get(problem.place.file, -1))


@contextmanager
def _without_collection() -> Generator[None]:
    """Thousands of short-lived nodes without a cycle among them: collecting while they are made finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Reader:
    """Reads one file after the other. A pattern that several files share is inspected once."""

    def __init__(self, vocabulary: Vocabulary, extend: Extend | None) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._extend: Extend | None = extend
        self._patterns: dict[str, Finding] = {}
        self.scenarios: list[Identified] = []
        self.matrices: list[Matrix] = []
        self.rubrics: list[Rubric] = []
        self.problems: list[Problem] = []
        self.recognised: int = 0

    def read(self, file: Found) -> None:
        document, faults = read_document(file.path, file.file)
        if document is None:
            self.problems.extend(faults)
            return
        dialect = recognise(document.data)
        findings = Findings(document, faults)
        if dialect is None:
            self._pass_over(file, document, findings)
        elif dialect == "agent":
            self._keep(self._read_agent(document, findings), file, document)
        elif dialect == "decision":
            from steadyhand.spec.decision import read_decision

            self._keep(read_decision(document, findings, self._inspect), file, document)
        elif dialect == "matrix":
            from steadyhand.spec.matrix_file import read_matrix

            matrix = read_matrix(document, findings)
            self.matrices.extend([matrix] if matrix else [])
        else:
            from steadyhand.spec.rubric import read_rubric

            rubric = read_rubric(document, findings)
            self.rubrics.extend([rubric] if rubric else [])
        self.recognised += dialect is not None
        self.problems.extend(findings.problems)

    def _read_agent(self, document: Document, findings: Findings) -> Scenario | None:
        from steadyhand.spec.agent import read_agent
        from steadyhand.spec.agent_plugins import vocabulary_of

        catalogue, environments = vocabulary_of(document, findings, self._vocabulary, self._extend)
        return read_agent(document, findings, catalogue=catalogue, environments=environments)

    def _keep(self, scenario: Scenario | None, file: Found, document: Document) -> None:
        if scenario is not None:
            defaulted = "id" not in document.data
            place = scenario.place if defaulted else document.locate(("id",))
            self.scenarios.append(Identified(scenario, file.path, place, defaulted))

    def _pass_over(self, file: Found, document: Document, findings: Findings) -> None:
        """YAML files of other kinds may lie in a folder. One that was meant for us is never skipped without a word."""
        meant = misspelt(document.data)
        if meant is not None:
            found, key = meant
            findings.error((found,), f"unknown key `{found}`; did you mean `{key}`? {SHAPES}", "unknown-key", key=True)
        elif file.must_load:
            self._refuse(document, findings)

    def _refuse(self, document: Document, findings: Findings) -> None:
        if isinstance(document.data, dict):
            message = f"the file is in none of the known formats: {SHAPES}"
        else:
            message = f"expected a mapping, found {describe(document.data)}; {SHAPES}"
        findings.error((), message, "unknown-format")

    def _inspect(self, pattern: str) -> Finding:
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = inspect_pattern(pattern)
        return known
