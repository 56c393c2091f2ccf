"""Calibration of judges: asks them about labelled cases, and determines which checks a judge may not decide."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from steadyhand.compose.builder import Builder
from steadyhand.compose.cast import Cast, Casts, Choice
from steadyhand.compose.fingerprint import Fingerprints
from steadyhand.compose.models import Judges, Models
from steadyhand.compose.rejudgement import judging, rejudge_options
from steadyhand.compose.scenarios import ScenarioRegistries, load_scenarios, open_registries, with_safe_ids
from steadyhand.compose.settings import Settings
from steadyhand.engine.context import TrialParts
from steadyhand.engine.rejudgement import CheckKey, key_of, rejudge
from steadyhand.errors import SetupError, StoreError, UsageError
from steadyhand.judging.agreement import Case, agreement, shortfall
from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.trial import class_of_severity
from steadyhand.ports.agent import instructions_digest
from steadyhand.records.calibration import Calibration, CheckAgreement, JudgedCase, PassOrFail
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict, spec_digest
from steadyhand.records.run import CanaryTally, Spent, TrialKey, TrialRecord
from steadyhand.records.scenario import Scenario, evaluation_specs
from steadyhand.redaction import Redactor
from steadyhand.store.calibration import read_calibrations
from steadyhand.store.labels import VERDICT, Label, labelled_result, read_labels
from steadyhand.store.reader import RunReader, find_run

DEFAULT_FILE = "calibration.json"
OTHER = "other"
"""The class of checks that are not safety invariants."""
_WORDS: dict[Verdict, PassOrFail] = {Verdict.PASSED: "pass", Verdict.FAILED: "fail"}


def calibration_file(settings: Settings) -> Path:
    return settings.config.folder / (settings.config.calibration.file or DEFAULT_FILE)


class Doubts:
    """Why a judge may not decide a check, if the configuration requires calibration. The judge is still asked."""

    def __init__(self, casts: Casts, redactor: Redactor) -> None:
        self._settings = casts.settings
        self._fingerprints = Fingerprints(casts, redactor)
        self._known: dict[str, Calibration] | None = None
        self._found: dict[str, Mapping[int, str]] = {}

    def of(self, cast: Cast, judges: Judges) -> Mapping[int, str]:
        """Keyed by the identity of the check's specification. Raises `StoreError` if the calibrations cannot be
        read."""
        if not self._settings.config.calibration.required:
            return {}
        known = cast.scenario.id
        if known not in self._found:
            asked = judges.of_checks(cast)
            reasons = {id(spec): self._reason(spec, judge, cast, judges) for spec, judge in asked}
            self._found[known] = {spec: reason for spec, reason in reasons.items() if reason is not None}
        return self._found[known]

    def _reason(self, spec: EvaluationSpec, judge: Choice, cast: Cast, judges: Judges) -> str | None:
        file = calibration_file(self._settings)
        if self._known is None:
            self._known = read_calibrations(file)
        found = self._known.get(judge.value)
        if found is None:
            return (
                f"not decided: the judge {judge.value} is not calibrated: {file.name} has no entry for it; "
                f"run `steadyhand calibrate LABELS --judge {judge.value}`"
            )
        stale = self._stale(found, spec, judge, cast, judges)
        if stale is not None:
            stale_judge = f"the calibration of the judge {judge.value} is stale"
            return f"not decided, as {stale_judge}: {stale} since; calibrate it again"
        short = shortfall(found.overall, self._settings.config.calibration)
        return None if short is None else f"not decided: the judge {judge.value} is below the bar: {short}"

    def _stale(self, found: Calibration, spec: EvaluationSpec, judge: Choice, cast: Cast, judges: Judges) -> str | None:
        built = judges.get(cast)
        if found.judge_digest != self._fingerprints.judge(judge, cast):
            return "the judge has changed"
        if built is None or found.prompt_digest != instructions_digest(built):
            return "the judge's prompt has changed"
        if found.settings_digest != self._fingerprints.judge_settings():
            return "the judge's settings have changed"
        name = spec.name or spec.type
        digests = {each.digest for each in found.checks if (each.scenario, each.name) == (cast.scenario.id, name)}
        return f"the check {name!r} has changed" if digests and spec_digest(spec) not in digests else None


class LabelledCase(NamedTuple):
    """A label, the stored result that it is about, and the scenario as it is now."""

    label: Label
    word: PassOrFail
    scenario: Scenario
    stored: TrialRecord
    result: EvaluationResult
    origin: str


class Cases:
    """Finds the checks that labels refer to. `skipped` lists labels that cannot be used, and why."""

    def __init__(self, settings: Settings, registries: ScenarioRegistries, redactor: Redactor) -> None:
        self._settings = settings
        self._registries = registries
        self._redactor = redactor
        self._runs: dict[str, tuple[RunReader, dict[str, Scenario]]] = {}
        self.skipped: list[str] = []

    def of(self, labels: Iterable[Label], known: Iterable[Scenario] = ()) -> list[LabelledCase]:
        """The cases, in file order. `known` are scenarios that are already loaded."""
        loaded = {scenario.id: scenario for scenario in known}
        found: list[LabelledCase] = []
        for label, word in self._decided(labels):
            case = self._case(label, word, loaded)
            if isinstance(case, str):
                self.skipped.append(f"line {label.line}: {case}")
            else:
                found.append(case)
        return found

    def _decided(self, labels: Iterable[Label]) -> list[tuple[Label, PassOrFail]]:
        """One label for each case: the last one of each person, if they agree."""
        by_case: dict[tuple[str, str, int, str], dict[str, Label]] = {}
        for label in labels:
            if label.label:
                by_case.setdefault(label.case, {})[label.by] = label
        found: list[tuple[Label, PassOrFail]] = []
        for given in by_case.values():
            last = list(given.values())[-1]
            words = {label.label for label in given.values()}
            if words <= {"pass"} or words <= {"fail"}:
                found.append((last, "pass" if words == {"pass"} else "fail"))
            elif words <= {"unsure"}:
                self.skipped.append(f"line {last.line}: labelled unsure")
            else:
                self.skipped.append(f"line {last.line}: labelled differently by different people, or unsure by one")
        return found

    def _case(self, label: Label, word: PassOrFail, known: Mapping[str, Scenario]) -> LabelledCase | str:
        try:
            reader, scenarios = self._run(label.run, known)
            stored = reader.trial(TrialKey(scenario_id=label.scenario, index=label.trial))
        except (StoreError, UsageError) as error:
            return self._redactor.text(str(error)).splitlines()[0]
        if stored is None:
            return f"run {label.run} has no trial {label.scenario}#{label.trial}"
        result = labelled_result(label, stored)
        if result is None and label.check == VERDICT:
            return "a label on the verdict of a trial, which no judge decides"
        if result is None:
            return f"the trial has no check {label.check!r}"
        if result.decided_by == "reader":
            return "the reader was sure, so no judge was asked"
        scenario = known.get(label.scenario) or scenarios.get(label.scenario)
        if scenario is None:
            return f"the scenario {label.scenario} is no longer in the files"
        if result.digest not in {spec_digest(spec) for spec in evaluation_specs(scenario)}:
            return f"the check {label.check!r} has changed since it was labelled"
        return LabelledCase(label, word, scenario, stored, result, reader.header.id)

    def _run(self, name: str, known: Mapping[str, Scenario]) -> tuple[RunReader, dict[str, Scenario]]:
        if name not in self._runs:
            record = find_run(self._settings.out, name)
            reader = RunReader.open(record)
            scenarios: dict[str, Scenario] = {}
            if any(scenario_id not in known for scenario_id in reader.planned_per_scenario()):
                selection, _ = rejudge_options(record, self._settings)
                loaded = with_safe_ids(load_scenarios(selection, self._registries), self._redactor)
                scenarios = {scenario.id: scenario for scenario in loaded}
            self._runs[name] = (reader, scenarios)
        return self._runs[name]


class Judgements(NamedTuple):
    cases: tuple[JudgedCase, ...]
    spent: Spent


async def ask_cases(builder: Builder, cases: Sequence[LabelledCase], prices: Prices) -> Judgements:
    """Ask the judge about labelled checks of one stored trial, with the same prompt as for any trial.

    No rubric is scored, and a judge that may not decide is asked too.
    """
    first = cases[0]
    only: frozenset[CheckKey] = frozenset(key_of(case.result) for case in cases)

    def build(stored: TrialRecord) -> TrialParts:
        return msgspec.structs.replace(builder.build_stored(first.scenario, stored), score_rubric=None, doubts={})

    record = await rejudge(build, first.stored, origin=first.origin, only=only)
    results = {key_of(result): result for result in record.evaluations}
    found = [_judged(case, results.get(key_of(case.result)), record) for case in cases]
    return Judgements(tuple(found), cost_of_trial(record, prices).total)


def _judged(case: LabelledCase, result: EvaluationResult | None, record: TrialRecord) -> JudgedCase:
    label = case.label
    return JudgedCase(
        run=case.origin,
        scenario=label.scenario,
        trial=label.trial,
        check=label.check,
        label=case.word,
        judged=None if result is None else _WORDS.get(result.verdict),
        message=record.judged.reason if result is None else result.message,
    )


def by_trial(cases: Iterable[LabelledCase]) -> list[list[LabelledCase]]:
    """The cases, grouped by stored trial."""
    found: dict[tuple[str, TrialKey], list[LabelledCase]] = {}
    for case in cases:
        found.setdefault((case.origin, case.stored.key), []).append(case)
    return list(found.values())


async def ask_all(builder: Builder, cases: Sequence[LabelledCase], prices: Prices, *, concurrency: int) -> Judgements:
    """Ask about all cases, with this many trials at once."""
    gate = asyncio.Semaphore(concurrency)

    async def ask(group: Sequence[LabelledCase]) -> Judgements:
        async with gate:
            return await ask_cases(builder, group, prices)

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask(group)) for group in by_trial(cases)]
    spent = Spent()
    for task in asked:
        spent = spent.plus(task.result().spent)
    return Judgements(tuple(case for task in asked for case in task.result().cases), spent)


class Canaries:
    """Labelled cases that a run's judge is asked about between its trials, at moments drawn from the run's seed.

    The judge is asked in the same way as for any trial, so that it cannot tell them apart.
    """

    def __init__(self, file: Path, cases: Cases, found: Sequence[LabelledCase], *, trials: int, seed: int) -> None:
        self._file = file
        self._skipped = list(cases.skipped)
        self._judged: list[JudgedCase] = []
        self._spent = Spent()
        self._begun = 0
        draw = random.Random(f"canaries {seed}")  # noqa: S311 - repeatability, not secrecy
        self._due: list[tuple[int, list[LabelledCase]]] = sorted(
            ((draw.randrange(max(1, trials)), group) for group in by_trial(found)), key=lambda due: due[0]
        )
        self.scenarios: list[Scenario] = list({case.scenario.id: case.scenario for case in found}.values())

    async def before_trial(self, builder: Builder, prices: Prices) -> None:
        """Ask those that are due before the next trial begins."""
        number, self._begun = self._begun, self._begun + 1
        while self._due and self._due[0][0] <= number:
            await self._ask(self._due.pop(0)[1], builder, prices)

    async def rest(self, builder: Builder, prices: Prices) -> None:
        while self._due:
            await self._ask(self._due.pop(0)[1], builder, prices)

    async def _ask(self, group: Sequence[LabelledCase], builder: Builder, prices: Prices) -> None:
        """A case that raises is skipped: it must not affect a trial."""
        try:
            asked = await ask_cases(builder, group, prices)
        except Exception as error:  # noqa: BLE001 - told beside the hit rate
            failure = f"{type(error).__name__}: {error}"
            self._skipped += [f"line {case.label.line}: {failure}" for case in group]
            return
        self._judged += asked.cases
        self._spent = self._spent.plus(asked.spent)

    def tally(self) -> CanaryTally:
        """The results so far; cases that were not asked are listed as skipped."""
        left = [f"line {case.label.line}: the run ended first" for _, group in self._due for case in group]
        return CanaryTally(
            file=str(self._file), cases=tuple(self._judged), skipped=(*self._skipped, *left), spent=self._spent
        )


class Calibrated(NamedTuple):
    """`judged` are the cases asked; `spent` is their cost."""

    calibrations: list[Calibration]
    judged: Sequence[JudgedCase]
    skipped: Sequence[str]
    spent: Spent


async def calibrate(labels: Path, settings: Settings) -> Calibrated:
    """Ask the judge about every labelled check. Raises `UsageError` if no case can be asked about, or no judge is
    configured."""
    redactor = settings.redactor()
    registries = open_registries(settings)
    cases = Cases(settings, registries, redactor)
    found = cases.of(read_labels(labels))
    if not found:
        first = f" ({cases.skipped[0]})" if cases.skipped else "; write pass or fail in the column `label`"
        raise SetupError(f"{labels} has no label that can be compared{first}")
    scenarios = list({case.scenario.id: case.scenario for case in found}.values())
    casts = Casts(settings, registries)
    if any(cast.judge is None for cast in casts.all(scenarios)):
        raise SetupError("no judge is set; name one with `--judge provider/model` or `judge` in steadyhand.toml")
    async with judging(scenarios, casts) as open_judge:
        asked = await ask_all(open_judge.builder, found, open_judge.prices, concurrency=settings.concurrency)
        used = _Used(casts, Judges(Models(settings, open_judge.tape), casts), Fingerprints(casts, redactor))
        made = calibrations_of(Compared(found, asked.cases), used, labels=labels, skipped=cases.skipped)
    return Calibrated(made, asked.cases, cases.skipped, asked.spent)


class _Used(NamedTuple):
    """Who judged."""

    casts: Casts
    judges: Judges
    fingerprints: Fingerprints


class Compared(NamedTuple):
    """The cases asked, in any order, with the judge's results."""

    cases: Sequence[LabelledCase]
    judged: Sequence[JudgedCase]


