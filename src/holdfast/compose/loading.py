"""Paths -> scenarios, with every problem of every file."""

from __future__ import annotations

from holdfast.batch.select import select
from holdfast.compose.options import Selection
from holdfast.errors import FileError, SetupError
from holdfast.plugins.registry import EvaluationCatalogue, Registry
from holdfast.records.scenario import Scenario
from holdfast.spec.load import Loaded, load


def load_files(paths: tuple[str, ...], registry: Registry) -> Loaded:
    """Everything the paths name. Problems are in the answer, not raised."""
    return load(paths, catalogue=EvaluationCatalogue(registry), environments=registry.names("environments"))


def load_scenarios(selection: Selection, registry: Registry) -> list[Scenario]:
    """The chosen scenarios. Raises `FileError` with every error of every file, `SetupError` when none is left."""
    loaded = load_files(selection.paths, registry)
    errors = [problem for problem in loaded.problems if problem.level == "error"]
    if errors:
        raise FileError(errors)
    chosen = select(loaded.scenarios, tags=selection.tags, expression=selection.expression)
    if not chosen:
        raise SetupError(_nothing(selection, len(loaded.scenarios)))
    return chosen


def _nothing(selection: Selection, found: int) -> str:
    filters = [f"--tag {tag}" for tag in selection.tags]
    if selection.expression:
        filters.append(f"-k {selection.expression!r}")
    if filters and found:
        return f"none of the {found} scenarios matches {' '.join(filters)}"
    return f"no scenarios in {', '.join(selection.paths)}"
