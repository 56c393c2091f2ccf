"""Who plays in a scenario, chosen once: its agent, its models, its environment and its rubric, and from which registry.

`Casts` is the only place where they are chosen. Everything else reads the fields of a `Cast`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from steadyhand.compose.scenarios import ScenarioPlugins, ScenarioRegistries
from steadyhand.compose.settings import Settings
from steadyhand.errors import FileError, SetupError
from steadyhand.language.thoughts import DEFAULT_TAGS
from steadyhand.plugins.registry import Registry
from steadyhand.ports.evaluator import embeds_with
from steadyhand.records.base import Record
from steadyhand.records.config import Config
from steadyhand.records.evaluation import EvaluationSpec, Rubric
from steadyhand.records.location import Problem
from steadyhand.records.run import Target
from steadyhand.records.scenario import Converse, RunCode, Scenario, leaf_specs
from steadyhand.spec.config import SHIPPED
from steadyhand.spec.discovery import show_file
from steadyhand.spec.parts import part_of
from steadyhand.spec.validation import Findings
from steadyhand.spec.yaml import read_document
from steadyhand.suggestion import nearest

ChosenBy = Literal["matrix", "user", "scenario", "configuration", "default"]
"""In the order of precedence. The user's are the options of the command line and the arguments of the Python API."""
_Role = Literal["agent", "model", "judge", "user_model", "environment", "rubric"]
_ALIASES = ("TEXT_SMALL", "TEXT_LARGE")
DEFAULT_ENVIRONMENT = "local"
CHARACTER_MODEL = "character.llm.model"
_NOT_OF_THE_CELL = frozenset(("model", "agent", CHARACTER_MODEL))


class Choice(NamedTuple):
    """What was chosen for a role, by whom, and the folder that a path in it is relative to.

    A model's `value` is its full name: an `alias` of the configuration has been replaced, and the folder is that of the
    configuration. The value of a rubric is its file.
    """

    value: str
    chosen_by: ChosenBy
    folder: Path
    alias: bool = False

    @property
    def kind(self) -> str:
        """Of an agent, the part before the `:`."""
        return self.value.partition(":")[0]

    @property
    def provider(self) -> str:
        """Of a model, the part before the `/`."""
        return self.value.partition("/")[0]

    @property
    def is_authors(self) -> bool:
        """Whether the author of the scenario or of its matrix chose it, and not its user."""
        return self.chosen_by in ("matrix", "scenario")


class Cast(Record):
    """The cast of one scenario. None stands for a role that nobody chose.

    `plugins` are those that the scenario names, with the registry that has their parts. `trusted` is whether its files
    are the user's own. `model` is also chosen for a scenario that uses no agent, because it may judge.
    """

    scenario: Scenario
    config: Config
    plugins: ScenarioPlugins
    trusted: bool
    agent: Choice
    model: Choice | None
    judge: Choice | None
    user: Choice | None
    environment: Choice
    rubric: Choice | None

    @property
    def registry(self) -> Registry:
        return self.plugins.registry

    @property
    def tested(self) -> Choice | None:
        """The model under test."""
        return self.model if needs_agent(self.scenario) else None

    @property
    def decides(self) -> Choice | None:
        """The model that judges checks: the judge, else the model under test."""
        return self.judge or self.model

    @property
    def plays_user(self) -> Choice | None:
        return self.user or self.model

    @property
    def reaches_services(self) -> bool:
        """Whether its agent may call services. A plain question to a bare model does not need them."""
        setup, has = self.scenario.setup, self.registry.names
        offered = setup.mocks or setup.services or setup.database or has("actions") or has("services")
        return self.scenario.default_agent != "model" or bool(offered)

    @property
    def folder(self) -> Path:
        return _folder_of(self.scenario.place.file)

    @property
    def reasoning_tags(self) -> tuple[str, ...]:
        """The marks of thoughts: the scenario's, its agent's, those of its model's provider, or the usual ones."""
        of_agent = self.config.reasoning_tags.get(self.agent.kind)
        provider = None if self.model is None else self.config.providers.get(self.model.provider)
        return self.scenario.reasoning_tags or of_agent or (provider and provider.reasoning_tags) or DEFAULT_TAGS

    def named(self, name: str) -> Choice:
        """A model that a check or a simulated user names. Raises `SetupError` for a name without a provider."""
        return resolve_model(Choice(name, "scenario", self.folder), self.config)

    def of_type(self, model_type: str | None, default: Choice) -> Choice:
        """The model for a `model_type`. An alias that is not in the configuration means the default.

        Raises `SetupError` for a name without a provider.
        """
        if model_type is None or (model_type in _ALIASES and model_type not in self.config.models):
            return default
        return self.named(model_type)


