"""Annotations for GitHub: workflow commands that nothing in their text can break out of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from steadyhand.judging.trial import described, label
from steadyhand.reading.run import Reading
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.location import Place
from steadyhand.records.run import TrialRecord
from steadyhand.report.table import one_line, visible

Level = Literal["error", "warning"]
_Key = tuple[str, object]
_MOST = 100


class _Annotated(Record):
    """The first trial in which a check did not pass, and how many there are."""

    level: Level
    title: str
    message: str
    place: Place | None


class FailedChecks:
    """The checks that did not pass, each with its first trial, gathered as trials are read."""

    def __init__(self, reading: Reading) -> None:
        self.found: dict[_Key, _Annotated] = {}
        self.counts: Counter[_Key] = Counter()

    def add(self, trial: TrialRecord) -> None:
        if trial.judged.verdict is not Verdict.PASSED:
            for key, each in _of_trial(trial):
                self.found.setdefault(key, each)
                self.counts[key] += 1


def run_annotations(reading: Reading, folder: Path) -> Iterator[str]:
    """One for each check that failed in a scenario that did not pass, at its line; a warning if it is undecided."""
    checks = reading.gathered(FailedChecks)
    found = {key: each for key, each in checks.found.items() if reading.rate[key[0]].verdict is not Verdict.PASSED}
    ordered = sorted(found, key=lambda key: found[key].level)
    for key in ordered[:_MOST]:
        each = found[key]
        total = reading.rate[key[0]].total
        often = f" ({checks.counts[key]} of {total} trials)" if total > 1 else ""
        place = _within(each.place, folder)
        yield annotation(each.level, each.message + often, title=each.title, place=place, folder=folder)
    if len(ordered) > _MOST:
        yield annotation("warning", f"{len(ordered) - _MOST} more checks did not pass", title="steadyhand")


def _of_trial(trial: TrialRecord) -> Iterator[tuple[_Key, _Annotated]]:
    scenario_id = trial.key.scenario_id
    checks = [check for check in trial.evaluations if check.verdict is not Verdict.PASSED]
    failed = [check for check in checks if check.verdict is Verdict.FAILED]
    for check in failed if trial.judged.verdict is Verdict.FAILED and failed else checks:
        yield (scenario_id, (check.step, check.turn, label(check), check.place)), _of_check(trial, check)
    if not checks:
        level: Level = "warning" if trial.judged.verdict is Verdict.INCONCLUSIVE else "error"
        title = f"steadyhand: {one_line(scenario_id)} {trial.judged.verdict}"
        yield (
            (scenario_id, trial.judged.verdict),
            _Annotated(level=level, title=title, message=trial.judged.reason, place=trial.place),
        )


def _of_check(trial: TrialRecord, check: EvaluationResult) -> _Annotated:
    level: Level = "warning" if check.verdict is Verdict.INCONCLUSIVE else "error"
    title = f"steadyhand: {one_line(trial.key.scenario_id)} {check.verdict}"
    return _Annotated(
        level=level, title=title, message=f"{label(check)}: {described(check)}", place=check.place or trial.place
    )


def _within(place: Place | None, folder: Path) -> Place | None:
    """A place relative to the current folder, as one relative to `folder`."""
    if place is None or not place.file or not (whole := Path.cwd() / place.file).is_relative_to(folder):
        return place
    return msgspec.structs.replace(place, file=str(whole))


def annotation(level: Level, text: str, *, title: str, place: Place | None = None, folder: Path | None = None) -> str:
    """A workflow command. The file name is relative to `folder`, as GitHub requires."""
    at = ""
    if place is not None and place.file:
        file = Path(place.file)
        if folder is not None and file.is_absolute() and file.is_relative_to(folder):
            file = file.relative_to(folder)
        at = f"file={_property(file.as_posix())},line={max(place.line, 1)},"
    return f"::{level} {at}title={_property(title)}::{_data(visible(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
