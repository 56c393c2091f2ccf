"""Whether a suite would notice: bad answers made from good ones, and what its checks say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from steadyhand.compose.builder import Builder, stored_parts
from steadyhand.compose.isolation import sandbox_for
from steadyhand.compose.models import calls_model
from steadyhand.compose.scenarios import ScenarioRegistries
from steadyhand.compose.selftest import check_answer
from steadyhand.engine.rejudgement import check_again
from steadyhand.lint.deed_mutants import conduct_mutants
from steadyhand.lint.mutants import GoodAnswer, Mutant, by_difference, mutants, words_in
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.event import last_reply
from steadyhand.records.mutation import KILLED, CheckTally, MutantResult, MutantStatus, MutationReport, ScenarioMutants
from steadyhand.records.run import Judged, TrialKey, TrialRecord
from steadyhand.records.scenario import Ask, Converse, Scenario, evaluation_specs, leaf_specs
from steadyhand.spec.mutant_notes import read_mutant_notes
from steadyhand.store.reader import RunReader

_Results: TypeAlias = "dict[tuple[object, ...], EvaluationResult]"
"""By where the check stands and where it was made."""


class _Original(NamedTuple):
    """A good answer of a scenario, from its examples or from a trial that passed."""

    origin: str
    answer: str
    stored: TrialRecord | None = None


class _Case(NamedTuple):
    """A mutant, and the stored trial that it makes."""

    mutant: Mutant
    stored: TrialRecord | None = None


class Mutation:
    """Mutates answers, and has the scenarios' checks look at them. Checks ask a judge only if there is a `builder`."""

    def __init__(
        self, scenarios: Sequence[Scenario], registries: ScenarioRegistries, builder: Builder | None = None
    ) -> None:
        self._scenarios = scenarios
        self._registries = registries
        self._builder = builder
        self._scripts = (
            sandbox_for((each, registries.registry(each)) for each in scenarios) if builder is None else None
        )
        folders = {Path(scenario.place.file).parent for scenario in scenarios}
        notes = [read_mutant_notes(folder) for folder in sorted(folders)]
        self._equivalent = {key: why for each in notes for key, why in each.equivalent.items()}
        self._written = [answer for each in notes for answer in each.written]
        self._unsigned = tuple(name for each in notes for name in each.unsigned)
        self._used: set[tuple[str, str, str]] = set()

    async def of_examples(self) -> MutationReport:
        """Of each scenario's own good answers."""
        answers = {
            scenario.id: [_Original(f"example {n}", text) for n, text in enumerate(scenario.examples.good, start=1)]
            for scenario in self._scenarios
        }
        return await self._report(answers)

    async def of_run(self, reader: RunReader) -> MutationReport:
        """Of the trials of a run that passed."""
        answers: dict[str, list[_Original]] = {scenario.id: [] for scenario in self._scenarios}
        for stored in reader.trials():
            if stored.judged.verdict is Verdict.PASSED and stored.key.scenario_id in answers:
                said = last_reply(stored.events)
                text = "" if said is None else said.message.content
                answers[stored.key.scenario_id].append(_Original(f"trial {stored.key.index}", text, stored))
        return await self._report(answers)

    async def _report(self, answers: Mapping[str, Sequence[_Original]]) -> MutationReport:
        found = [await self._scenario(scenario, answers) for scenario in self._scenarios]
        killed = sum(each.killed for each in found)
        counted = killed + sum(each.survived for each in found)
        unused = sorted(" ".join(key) for key in self._equivalent.keys() - self._used)
        share = killed / counted if counted else None
        return MutationReport(killed=share, scenarios=tuple(found), unused=tuple(unused), unsigned=self._unsigned)

    async def _scenario(self, scenario: Scenario, answers: Mapping[str, Sequence[_Original]]) -> ScenarioMutants:
        elsewhere = [each.answer for name, those in answers.items() if name != scenario.id for each in those]
        found: list[tuple[MutantResult, _Results]] = []
        originals = 0
        for original in answers[scenario.id]:
            before = await self._examine(scenario, original.answer, original.stored)
            held = {key: result for key, result in before.items() if result.verdict is Verdict.PASSED}
            originals += bool(held)
            unstored = self._rests_on_the_trial(scenario, original.stored, held)
            # Those written by somebody are of no one answer, and tried once.
            written = [text for name, text in self._written if name == scenario.id and originals == 1]
            for mutant, stored in _cases(scenario, original, elsewhere, written) if held else ():
                after = await self._examine(scenario, mutant.text, stored)
                lost = {key: each for key, each in after.items() if _noticed(before.get(key), each)}
                # What was done is not read by a judge who reads the reply.
                undecided = not mutant.conduct and self._left_to_a_judge(scenario, after)
                status = _status(lost, undecided=undecided)
                if status == "survived" and mutant.conduct and unstored:
                    status = "not_applicable"
                found.append((self._result(scenario, original, mutant, (held, lost, status)), held))
        return _added_up(scenario, originals, found)

    async def _examine(self, scenario: Scenario, answer: str, stored: TrialRecord | None) -> _Results:
        registry = self._registries.registry(scenario)
        known = stored or _unstored(scenario)
        if self._builder is None:
            parts = replace(stored_parts(scenario, known, registry), scripts=self._scripts)
        else:
            parts = replace(self._builder.build_stored(scenario, known), score_rubric=None)
        if stored is None:
            results = await check_answer(parts, registry, answer)
        else:
            results = await check_again(parts, stored)
        return {_key(each): each for each in results}

    def _rests_on_the_trial(self, scenario: Scenario, stored: TrialRecord | None, held: _Results) -> bool:
        """Whether a check held in the trial that the record cannot tell about: one of files, commands or a database."""
        registry = self._registries.registry(scenario)
        known = [spec for spec in evaluation_specs(scenario) if registry.has("evaluators", spec.type)]
        made = {spec.place for spec in known if not calls_model(spec, registry)}
        recorded = () if stored is None else stored.evaluations
        return any(
            each.verdict is Verdict.PASSED and _key(each) not in held and each.place in made for each in recorded
        )

    def _left_to_a_judge(self, scenario: Scenario, results: _Results) -> bool:
        """Whether a check is left to a judge, so that the answer has not passed."""
        decided = {each.place for each in results.values() if each.verdict in (Verdict.PASSED, Verdict.FAILED)}
        registry = self._registries.registry(scenario)
        return any(
            group.place not in decided and registry.has("evaluators", spec.type) and calls_model(spec, registry)
            for group in evaluation_specs(scenario)
            for spec in group.leaves
        )

    def _result(
        self, scenario: Scenario, original: _Original, mutant: Mutant, seen: tuple[_Results, _Results, MutantStatus]
    ) -> MutantResult:
        held, lost, status = seen
        key = (scenario.id, mutant.operator, mutant.hash)
        reason = self._equivalent.get(key)
        if reason is not None:
            self._used.add(key)
        return MutantResult(
            operator=mutant.operator,
            text=mutant.text,
            killed_by=tuple(dict.fromkeys(each.name or each.type for each in lost.values()))
            if status in KILLED
            else (),
            status=status if reason is None else "equivalent",
            hash=mutant.hash,
            origin=original.origin,
            original=original.answer,
            severity=max((each.severity for each in held.values() if each.severity is not None), default=None),
            reason=reason,
        )