class Casts:
    """Casts each scenario of a run, once."""

    def __init__(self, settings: Settings, registries: ScenarioRegistries) -> None:
        self.settings: Settings = settings
        self.registries: ScenarioRegistries = registries
        self.rubrics: Rubrics = Rubrics(settings)
        self._known: dict[str, Cast] = {}
        self._here: Path = Path.cwd()

    def of(self, scenario: Scenario) -> Cast:
        """Raises `SetupError` for a plugin that is not found, and for a model without a provider."""
        known = self._known.get(scenario.id)
        if known is None or known.scenario is not scenario:
            known = self._known[scenario.id] = self._cast(scenario)
        return known

    def all(self, scenarios: Iterable[Scenario]) -> list[Cast]:
        return [self.of(scenario) for scenario in scenarios]

    def _cast(self, scenario: Scenario) -> Cast:
        config = self.settings.config
        trusted = self.settings.project.trusts_scenario(scenario)
        agent = self.agent(scenario)
        if trusted and agent.chosen_by != "matrix":
            # Next to the scenario first: but not if the user's own agent could be replaced by a file of the same name
            # that came with a scenario from elsewhere.
            agent = agent._replace(folder=self.rubrics.beside(scenario.place.file))
        return Cast(
            scenario=scenario,
            config=config,
            plugins=self.registries.plugins(scenario),
            trusted=trusted,
            agent=agent,
            model=self._model("model", scenario),
            judge=self._model("judge", scenario),
            user=self._model("user_model", scenario),
            environment=self._chosen("environment", scenario) or self._default(DEFAULT_ENVIRONMENT),
            rubric=self._rubric(scenario),
        )

    def agent(self, scenario: Scenario) -> Choice:
        """For files that are only checked, whose other roles nobody plays yet."""
        return self._chosen("agent", scenario) or self._default(scenario.default_agent)

    def _chosen(self, role: _Role, scenario: Scenario) -> Choice | None:
        """By the first of these that says anything."""
        config = self.settings.config
        if (value := scenario.overrides.get(role)) is not None:
            set_in = scenario.place if scenario.cell is None else scenario.cell
            return Choice(value, "matrix", self.rubrics.beside(set_in.file))
        if (value := self._users(role, scenario)) is not None:
            return Choice(value, "user", self._here)
        if (value := _authors(role, scenario)) is not None:
            return Choice(value, "scenario", self.rubrics.beside(scenario.place.file))
        if (value := getattr(config, role, None)) is not None:
            return Choice(value, "configuration", config.folder)
        return None

    def _users(self, role: _Role, scenario: Scenario) -> str | None:
        """What the options say: one of several for each target."""
        return getattr(scenario.target, role, None) or getattr(self.settings.options, role)

    def _default(self, value: str) -> Choice:
        return Choice(value, "default", self.settings.config.folder)

    def _model(self, role: _Role, scenario: Scenario) -> Choice | None:
        chosen = self._chosen(role, scenario)
        return None if chosen is None else resolve_model(chosen, self.settings.config)

    def _rubric(self, scenario: Scenario) -> Choice | None:
        chosen = self._chosen("rubric", scenario)
        file = None if chosen is None else self.rubrics.file(scenario)
        return None if chosen is None or file is None else chosen._replace(value=str(file))


def _authors(role: _Role, scenario: Scenario) -> str | None:
    match role:
        case "model":
            return scenario.character.model if scenario.character is not None else None
        case "agent" | "environment" | "rubric":
            return getattr(scenario, role)
        case _:
            return None


def _folder_of(file: str) -> Path:
    return Path(file).absolute().parent


def resolve_model(choice: Choice, config: Config) -> Choice:
    """With an alias replaced by what it stands for. Raises `SetupError` for a name without a provider."""
    meant = config.models.get(choice.value)
    if meant is not None:
        choice = Choice(meant, choice.chosen_by, config.folder, alias=True)
    if "/" not in choice.value:
        known = f" (aliases here: {', '.join(sorted(config.models))})" if config.models else ""
        raise SetupError(
            f"model {choice.value!r} has no provider; write it as provider/model, such as openai/{choice.value}{known}"
        )
    return choice


def target_of(cast: Cast) -> Target:
    scenario = cast.scenario
    cell, base = scenario.cell, scenario.cell or scenario.target
    return Target(
        scenario=base.base_id if base is not None else scenario.id,
        model=cast.tested.value if cast.tested is not None else None,
        agent=cast.agent.value if needs_agent(scenario) else None,
        cell={each.parameter: each.value for each in cell.settings if each.parameter not in _NOT_OF_THE_CELL}
        if cell is not None
        else {},
    )


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step uses an agent; a scenario with only code steps needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)


def needs_user(scenario: Scenario) -> bool:
    """Whether a simulated user takes part; a conversation may be scripted alone."""
    return any(isinstance(step.task, Converse) and step.task.config.user_simulator for step in scenario.steps)


def termination_functions(scenario: Scenario) -> list[str]:
    return [
        condition.function
        for step in scenario.steps
        if isinstance(step.task, Converse)
        for condition in step.task.config.termination_conditions
        if condition.function is not None
    ]


