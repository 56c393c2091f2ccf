"""Who judges a scenario's trials, and what must be said about that."""

from __future__ import annotations

from pathlib import Path

from holdfast.compose.models import Models
from holdfast.compose.settings import ModelRef, Settings
from holdfast.errors import SetupError
from holdfast.judging.vendor import same_vendor, vendor_of
from holdfast.ports.judge import Judge
from holdfast.records.scenario import Converse, Scenario, evaluation_specs

JUDGED_TYPES = frozenset(("llm_judge", "judge", "conversation_flow", "context_retention", "user_satisfaction"))


class Judges:
    """One judge for all trials that are judged by the same model."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self._models = models
        self._settings = settings
        self._built: dict[tuple[ModelRef, bool, bool, int, Path], Judge] = {}

    def get(self, scenario: Scenario) -> Judge | None:
        """The judge that was named, else the model under test, else None. Raises `SetupError`."""
        named = self._settings.judge(scenario)
        tested = self._settings.model(scenario)
        ref = named or tested
        if ref is None:
            return None
        votes = self._settings.votes(scenario)
        fixed = self._settings.options.judge is not None or "judge" in scenario.overrides
        # With the folder of the scenario: what a `model_type` stands for is looked up from there.
        key = (ref, named is None, fixed, votes, Path(scenario.place.file).absolute().parent)
        if key not in self._built:
            from holdfast.builtin.judges.llm import LlmJudge

            model = self._models.get(ref, scenario)
            self._built[key] = LlmJudge(
                self._models.chooser(ref, scenario, fixed=fixed),
                name=model.name,
                self_judged=named is None,
                default_votes=votes,
            )
        return self._built[key]

    def warnings(self, scenario: Scenario) -> list[str]:
        """What a reader of the verdict must know of the judge. Raises `SetupError` with `--strict-judge`."""
        if not needs_judge(scenario):
            return []
        named, tested = self._settings.judge(scenario), self._settings.model(scenario)
        if tested is None:
            return []
        if named is None:
            found = f"self-judged: {tested.name} is its own judge; give --judge for an independent one"
        elif same_vendor(named.name, tested.name):
            vendor = vendor_of(named.name) or named.name
            found = f"the judge {named.name} and the model under test {tested.name} are from the same vendor, {vendor}"
        else:
            return []
        if self._settings.strict_judge(scenario):
            raise SetupError(f"--strict-judge: {scenario.place}: {found}")
        return [found]


def needs_judge(scenario: Scenario) -> bool:
    """Whether some check or condition of the scenario can only be decided by a judge."""
    if any(spec.type in JUDGED_TYPES for spec in evaluation_specs(scenario)):
        return True
    return any(
        condition.llm_judge is not None
        for step in scenario.steps
        if isinstance(step.task, Converse)
        for condition in step.task.config.termination_conditions
    )
