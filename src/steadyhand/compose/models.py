"""Chat models by name, each built once per run; the judges of its trials, and warnings about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from steadyhand.batch.limits import SPACING_S
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.builtin.plugin import Recording, recording, replaying
from steadyhand.compose.cast import (
    Cast,
    Casts,
    Choice,
    embedder_of,
    embedders,
    model_types,
    needs_user,
    user_model_types,
)
from steadyhand.compose.settings import Settings, provider_part
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
from steadyhand.records.scenario import Converse, Scenario, leaf_specs
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
    def __init__(self, settings: Settings, tape: Tape) -> None:
        self._settings = settings
        self._tape = tape
        self._built: dict[tuple[str, Path, bool], ChatModel] = {}

    def get(self, chosen: Choice, cast: Cast, *, embeds: bool = False) -> ChatModel:
        """Raises `SetupError` for an unknown provider, a missing key or a missing file, and for a provider that
        `embeds` no texts."""
        key = (chosen.value, chosen.folder, embeds)
        if key not in self._built:
            provider, _, name = chosen.value.partition("/")
            config = self._settings.config
            part = provider_part(provider, config, cast.registry)
            factory = model_facts(part).embedder if embeds else part
            if factory is None:
                raise SetupError(
                    f"model {chosen.value}: the provider {provider} has no embeddings; name a model of openai, or of a "
                    f"server with an OpenAI-compatible API ([providers.NAME] with a base_url)"
                )
            settings = ModelSettings(
                name=name,
                provider=provider,
                folder=chosen.folder,
                variables=self._settings.variables,
                timeout_s=self._settings.timeout_s,
                options=config.providers[provider].options if provider in config.providers else {},
            )
            self._built[key] = self._tape.model(
                chosen.value, lambda: build_part(factory, settings, f"model {chosen.value}", ChatModel)
            )
        return self._built[key]

    def embedders(self, cast: Cast) -> dict[str, ChatModel]:
        """The models that its checks compare texts with, as they name them. Raises `SetupError`, with the place."""
        found: dict[str, ChatModel] = {}
        for name, spec in embedders(cast):
            try:
                found[name] = self.get(cast.named(name), cast, embeds=True)
            except SetupError as error:
                raise SetupError(f"{spec.place}: {error}") from error
        return found

    def chooser(self, default: Choice | None, cast: Cast, *, fixed: bool) -> Callable[[str | None], ChatModel]:
        """Resolves a scenario's `model_type` to a model: an alias from the configuration, a full name, or the default.

        `fixed` is for a model from the command line, which overrides the scenario. Without a default
        there is none to be had.
        """

        def choose(model_type: str | None) -> ChatModel:
            if default is None:
                raise SetupError("no model is set: use --model, or `model` in steadyhand.toml")
            return self.get(default if fixed else cast.of_type(model_type, default), cast)

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


def providers_of(casts: Iterable[Cast]) -> dict[str, ModelFacts]:
    """Every provider that the scenarios' models, judges and users come from, with what it declares.

    Raises `SetupError` for an unknown one, unless a plugin that was not loaded may provide it.
    """
    found: dict[str, ModelFacts] = {}
    for cast in casts:
        chosen = [cast.judge, cast.plays_user if needs_user(cast.scenario) else None, cast.tested]
        for name in model_types(cast):
            with suppress(SetupError):  # its check reports an alias that cannot be resolved
                chosen.append(cast.of_type(name, Choice("", "default", Path())))
        for provider in dict.fromkeys(each.provider for each in chosen if each is not None and each.value):
            if provider in found:
                continue
            is_known = provider in cast.config.providers or cast.registry.has("models", provider)
            if is_known or not cast.plugins.unloaded:
                found[provider] = model_facts(provider_part(provider, cast.config, cast.registry))
    return found


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


def needs_network(casts: Iterable[Cast], providers: Mapping[str, ModelFacts]) -> bool:
    """Whether our event loop talks to any model or agent of the run over the network, as their factories declare."""
    if any(facts.uses_network for facts in providers.values()):
        return True
    kinds = {(cast.agent.kind, cast.registry) for cast in casts}
    return any(agent_facts(registry.agent(kind)).uses_network for kind, registry in kinds)


NO_NAMED_JUDGE = (
    "no judge is named: meaning checks are inconclusive where the reader is not sure; name one with `--judge"
    " provider/model` or `judge` in steadyhand.toml"
)


class Judges:
    """One judge for all trials that are judged by the same model."""

    def __init__(self, models: Models, casts: Casts) -> None:
        self._models = models
        self._settings = casts.settings
        self._rubrics = casts.rubrics
        self._checks: dict[str, list[EvaluationSpec]] = {}
        self._built: dict[tuple[str, Path, str | None, bool, Path], Judge] = {}

    def get(self, cast: Cast) -> Judge | None:
        """The configured judge, else the model under test, else None. Raises `SetupError`."""
        decides, tested = cast.decides, cast.model and cast.model.value
        if decides is None:
            return None
        fixed = is_fixed(cast.judge)
        # With the folder of the scenario, because a `model_type` is resolved relative to it.
        key = (decides.value, decides.folder, tested, fixed, cast.folder)
        if key not in self._built:
            kind = cast.config.judge_kind or DEFAULT_KIND
            factory = cast.registry.judge(kind)
            name = self._models.get(decides, cast).name  # of a recording, that of the model it was made with
            settings = JudgeSettings(
                choose=self._models.chooser(decides, cast, fixed=fixed),
                name=name,
                tested=name if tested == decides.value else tested,
                votes=self._settings.votes,
                options=cast.config.judges.get(kind, {}),
            )
            self._built[key] = build_part(factory, settings, f"judge {kind}", Judge)
        return self._built[key]

    def rubric_scorer(self, cast: Cast) -> ScoreRubric | None:
        """A rubric is scored only by an explicitly configured judge, never by the model under test."""
        chosen = cast.judge
        rubric = self._rubrics.get(cast.scenario) if chosen is not None else None
        if chosen is None or rubric is None:
            return None
        judge = self.get(cast)

        async def score(materials: Sequence[Material], tier: LatencyTier | None, trial: TrialContext) -> RubricScore:
            if not isinstance(judge, RubricJudge):
                return RubricScore(name=rubric.name, reason=f"the judge {chosen.value} cannot score rubrics")
            return await judge.score(rubric, materials, trial, timeliness=timeliness_of(tier))

        return score

    def of_checks(self, cast: Cast) -> list[tuple[EvaluationSpec, Choice]]:
        """The checks that ask a judge, and which one. A check whose `model_type` cannot be resolved asks none."""
        if cast.decides is None:
            return []
        found: list[tuple[EvaluationSpec, Choice]] = []
        for spec in self._judged(cast):
            with suppress(SetupError):
                model_type = None if is_fixed(cast.judge) else _judged_by(spec)
                found.append((spec, cast.of_type(model_type, cast.decides)))
        return found

    def needed(self, cast: Cast) -> bool:
        """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
        return _has_judged_ending(cast.scenario) or bool(self._judged(cast))

    def unasked(self, cast: Cast) -> str | None:
        """What to set, if some check may have to ask a judge and none is named. Raises `SetupError`."""
        if cast.judge is not None:
            return None
        for spec in leaf_specs(cast.scenario):
            if explicit_judge_only(cast.registry.evaluator(spec.type)) and asks_judge(spec, cast.registry):
                return NO_NAMED_JUDGE
        return None

    def warnings(self, cast: Cast) -> list[str]:
        """Warnings about every model that judges something of the scenario, a rubric included. Raises `SetupError`
        with `--strict-judge`."""
        if cast.model is None or cast.decides is None:
            return []
        asked = [chosen for _, chosen in self.of_checks(cast)]
        if _has_judged_ending(cast.scenario) or (cast.scenario.rubric is not None and cast.judge is not None):
            asked.append(cast.decides)
        judges = {chosen.value: chosen for chosen in asked}.values()
        found = [said for judge in judges if (said := _partial(judge, cast.model, cast)) is not None]
        if found and self._settings.strict_judge:
            raise SetupError(f"--strict-judge: {cast.scenario.place}: {found[0]}")
        return found

    def overrides(self, cast: Cast) -> list[str]:
        """Notes where an option overrides a `model_type` of the scenario."""
        said: list[str] = []
        if cast.judge is not None and is_fixed(cast.judge):
            asked = [model_type for spec in self._judged(cast) if (model_type := _judged_by(spec))]
            option = "the matrix's judge" if cast.judge.chosen_by == "matrix" else "--judge"
            said += [_instead(option, cast.judge, model_type, cast) for model_type in asked]
        if cast.user is not None and is_fixed(cast.user):
            asked = user_model_types(cast.scenario)
            said += [_instead("--user-model", cast.user, model_type, cast) for model_type in asked]
        return [message for message in dict.fromkeys(said) if message]

    def _judged(self, cast: Cast) -> list[EvaluationSpec]:
        known = self._checks.get(cast.scenario.id)
        if known is None:
            registry, named = cast.registry, cast.judge is not None
            known = self._checks[cast.scenario.id] = [
                spec
                for spec in leaf_specs(cast.scenario)
                if asks_judge(spec, registry) and (named or not explicit_judge_only(registry.evaluator(spec.type)))
            ]
        return known


