"""Paths -> scenarios, with every problem of every file."""

from __future__ import annotations

from pathlib import Path

from steadyhand.batch.plan import select
from steadyhand.compose.options import Selection
from steadyhand.compose.plugins import ScenarioRegistries, environments_of
from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.registry import EvaluationCatalogue
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario
from steadyhand.spec.load import Loaded, load

LIBRARY = Path(__file__).parent.parent / "configs" / "scenarios"


def load_files(paths: tuple[str, ...], registries: ScenarioRegistries) -> Loaded:
    """Everything the paths name; `@clinical` is the library that ships with Steadyhand. Problems are in the answer."""
    base = registries.base
    return load(
        [library_path(path) for path in paths],
        catalogue=EvaluationCatalogue(base),
        environments=environments_of(base),
        extend=registries.vocabulary,
    )


def library_path(path: str) -> str:
    """Raises `SetupError` for a library that does not ship."""
    if not path.startswith("@"):
        return path
    folder = LIBRARY / path[1:]
    known = sorted(entry.name for entry in LIBRARY.iterdir() if entry.is_dir())
    if folder.parent != LIBRARY or folder.name not in known:
        raise SetupError(f"no library {path!r}; there are {', '.join(f'@{name}' for name in known)}")
    return str(folder)


def load_scenarios(selection: Selection, registries: ScenarioRegistries) -> list[Scenario]:
    """The chosen scenarios. Raises `FileError` with every error of every file, `SetupError` when none is left."""
    loaded = load_files(selection.paths, registries)
    combinations, problems = combinations_of(loaded, registries)
    if loaded.errors or problems:
        raise FileError([*loaded.errors, *problems])
    scenarios = [*loaded.scenarios, *combinations]
    if selection.filters:
        from steadyhand.compose.matrices import filter_combinations

        scenarios = filter_combinations(scenarios, selection.filters)
    chosen = select(scenarios, tags=selection.tags, expression=selection.expression)
    if not chosen:
        raise SetupError(_nothing(selection, len(scenarios)))
    return chosen


def combinations_of(loaded: Loaded, registries: ScenarioRegistries) -> tuple[list[Scenario], list[Problem]]:
    """What the matrices among the files stand for, and what is wrong with them."""
    if not loaded.matrices:
        return [], []
    from steadyhand.compose.matrices import expand_matrices

    return expand_matrices(loaded, registries)


def _nothing(selection: Selection, found: int) -> str:
    filters = [f"--tag {tag}" for tag in selection.tags]
    if selection.expression:
        filters.append(f"-k {selection.expression!r}")
    if filters and found:
        return f"none of the {found} scenarios matches {' '.join(filters)}"
    return f"no scenarios in {', '.join(selection.paths)}"
