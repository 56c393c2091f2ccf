"""A rubric by its name: a file beside the scenario, in the configured folder, or one that ships with Holdfast."""

from __future__ import annotations

from pathlib import Path

from holdfast.compose.settings import Settings
from holdfast.errors import FileError, SetupError
from holdfast.records.rubric import Rubric
from holdfast.records.scenario import Scenario
from holdfast.spec.document import read_document
from holdfast.spec.findings import Findings

SHIPPED = Path(__file__).parent.parent / "configs" / "rubrics"
_ENDINGS = (".yaml", ".yml")


class Rubrics:
    """Each file is read once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._read: dict[Path, Rubric] = {}

    def get(self, scenario: Scenario) -> Rubric | None:
        """The scenario's rubric, or None when it names none. Raises `SetupError` or `FileError`."""
        if scenario.rubric is None:
            return None
        file = self._find(scenario.rubric, scenario)
        if file not in self._read:
            self._read[file] = _read(file)
        return self._read[file]

    def _find(self, name: str, scenario: Scenario) -> Path:
        folders = [Path(scenario.place.file).absolute().parent]
        config = self._settings.config(scenario)
        if config.rubrics is not None:
            folders.append(config.folder / config.rubrics)
        folders.append(SHIPPED)
        for folder in folders:
            for ending in _ENDINGS:
                file = folder / f"{name}{ending}"
                if file.is_file():
                    return file
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        raise SetupError(
            f"{scenario.place}: rubric {name!r} is neither beside the scenario nor in the folder that `rubrics` in "
            f"holdfast.toml names, and does not ship with Holdfast (shipped: {shipped})"
        )


def _read(file: Path) -> Rubric:
    from holdfast.spec.rubric_file import read_rubric  # most runs score no rubric

    document, faults = read_document(str(file), str(file))
    if document is None:
        raise FileError(faults)
    findings = Findings(document, faults)
    rubric = read_rubric(document, findings)
    if rubric is None:
        raise FileError(findings.problems)
    return rubric