def is_fixed(chosen: Choice | None) -> bool:
    """Whether the judge, or the model of the user, overrides what checks and simulated users ask for themselves."""
    return chosen is not None and chosen.chosen_by in ("matrix", "user")


def _instead(option: str, given: Choice, model_type: str, cast: Cast) -> str:
    """Empty when both name the same model."""
    try:
        meant = cast.of_type(model_type, given).value
    except SetupError:
        meant = model_type
    if meant == given.value:
        return ""
    stands_for = "" if meant == model_type else f", which stands for {meant}"
    return f"{option} {given.value} is used in place of `model_type: {model_type}`{stands_for}"


def _partial(judge: Choice, tested: Choice, cast: Cast) -> str | None:
    """Why this judge may not be impartial, or None."""
    if judge.value == tested.value:
        advice = "name another one" if cast.judge else "give --judge for an independent one"
        return f"self-judged: {tested.value} is its own judge; {advice}"
    vendor = _vendor(judge, cast)
    if vendor == _vendor(tested, cast):
        return f"the judge {judge.value} and the model under test {tested.value} are from the same vendor, {vendor}"
    return None


def _vendor(chosen: Choice, cast: Cast) -> str:
    facts = ModelFacts()
    with suppress(SetupError):  # a stored trial is judged again without the provider of its model
        facts = model_facts(provider_part(chosen.provider, cast.config, cast.registry))
    return vendor_of(chosen.value, names_file=facts.names_file)


def needs_judge(scenario: Scenario, registry: Registry) -> bool:
    """Whether some check or condition of the scenario asks a judge. Raises `SetupError`."""
    return _has_judged_ending(scenario) or any(asks_judge(spec, registry) for spec in leaf_specs(scenario))


def asks_judge(spec: EvaluationSpec, registry: Registry) -> bool:
    """As declared by the check's evaluator. Raises `SetupError` if a plugin's declaration raises."""
    evaluator = registry.evaluator(spec.type)
    if not hasattr(evaluator, "needs_judge"):
        return False
    try:
        return declares_judge(evaluator, evaluator.params.model_validate(spec.params))
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        raise SetupError(
            f"{spec.place}: evaluator {spec.type!r} cannot say whether it needs a judge: {failure}"
        ) from error


def calls_model(spec: EvaluationSpec, registry: Registry) -> bool:
    """Whether a check asks a judge, or a model that embeds texts. Raises `SetupError`."""
    return asks_judge(spec, registry) or embedder_of(spec, registry) is not None


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