def calibrations_of(compared: Compared, used: _Used, *, labels: Path, skipped: Sequence[str]) -> list[Calibration]:
    """One for each judge that was asked; usually there is one."""
    verdicts = {(each.run, each.scenario, each.trial, each.check): each for each in compared.judged}
    by_judge: dict[str, list[tuple[LabelledCase, JudgedCase, Choice]]] = {}
    for case in compared.cases:
        chosen = {spec_digest(spec): judge for spec, judge in used.judges.of_checks(used.casts.of(case.scenario))}
        judge = chosen.get(case.result.digest)
        if judge is not None:
            label = case.label
            judged = verdicts[case.origin, label.scenario, label.trial, label.check]
            by_judge.setdefault(judge.value, []).append((case, judged, judge))
    digest = hashlib.sha256(labels.read_bytes()).hexdigest()[:12]
    return [_calibration(found, used, labels=f"{labels.name} {digest}", skipped=skipped) for found in by_judge.values()]


def _calibration(
    found: Sequence[tuple[LabelledCase, JudgedCase, Choice]], used: _Used, *, labels: str, skipped: Sequence[str]
) -> Calibration:
    cast, chosen = used.casts.of(found[0][0].scenario), found[0][2]
    judge, fingerprints = used.judges.get(cast), used.fingerprints
    rubrics = {case.scenario.id: fingerprints.rubric(used.casts.of(case.scenario)) for case, _, _ in found}
    checks: dict[tuple[str, str, str], list[Case]] = {}
    classes: dict[str, list[Case]] = {}
    for case, judged, _ in found:
        result = case.result
        compared = Case(label=judged.label, judged=judged.judged)
        checks.setdefault((case.scenario.id, result.name or result.type, result.digest), []).append(compared)
        kind = class_of_severity(result.severity)
        classes.setdefault(OTHER if kind is None else kind.value, []).append(compared)
    name, _, digest = labels.rpartition(" ")
    return Calibration(
        judge=chosen.value,
        judge_digest=fingerprints.judge(chosen, cast),
        prompt_digest="" if judge is None else instructions_digest(judge),
        settings_digest=fingerprints.judge_settings(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        labels=name,
        labels_digest=digest,
        overall=agreement(Case(label=judged.label, judged=judged.judged) for _, judged, _ in found),
        rubrics={scenario_id: rubric for scenario_id, rubric in rubrics.items() if rubric},
        checks=tuple(
            CheckAgreement(scenario=scenario_id, name=check, digest=asked, figures=agreement(each))
            for (scenario_id, check, asked), each in checks.items()
        ),
        classes={kind: agreement(each) for kind, each in sorted(classes.items())},
        disagreements=tuple(judged for _, judged, _ in found if judged.judged is not None and not judged.hit),
        skipped=tuple(skipped),
    )
