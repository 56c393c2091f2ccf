"""A rubric by its name: a file beside the scenario, in the configured folder, or one that ships with Steadyhand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steadyhand.compose.settings import Settings
from steadyhand.errors import FileError
from steadyhand.records.evaluation import Rubric
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario
from steadyhand.spec.load import show_file
from steadyhand.spec.validation import Findings, nearest
from steadyhand.spec.yaml import read_document

SHIPPED = Path(__file__).parent.parent / "configs" / "rubrics"
_ENDINGS = (".yaml", ".yml")


class Rubrics:
    """Each file is looked for and read once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[tuple[str, Path, Path | None], Path | None] = {}
        self._read: dict[Path, Rubric] = {}

    def get(self, scenario: Scenario) -> Rubric | None:
        """The scenario's rubric, or None when it names none. Raises `FileError`."""
        if scenario.rubric is None:
            return None
        file = self._find(scenario.rubric, scenario)
        if file is None:
            raise FileError([self._missing(scenario.rubric, scenario)])
        if file not in self._read:
            self._read[file] = _read(file)
        return self._read[file]

    def check(self, scenarios: Iterable[Scenario], *, read: bool) -> list[Problem]:
        """A problem for each rubric that is named and nowhere; with `read`, also those inside the files found."""
        problems: dict[Problem, None] = {}
        for scenario in scenarios:
            if scenario.rubric is None:
                continue
            try:
                if self._find(scenario.rubric, scenario) is None:
                    problems[self._missing(scenario.rubric, scenario)] = None
                elif read:
                    self.get(scenario)
            except FileError as error:
                problems |= dict.fromkeys(error.problems)
        return list(problems)

    def _find(self, name: str, scenario: Scenario) -> Path | None:
        beside = Path(scenario.place.file).absolute().parent
        config = self._settings.config(scenario)
        configured = config.folder / config.rubrics if config.rubrics is not None else None
        key = (name, beside, configured)
        if key not in self._found:
            files = (folder / f"{name}{ending}" for folder in _folders(beside, configured) for ending in _ENDINGS)
            self._found[key] = next((file for file in files if file.is_file()), None)
        return self._found[key]

    def _missing(self, name: str, scenario: Scenario) -> Problem:
        config = self._settings.config(scenario)
        configured = config.folder / config.rubrics if config.rubrics is not None else None
        folders = _folders(Path(scenario.place.file).absolute().parent, configured)
        known = {file.stem for folder in folders[1:] for ending in _ENDINGS for file in folder.glob(f"*{ending}")}
        near = nearest(name, sorted(known))
        hint = f"did you mean `{near}`? " if near else ""
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        message = (
            f"rubric {name!r} is neither beside the scenario nor in the folder that `rubrics` in steadyhand.toml "
            f"names, and does not ship with Steadyhand; {hint}(shipped: {shipped})"
        )
        return Problem(place=scenario.rubric_place or scenario.place, message=message, code="unknown-name")


def _folders(beside: Path, configured: Path | None) -> list[Path]:
    return [beside, *([configured] if configured is not None else []), SHIPPED]


def _read(file: Path) -> Rubric:
    from steadyhand.spec.rubric import read_rubric  # most runs score no rubric

    document, faults = read_document(str(file), show_file(str(file), str(Path.cwd())))
    if document is None:
        raise FileError(faults)
    findings = Findings(document, faults)
    rubric = read_rubric(document, findings)
    if rubric is None:
        raise FileError(findings.problems)
    return rubric
