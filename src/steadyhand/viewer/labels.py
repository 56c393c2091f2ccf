"""Labels in the viewer: agree or disagree with a check or with the verdict of a trial."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from steadyhand.errors import SetupError, UsageError
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict, check_ids
from steadyhand.records.run import TrialRecord
from steadyhand.store.labels import VERDICT, Label, LabelDecision, append_label, read_labels

_NOTE = 2_000
_NAME = 100
_WORDS: dict[Verdict, LabelDecision] = {Verdict.PASSED: "pass", Verdict.FAILED: "fail"}


class LabelButton(Record):
    """A button: what it writes, and what it says."""

    label: LabelDecision
    caption: str


class Labelled(Record):
    """A check, or the verdict, that can be labelled, with each person's last label."""

    check: str
    title: str
    verdict: Verdict
    judge: str | None
    choices: tuple[LabelButton, ...]
    labels: tuple[Label, ...]

    def means(self, label: Label) -> str:
        """What a label says about the result."""
        own = _WORDS.get(self.verdict)
        if label.label == "unsure" or own is None:
            return {"pass": "should pass", "fail": "should fail"}.get(label.label, "is unsure")
        return "agrees" if label.label == own else f"disagrees: should {label.label}"


class TrialLabels(Record):
    """`first` are the verdict and the judged checks, `rest` the other checks. `problem` is a problem with the file."""

    file: str
    first: tuple[Labelled, ...]
    rest: tuple[Labelled, ...]
    problem: str | None = None


class LabelBook:
    """The labels file of a viewer. `by` is the default name of the person who labels."""

    def __init__(self, file: Path, by: str) -> None:
        """Raises `SetupError` if the file cannot be a labels file."""
        if file.suffix.casefold() not in (".jsonl", ".csv"):
            raise SetupError(f"{file}: a labels file ends in .jsonl or .csv")
        self.file: Path = file
        self.by: str = by
        self._lock: threading.Lock = threading.Lock()

    def of(self, run_id: str, trial: TrialRecord) -> TrialLabels:
        """A labels file that cannot be read does not hide trials."""
        labels: list[Label] = []
        problem = None
        if self.file.exists():
            try:
                labels = read_labels(self.file)
            except UsageError as error:
                problem = str(error)
        place = (run_id, trial.key.scenario_id, trial.key.index)
        last: dict[tuple[str, str], Label] = {}
        for label in labels:
            if (label.run, label.scenario, label.trial) == place and label.label:
                last[label.check, label.by] = label
        found = list(_labelled(trial, last))
        return TrialLabels(
            file=str(self.file),
            first=tuple(each for each in found if each.check == VERDICT or each.judge is not None),
            rest=tuple(each for each in found if each.check != VERDICT and each.judge is None),
            problem=problem,
        )

    def add(self, run_id: str, trial: TrialRecord, form: Mapping[str, str]) -> None:
        """Write a submitted label. Raises `UsageError` if it is invalid or cannot be written."""
        check, label = form.get("check", ""), form.get("label", "")
        if check not in {each.check for each in _labelled(trial, {})}:
            raise SetupError(f"trial {trial.key} has no check {check!r}")
        if label not in ("pass", "fail", "unsure"):
            raise SetupError(f"a label is pass, fail or unsure, not {label!r}")
        by = " ".join(form.get("by", "").split())[:_NAME] or self.by
        with self._lock:
            self.by = by
            append_label(
                self.file,
                Label(
                    run=run_id,
                    scenario=trial.key.scenario_id,
                    trial=trial.key.index,
                    check=check,
                    label=cast("LabelDecision", label),
                    note=form.get("note", "").strip()[:_NOTE],
                    by=by,
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                ),
            )


def _labelled(trial: TrialRecord, last: Mapping[tuple[str, str], Label]) -> Iterator[Labelled]:
    ids = check_ids(trial.evaluations)
    items = [(check, check, each.verdict, each.judge) for check, each in zip(ids, trial.evaluations, strict=True)]
    if VERDICT not in ids:
        items.insert(0, (VERDICT, "The verdict of the trial", trial.judged.verdict, None))
    for check, title, verdict, judge in items:
        yield Labelled(
            check=check,
            title=title,
            verdict=verdict,
            judge=None if judge is None else judge.model,
            choices=_choices(verdict),
            labels=tuple(label for (about, _), label in last.items() if about == check),
        )


def _choices(verdict: Verdict) -> tuple[LabelButton, ...]:
    own = _WORDS.get(verdict)
    if own is None:
        decided = (LabelButton(label="pass", caption="Should pass"), LabelButton(label="fail", caption="Should fail"))
    else:
        other: LabelDecision = "fail" if own == "pass" else "pass"
        decided = (
            LabelButton(label=own, caption="Agree"),
            LabelButton(label=other, caption=f"Disagree: should {other}"),
        )
    return (*decided, LabelButton(label="unsure", caption="Unsure"))
