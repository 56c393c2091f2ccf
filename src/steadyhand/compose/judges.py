"""Who judges a scenario's trials, and what must be said about that."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from steadyhand.compose.loading import ScenarioRegistries, user_model_types
from steadyhand.compose.models import Models
from steadyhand.compose.settings import ModelRef, Settings
from steadyhand.errors import SetupError
from steadyhand.judging.vendor import same_vendor, vendor_of
from steadyhand.plugins.plugin import JudgeSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import Judge
from steadyhand.ports.evaluator import needs_judge as declares_judge
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import Converse, Scenario, evaluation_specs

DEFAULT_KIND = "llm"
"""The kind of judge, and of simulated user, unless the configuration names another."""


class Judges:
    """One judge for all trials that are judged by the same model."""

    def __init__(self, models: Models, settings: Settings, registries: ScenarioRegistries) -> None:
        self._models = models
        self._settings = settings
        self._registries = registries
        self._checks: dict[str, list[EvaluationSpec]] = {}
        self._built: dict[tuple[ModelRef, str | None, bool, int, Path], Judge] = {}

    def get(self, scenario: Scenario) -> Judge | None:
        """The judge that was named, else the model under test, else None. Raises `SetupError`."""
        tested = self._settings.model(scenario)
        ref = self._settings.judge(scenario) or tested
        if ref is None:
            return None
        votes = self._settings.votes
        fixed = self._fixed(scenario)
        # With the folder of the scenario: what a `model_type` stands for is looked up from there.
        key = (ref, tested.name if tested else None, fixed, votes, Path(scenario.place.file).absolute().parent)
        if key not in self._built:
            config = self._settings.config
            kind = config.judge_kind or DEFAULT_KIND
            factory = self._registries.registry(scenario).judge(kind)
            name = self._models.get(ref, scenario).name  # of a recording, that of the model it was made with
            self._built[key] = factory(
                JudgeSettings(
                    choose=self._models.chooser(ref, scenario, fixed=fixed),
                    name=name,
                    tested=tested and (name if tested.name == ref.name else tested.name),
                    votes=votes,
                    options=config.judges.get(kind, {}),
                )
            )
        return self._built[key]

    def of_checks(self, scenario: Scenario) -> list[tuple[EvaluationSpec, ModelRef]]:
        """The checks that ask a judge, and which. One whose `model_type` stands for nothing asks nobody."""
        default = self._settings.judge(scenario) or self._settings.model(scenario)
        if default is None:
            return []
        found: list[tuple[EvaluationSpec, ModelRef]] = []
        for spec in self._judged(scenario):
            with suppress(SetupError):
                model_type = None if self._fixed(scenario) else _model_type(spec)
                found.append((spec, self._settings.of_type(model_type, default, scenario)))
        return found

    def needed(self, scenario: Scenario) -> bool:
        """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
        return _has_judged_ending(scenario) or bool(self._judged(scenario))

    def warnings(self, scenario: Scenario) -> list[str]:
        """What a reader of the verdict must know of the judge. Raises `SetupError` with `--strict-judge`."""
        tested = self._settings.model(scenario)
        if tested is None:
            return []
        found = [said for ref in self._asked(scenario) if (said := self._partial(ref, tested, scenario)) is not None]
        if found and self._settings.strict_judge:
            raise SetupError(f"--strict-judge: {scenario.place}: {found[0]}")
        return found

    def overrides(self, scenario: Scenario) -> list[str]:
        """Where an option is followed and a `model_type` of the scenario is not."""
        judge, user = self._settings.judge(scenario), self._settings.user_model(scenario)
        said: list[str] = []
        if judge is not None and self._fixed(scenario):
            asked = [model_type for spec in self._judged(scenario) if (model_type := _model_type(spec))]
            option = "the matrix's judge" if "judge" in scenario.overrides else "--judge"
            said += [self._instead(option, judge, model_type, scenario) for model_type in asked]
        if user is not None and self._settings.options.user_model is not None:
            asked = user_model_types(scenario)
            said += [self._instead("--user-model", user, model_type, scenario) for model_type in asked]
        return [message for message in dict.fromkeys(said) if message]

    def _instead(self, option: str, given: ModelRef, model_type: str, scenario: Scenario) -> str:
        """Empty when both name the same model."""
        try:
            meant = self._settings.of_type(model_type, given, scenario).name
        except SetupError:
            meant = model_type
        if meant == given.name:
            return ""
        stands_for = "" if meant == model_type else f", which stands for {meant}"
        return f"{option} {given.name} is used in place of `model_type: {model_type}`{stands_for}"

    def _asked(self, scenario: Scenario) -> list[ModelRef]:
        """Every model that judges something of the scenario, a rubric included.

        A `model_type` that stands for nothing judges nothing: its check will say so.
        """
        named = self._settings.judge(scenario)
        default = named or self._settings.model(scenario)
        if default is None:
            return []
        types = [None if self._fixed(scenario) else _model_type(spec) for spec in self._judged(scenario)]
        if _has_judged_ending(scenario) or (scenario.rubric is not None and named is not None):
            types.append(None)
        refs: dict[str, ModelRef] = {}
        for model_type in types:
            with suppress(SetupError):
                ref = self._settings.of_type(model_type, default, scenario)
                refs[ref.name] = ref
        return list(refs.values())

    def _partial(self, judge: ModelRef, tested: ModelRef, scenario: Scenario) -> str | None:
        """Why this judge may not be impartial, or None."""
        if judge.name == tested.name:
            advice = "name another one" if self._settings.judge(scenario) else "give --judge for an independent one"
            return f"self-judged: {tested.name} is its own judge; {advice}"
        if same_vendor(judge.name, tested.name):
            return (
                f"the judge {judge.name} and the model under test {tested.name} are from the same vendor, "
                f"{vendor_of(judge.name)}"
            )
        return None

    def _judged(self, scenario: Scenario) -> list[EvaluationSpec]:
        known = self._checks.get(scenario.id)
        if known is None:
            registry = self._registries.registry(scenario)
            known = [spec for spec in evaluation_specs(scenario) if asks_judge(spec, registry)]
            self._checks[scenario.id] = known
        return known

    def _fixed(self, scenario: Scenario) -> bool:
        """Whether the judge is one that wins over what a scenario asks for."""
        return self._settings.options.judge is not None or "judge" in scenario.overrides


def needs_judge(scenario: Scenario, registry: Registry) -> bool:
    """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
    return _has_judged_ending(scenario) or any(asks_judge(spec, registry) for spec in evaluation_specs(scenario))


def asks_judge(spec: EvaluationSpec, registry: Registry) -> bool:
    """As the check's evaluator declares. Raises `SetupError` when a plugin's declaration breaks."""
    evaluator = registry.evaluator(spec.type)
    try:
        return declares_judge(evaluator, evaluator.params.model_validate(spec.params))
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise SetupError(
            f"{spec.place}: evaluator {spec.type!r} cannot say whether it needs a judge: {told}"
        ) from error


def _has_judged_ending(scenario: Scenario) -> bool:
    return any(
        condition.llm_judge is not None
        for step in scenario.steps
        if isinstance(step.task, Converse)
        for condition in step.task.config.termination_conditions
    )


def _model_type(spec: EvaluationSpec) -> str | None:
    found = spec.params.get("model_type")
    return found if isinstance(found, str) else None