def model_types(cast: Cast) -> list[str]:
    """The models, by alias or name, that its checks and its simulated user ask for."""
    asked = [spec.params.get("model_type") for spec in leaf_specs(cast.scenario)]
    asked += [name for name, _ in embedders(cast)]
    return sorted({name for name in (*asked, *user_model_types(cast.scenario)) if isinstance(name, str)})


def embedders(cast: Cast) -> list[tuple[str, EvaluationSpec]]:
    """The models, by alias or name, that its checks compare texts with, and the checks."""
    return [
        (name, spec)
        for spec in leaf_specs(cast.scenario)
        if cast.registry.has("evaluators", spec.type) and (name := embedder_of(spec, cast.registry)) is not None
    ]


def embedder_of(spec: EvaluationSpec, registry: Registry) -> str | None:
    evaluator = registry.evaluator(spec.type)
    if not hasattr(evaluator, "embeds_with"):  # hardly any does, and reading the parameters of a check takes time
        return None
    return embeds_with(evaluator, evaluator.params.model_validate(spec.params))


def user_model_types(scenario: Scenario) -> list[str]:
    """The models, by alias or name, that its simulated users ask for."""
    simulators = [step.task.config.user_simulator for step in scenario.steps if isinstance(step.task, Converse)]
    return [simulator.model_type for simulator in simulators if simulator is not None and simulator.model_type]


RUBRICS = SHIPPED / "rubrics"
_ENDINGS = (".yaml", ".yml")


class Rubrics:
    """Finds and reads each rubric file once."""

    def __init__(self, settings: Settings) -> None:
        config = settings.config
        configured = [config.folder / config.rubrics] if config.rubrics is not None else []
        self._folders: list[Path] = [*configured, RUBRICS]
        """Where rubrics are that are not next to their scenario."""
        self._found: dict[tuple[str, Path], Path | None] = {}
        self._read: dict[tuple[Path, str], Rubric] = {}
        self._beside: dict[str, Path] = {}

    def get(self, scenario: Scenario) -> Rubric | None:
        """The scenario's rubric, or None when it names none. Raises `FileError`."""
        if scenario.rubric is None:
            return None
        file = self.file(scenario)
        if file is None:
            raise FileError([self._missing(scenario.rubric, scenario)])
        key = (file, scenario.rubric.partition("#")[2])
        if key not in self._read:
            self._read[key] = _read(*key)
        return self._read[key]

    def file(self, scenario: Scenario) -> Path | None:
        """The path of the scenario's rubric; None if it names none, or one that is not found."""
        if (name := scenario.rubric) is None:
            return None
        beside = self.beside(scenario.place.file)
        if (name, beside) not in self._found:
            shared, part, _ = name.partition("#")
            if part:
                self._found[name, beside] = beside / shared
                return beside / shared
            files = (folder / f"{name}{ending}" for folder in (beside, *self._folders) for ending in _ENDINGS)
            self._found[name, beside] = next((file for file in files if file.is_file()), None)
        return self._found[name, beside]

    def beside(self, file: str) -> Path:
        """The folder of a file, kept because it is asked for several times."""
        if file not in self._beside:
            self._beside[file] = _folder_of(file)
        return self._beside[file]

    def check(self, scenarios: Iterable[Scenario], *, read: bool) -> list[Problem]:
        """A problem for each rubric that is not found; with `read`, also the problems in the files found."""
        problems: dict[Problem, None] = {}
        for scenario in scenarios:
            try:
                if read:
                    self.get(scenario)
                elif scenario.rubric is not None and self.file(scenario) is None:
                    problems[self._missing(scenario.rubric, scenario)] = None
            except FileError as error:
                problems |= dict.fromkeys(error.problems)
        return list(problems)

    def _missing(self, name: str, scenario: Scenario) -> Problem:
        known = {file.stem for folder in self._folders for ending in _ENDINGS for file in folder.glob(f"*{ending}")}
        near = nearest(name, sorted(known))
        hint = f"; did you mean `{near}`?" if near else ""
        shipped = ", ".join(sorted(file.stem for file in RUBRICS.glob("*.yaml")))
        message = (
            f"rubric {name!r} not found next to the scenario, in the folder that `rubrics` in steadyhand.toml names, "
            f"or among those that ship with Steadyhand{hint} (shipped: {shipped})"
        )
        return Problem(place=scenario.rubric_place or scenario.place, message=message, code="unknown-name")


def _read(file: Path, part: str) -> Rubric:
    """The rubric in a file of its own, or a part of a file with shared ones. Raises `FileError`."""
    from steadyhand.spec.rubric import read_rubric  # most runs score no rubric

    document, faults = read_document(str(file), show_file(str(file), str(Path.cwd())))
    if document is None:
        raise FileError(faults)
    found = part_of(document, "rubrics", part) if part else document
    findings = Findings(found or document, faults)
    if found is None:
        findings.error(("rubrics",), f"has no `{part}`", "unknown-name")
        raise FileError(findings.problems)
    rubric = read_rubric(found, findings)
    if rubric is None:
        raise FileError(findings.problems)
    return rubric