def _key(result: EvaluationResult) -> tuple[object, ...]:
    return result.place, result.name, result.stage, result.step, result.turn


def _noticed(before: EvaluationResult | None, after: EvaluationResult) -> bool:
    """Whether a check says something worse of the mutant than of the original."""
    if before is None or before.verdict is Verdict.PASSED:
        return after.verdict is not Verdict.PASSED
    return before.verdict is Verdict.INCONCLUSIVE and after.verdict is Verdict.FAILED


def _status(lost: _Results, *, undecided: bool) -> MutantStatus:
    verdicts = {each.verdict for each in lost.values()}
    if Verdict.FAILED in verdicts:
        return "failed"
    if Verdict.INCONCLUSIVE in verdicts:
        return "inconclusive"
    # A check that broke has noticed nothing.
    return "needs_judge" if verdicts or undecided else "survived"


def _added_up(scenario: Scenario, originals: int, found: Sequence[tuple[MutantResult, _Results]]) -> ScenarioMutants:
    statuses = [result.status for result, _ in found]
    counted = [(result, {each.name or each.type for each in held.values()}) for result, held in found]
    counted = [each for each in counted if each[0].status not in ("equivalent", "not_applicable")]

    def tally(spec: EvaluationSpec) -> CheckTally:
        name = spec.name or spec.type
        killed = sum(name in result.killed_by for result, _ in counted)
        applicable = sum(name in names for _, names in counted)
        missed = len(counted) - applicable
        return CheckTally(
            name=name, killed=killed, survived=applicable - killed, not_applicable=missed, severity=spec.severity
        )

    return ScenarioMutants(
        id=scenario.id,
        originals=originals,
        killed=sum(status in KILLED for status in statuses),
        survived=statuses.count("survived"),
        equivalent=statuses.count("equivalent"),
        needs_judge=statuses.count("needs_judge"),
        not_applicable=statuses.count("not_applicable"),
        checks=tuple(tally(spec) for spec in evaluation_specs(scenario)),
        mutants=tuple(result for result, _ in found),
    )


