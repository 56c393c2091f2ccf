"""Chat models by name, each built once per run; the judges of its trials, and warnings about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from steadyhand.batch.limits import SPACING_S
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.builtin.plugin import Recording, recording, replaying
from steadyhand.compose.scenarios import (
    Rubrics,
    ScenarioRegistries,
    model_types,
    needs_agent,
    needs_user,
    user_model_types,
)
from steadyhand.compose.settings import ModelRef, Settings, provider_part
from steadyhand.engine.context import ScoreRubric
from steadyhand.engine.limits import SystemClock
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import SetupError, StoreError
from steadyhand.judging.rubric import timeliness_of
from steadyhand.judging.vendor import vendor_of
from steadyhand.plugins.plugin import JudgeSettings, ModelSettings
from steadyhand.plugins.registry import Registry, build_part
from steadyhand.ports.agent import Judge, RubricJudge, TrialContext, agent_facts
from steadyhand.ports.evaluator import explicit_judge_only
from steadyhand.ports.evaluator import needs_judge as declares_judge
from steadyhand.ports.model import ChatModel, ModelFacts, model_facts
from steadyhand.records.config import ProviderConfig, RunOptions
from steadyhand.records.evaluation import EvaluationSpec, LatencyTier, Material, RubricScore
from steadyhand.records.scenario import Converse, Scenario, evaluation_specs
from steadyhand.redaction import Redactor

DEFAULT_KIND = "llm"
"""The kind of judge, and of simulated user, unless the configuration names another."""


class Tape:
    """Wraps or replaces models, as `--record` and `--replay` say; without them it does neither."""

    def __init__(self, options: RunOptions, redactor: Redactor, *, add: bool = False) -> None:
        """With `add`, an existing recording is continued. Raises `SetupError` if it cannot be created or read."""
        if options.record is not None and options.replay is not None:
            raise SetupError("--record and --replay cannot be used together; give one of them")
        self._recording: Recording | None = None
        self._replayed: Callable[[str], ChatModel] | None = None
        if options.record is not None:
            self._recording = recording(options.record, redactor, add=add)
        if options.replay is not None:
            self._replayed = replaying(options.replay, redactor, time=options.replay_time)

    def model(self, name: str, build: Callable[[], ChatModel]) -> ChatModel:
        """The model to use under this name. A replayed one is never built, so it needs no key."""
        if self._replayed is not None:
            return self._replayed(name)
        return build() if self._recording is None else self._recording.wrap(build())

    @property
    def broken(self) -> StoreError | None:
        """Why nothing more can be recorded; None if there is no problem."""
        return None if self._recording is None else self._recording.broken()

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()


class Models:
    def __init__(self, registries: ScenarioRegistries, settings: Settings, tape: Tape) -> None:
        self._registries = registries
        self._settings = settings
        self._tape = tape
        self._built: dict[tuple[str, Path, float], ChatModel] = {}

    def get(self, ref: ModelRef, scenario: Scenario) -> ChatModel:
        """Raises `SetupError` for an unknown provider, a missing key or a missing file."""
        timeout_s = self._settings.timeout_s
        key = (ref.name, ref.folder, timeout_s)
        if key not in self._built:
            provider, _, name = ref.name.partition("/")
            config = self._settings.config
            factory = provider_part(provider, config, self._registries.registry(scenario))
            settings = ModelSettings(
                name=name,
                provider=provider,
                folder=ref.folder,
                variables=self._settings.variables,
                timeout_s=timeout_s,
                options=config.providers[provider].options if provider in config.providers else {},
            )
            self._built[key] = self._tape.model(
                ref.name, lambda: build_part(factory, settings, f"model {ref.name}", ChatModel)
            )
        return self._built[key]

    def chooser(
        self, default: ModelRef | None, scenario: Scenario, *, fixed: bool
    ) -> Callable[[str | None], ChatModel]:
        """Resolves a scenario's `model_type` to a model: an alias from the configuration, a full name, or the default.

        `fixed` is for a model from the command line, which overrides the scenario. Without a default
        there is none to be had.
        """

        def choose(model_type: str | None) -> ChatModel:
            if default is None:
                raise SetupError("no model is set: use --model, or `model` in steadyhand.toml")
            return self.get(default if fixed else self._settings.of_type(model_type, default, scenario), scenario)

        return choose

    async def close(self) -> list[str]:
        """Close them all, and report which could not be closed."""
        problems: list[str] = []
        for model in self._built.values():
            try:
                await model.close()
            except Exception as error:  # noqa: BLE001 - the run is over: its results must not be lost
                problems.append(f"model {model.name} could not be closed: {type(error).__name__}: {error}")
        return problems

    @property
    def names(self) -> list[str]:
        """The models built so far."""
        return [model.name for model in self._built.values()]


def providers_of(
    scenarios: Iterable[Scenario], settings: Settings, registries: ScenarioRegistries
) -> dict[str, ModelFacts]:
    """Every provider that the scenarios' models, judges and users come from, with what it declares.

    Raises `SetupError` for an unknown one, unless a plugin that was not loaded may provide it.
    """
    found: dict[str, ModelFacts] = {}
    for scenario in scenarios:
        refs = [settings.judge(scenario), settings.user_model(scenario) if needs_user(scenario) else None]
        refs.append(settings.model(scenario) if needs_agent(scenario) else None)
        for name in model_types(scenario):
            with suppress(SetupError):  # its check reports an alias that cannot be resolved
                refs.append(settings.of_type(name, ModelRef(name=name, folder=Path()), scenario))
        for ref in refs:
            provider = ref.name.partition("/")[0] if ref is not None and "/" in ref.name else None
            if provider is not None and provider not in found:
                if not _is_known(provider, settings, registries.registry(scenario)) and registries.unloaded(scenario):
                    continue
                factory = provider_part(provider, settings.config, registries.registry(scenario))
                found[provider] = model_facts(factory)
    return found


def _is_known(provider: str, settings: Settings, registry: Registry) -> bool:
    return provider in settings.config.providers or registry.has("models", provider)


def build_gate(
    providers: Mapping[str, ModelFacts], settings: Settings, note: Callable[[str], None], *, spaced: bool = True
) -> ProviderGate | OpenGate:
    """A replay calls no provider, whatever its models' names, so there are no limits or outages.

    Starts are not `spaced` if calls are made in other processes, which space their own.
    """
    if settings.options.replay is not None:
        return OpenGate()
    configured = settings.config.providers
    limits: dict[str, ProviderLimits] = {}
    for name in {**providers, **configured}:
        config = configured.get(name, ProviderConfig())
        limits[name] = ProviderLimits(
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
            spacing_s=SPACING_S if spaced and providers.get(name, ModelFacts()).uses_network else 0.0,
        )
    return ProviderGate(clock=SystemClock(), limits=limits, note=note, wait_s=settings.wait_limit_s)


def free_of_limits(providers: Mapping[str, ModelFacts], settings: Settings) -> tuple[str, ...]:
    """The providers whose calls need no permit, because they use no network and have no limits."""
    configured = settings.config.providers
    return tuple(
        sorted(
            name
            for name, facts in providers.items()
            if not facts.uses_network
            and (config := configured.get(name, ProviderConfig())).requests_per_minute is None
            and config.tokens_per_minute is None
        )
    )


def needs_network(
    scenarios: Iterable[Scenario],
    providers: Mapping[str, ModelFacts],
    settings: Settings,
    registries: ScenarioRegistries,
) -> bool:
    """Whether our event loop talks to any model or agent of the run over the network, as their factories declare."""
    if any(facts.uses_network for facts in providers.values()):
        return True
    kinds = {(settings.agent(each).partition(":")[0], registries.registry(each)) for each in scenarios}
    return any(agent_facts(registry.agent(kind)).uses_network for kind, registry in kinds)


NO_NAMED_JUDGE = (
    "no judge is named: meaning checks are inconclusive where the reader is not sure; name one with `--judge"
    " provider/model` or `judge` in steadyhand.toml"
)


class Judges:
    """One judge for all trials that are judged by the same model."""

    def __init__(self, models: Models, settings: Settings, registries: ScenarioRegistries) -> None:
        self._models = models
        self._settings = settings
        self._registries = registries
        self._rubrics = Rubrics(settings)
        self._checks: dict[str, list[EvaluationSpec]] = {}
        self._built: dict[tuple[ModelRef, str | None, bool, int, Path], Judge] = {}

    def get(self, scenario: Scenario) -> Judge | None:
        """The configured judge, else the model under test, else None. Raises `SetupError`."""
        tested = self._settings.model(scenario)
        ref = self._settings.judge(scenario) or tested
        if ref is None:
            return None
        votes = self._settings.votes
        fixed = self._fixed(scenario)
        # With the folder of the scenario, because a `model_type` is resolved relative to it.
        key = (ref, tested.name if tested else None, fixed, votes, Path(scenario.place.file).absolute().parent)
        if key not in self._built:
            config = self._settings.config
            kind = config.judge_kind or DEFAULT_KIND
            factory = self._registries.registry(scenario).judge(kind)
            name = self._models.get(ref, scenario).name  # of a recording, that of the model it was made with
            settings = JudgeSettings(
                choose=self._models.chooser(ref, scenario, fixed=fixed),
                name=name,
                tested=tested and (name if tested.name == ref.name else tested.name),
                votes=votes,
                options=config.judges.get(kind, {}),
            )
            self._built[key] = build_part(factory, settings, f"judge {kind}", Judge)
        return self._built[key]

    def rubric_scorer(self, scenario: Scenario) -> ScoreRubric | None:
        """A rubric is scored only by an explicitly configured judge, never by the model under test."""
        ref = self._settings.judge(scenario)
        rubric = self._rubrics.get(scenario) if ref is not None else None
        if ref is None or rubric is None:
            return None
        judge = self.get(scenario)

        async def score(materials: Sequence[Material], tier: LatencyTier | None, trial: TrialContext) -> RubricScore:
            if not isinstance(judge, RubricJudge):
                return RubricScore(name=rubric.name, reason=f"the judge {ref.name} cannot score rubrics")
            return await judge.score(rubric, materials, trial, timeliness=timeliness_of(tier))

        return score

    def of_checks(self, scenario: Scenario) -> list[tuple[EvaluationSpec, ModelRef]]:
        """The checks that ask a judge, and which one. A check whose `model_type` cannot be resolved asks none."""
        default = self._settings.judge(scenario) or self._settings.model(scenario)
        if default is None:
            return []
        found: list[tuple[EvaluationSpec, ModelRef]] = []
        for spec in self._judged(scenario):
            with suppress(SetupError):
                model_type = None if self._fixed(scenario) else _judged_by(spec)
                found.append((spec, self._settings.of_type(model_type, default, scenario)))
        return found

    def needed(self, scenario: Scenario) -> bool:
        """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
        return _has_judged_ending(scenario) or bool(self._judged(scenario))

    def unasked(self, scenario: Scenario) -> str | None:
        """What to set, if some check may have to ask a judge and none is named. Raises `SetupError`."""
        if self._settings.judge(scenario) is not None:
            return None
        registry = self._registries.registry(scenario)
        for spec in evaluation_specs(scenario):
            if explicit_judge_only(registry.evaluator(spec.type)) and asks_judge(spec, registry):
                return NO_NAMED_JUDGE
        return None

    def warnings(self, scenario: Scenario) -> list[str]:
        """Warnings about the judge. Raises `SetupError` with `--strict-judge`."""
        tested = self._settings.model(scenario)
        if tested is None:
            return []
        found = [said for ref in self._asked(scenario) if (said := self._partial(ref, tested, scenario)) is not None]
        if found and self._settings.strict_judge:
            raise SetupError(f"--strict-judge: {scenario.place}: {found[0]}")
        return found

    def overrides(self, scenario: Scenario) -> list[str]:
        """Notes where an option overrides a `model_type` of the scenario."""
        judge, user = self._settings.judge(scenario), self._settings.user_model(scenario)
        said: list[str] = []
        if judge is not None and self._fixed(scenario):
            asked = [model_type for spec in self._judged(scenario) if (model_type := _judged_by(spec))]
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

        A `model_type` that cannot be resolved is left out: its check reports it.
        """
        named = self._settings.judge(scenario)
        default = named or self._settings.model(scenario)
        if default is None:
            return []
        types = [None if self._fixed(scenario) else _judged_by(spec) for spec in self._judged(scenario)]
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
        vendor = self._vendor(judge, scenario)
        if vendor == self._vendor(tested, scenario):
            return f"the judge {judge.name} and the model under test {tested.name} are from the same vendor, {vendor}"
        return None

    def _vendor(self, ref: ModelRef, scenario: Scenario) -> str:
        facts = ModelFacts()
        with suppress(SetupError):  # a stored trial is judged again without the provider of its model
            registry = self._registries.registry(scenario)
            facts = model_facts(provider_part(ref.name.partition("/")[0], self._settings.config, registry))
        return vendor_of(ref.name, names_file=facts.names_file)

    def _judged(self, scenario: Scenario) -> list[EvaluationSpec]:
        known = self._checks.get(scenario.id)
        if known is None:
            registry = self._registries.registry(scenario)
            named = self._settings.judge(scenario) is not None
            known = [
                spec
                for spec in evaluation_specs(scenario)
                if asks_judge(spec, registry) and (named or not explicit_judge_only(registry.evaluator(spec.type)))
            ]
            self._checks[scenario.id] = known
        return known

    def _fixed(self, scenario: Scenario) -> bool:
        """Whether the judge overrides the scenario's own."""
        return self._settings.options.judge is not None or "judge" in scenario.overrides


def needs_judge(scenario: Scenario, registry: Registry) -> bool:
    """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
    return _has_judged_ending(scenario) or any(asks_judge(spec, registry) for spec in evaluation_specs(scenario))


def asks_judge(spec: EvaluationSpec, registry: Registry) -> bool:
    """As declared by the check's evaluator. Raises `SetupError` if a plugin's declaration raises."""
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


def _judged_by(spec: EvaluationSpec) -> str | None:
    found = spec.params.get("model_type")
    return found if isinstance(found, str) else None