def _cases(
    scenario: Scenario, original: _Original, elsewhere: Sequence[str], written: Sequence[str]
) -> Iterator[_Case]:
    source = GoodAnswer(
        answer=original.answer,
        words=_words(scenario),
        prompt=_prompt(scenario),
        others=by_difference(elsewhere, original.answer),
        defers=scenario.expects == "defer",
        advice=any(spec.severity is not None for spec in evaluation_specs(scenario)),
    )
    stored = original.stored
    if original.answer.strip():
        for mutant in (*mutants(source), *(Mutant(operator="written", text=text) for text in written)):
            yield _Case(mutant, None if stored is None else _with_reply(stored, mutant.text))
    if stored is not None:
        for conduct in conduct_mutants(stored.events):
            yield _Case(
                Mutant(operator=conduct.operator, text=conduct.text, conduct=True),
                replace(stored, events=conduct.events),
            )


def _words(scenario: Scenario) -> frozenset[str]:
    """The words that the scenario's checks ask for, and those of the right decision."""
    texts = [scenario.expected_action or ""]
    for spec in leaf_specs(scenario):
        texts += _texts({name: value for name, value in spec.params.items() if name != "judge_criterion"})
    return frozenset[str]().union(*map(words_in, texts))


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for each in cast("dict[str, Any]", value).values() for text in _texts(each)]
        case list():
            return [text for each in cast("list[Any]", value) for text in _texts(each)]
        case _:
            return []


def _prompt(scenario: Scenario) -> str:
    """What the agent was asked last."""
    for step in reversed(scenario.steps):
        match step.task:
            case Ask(messages=asked) | Converse(opening=asked) if asked:
                return asked[-1].content
            case _:
                pass
    return ""


def _unstored(scenario: Scenario) -> TrialRecord:
    """The record of a trial that never took place, for an example."""
    return TrialRecord(
        key=TrialKey(scenario_id=scenario.id),
        scenario_name=scenario.name,
        place=scenario.place,
        digest=scenario.digest,
        started_at="",
        duration_ms=0.0,
        judged=Judged(verdict=Verdict.PASSED, reason=""),
    )


def _with_reply(stored: TrialRecord, text: str) -> TrialRecord:
    said = last_reply(stored.events)
    assert said is not None, "a mutant of a reply that was not given"
    changed = replace(said, message=replace(said.message, content=text))
    return replace(stored, events=tuple([changed if each is said else each for each in stored.events]))
