"""Loads scenarios from paths, with all problems in all files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhand.batch.plan import select
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.compose.settings import Settings, check_parts
from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.plugin import Plugin
from steadyhand.plugins.registry import EnvironmentNames, EvaluationCatalogue, InstalledPlugins, Registry
from steadyhand.records.config import Config, Selection
from steadyhand.records.evaluation import Rubric
from steadyhand.records.location import Place, Problem
from steadyhand.records.run import Target
from steadyhand.records.scenario import Converse, PluginRef, RunCode, Scenario, evaluation_specs
from steadyhand.redaction import Redactor
from steadyhand.spec.agent import Vocabulary
from steadyhand.spec.config import SHIPPED, Project, files_of
from steadyhand.spec.discovery import show_file
from steadyhand.spec.load import Loaded, load
from steadyhand.spec.validation import Findings
from steadyhand.spec.yaml import read_document
from steadyhand.suggestion import nearest

CHARACTER_MODEL = "character.llm.model"
_NOT_OF_THE_CELL = frozenset(("model", "agent", CHARACTER_MODEL))


class _Found(NamedTuple):
    registry: Registry
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()


class ScenarioRegistries:
    """Plugins are found once for all scenarios of a folder that name the same ones.

    With `checking`, nothing that a file names is imported or called. Files and modules named by a file from outside the
    `project` are never imported here; what they provide stays unknown, and the run is refused later.
    """

    def __init__(
        self,
        base: Registry,
        *,
        live: bool = False,
        installed: InstalledPlugins | None = None,
        project: Project | None = None,
        checking: bool = False,
    ) -> None:
        self.base: Registry = base
        self.checking: bool = checking
        self._project: Project | None = project
        self._live: bool = live
        self._installed: InstalledPlugins | None = installed
        self._known: dict[tuple[Path, bytes, bool], _Found] = {}

    def registry(self, scenario: Scenario) -> Registry:
        """Raises `SetupError` for a plugin that is not found."""
        return self._resolved(scenario.plugins, *files_of(scenario)).registry

    def warnings(self, scenario: Scenario) -> tuple[str, ...]:
        return self._resolved(scenario.plugins, *files_of(scenario)).warnings

    def missing(self, scenario: Scenario) -> tuple[str, ...]:
        """The plugins that it names and that are not installed."""
        return self._resolved(scenario.plugins, *files_of(scenario)).missing

    def unloaded(self, scenario: Scenario) -> tuple[str, ...]:
        """The plugins that it names and that were not loaded, because their code must not be executed."""
        return self._resolved(scenario.plugins, *files_of(scenario)).unloaded

    def vocabulary(self, refs: Sequence[PluginRef], file: str, *also: str) -> Vocabulary:
        """The known types for a file that names these plugins; `also` is the matrix that may have added the names."""
        found = self._resolved(refs, file, *also)
        return Vocabulary(EvaluationCatalogue(found.registry), EnvironmentNames(found.registry), found.unloaded)

    def _resolved(self, refs: Sequence[PluginRef], file: str, *also: str) -> _Found:
        if not refs:
            return _Found(self.base)
        folder = Path(file).absolute().parent
        trusted = self._project is None or self._project.trusts(file, *also)
        named = msgspec.json.encode([(ref.name, ref.version, ref.enabled, ref.config) for ref in refs])
        key = (folder, named, trusted)
        if key not in self._known:
            self._known[key] = self._found(refs, folder, trusted=trusted)
        return self._known[key]

    def _found(self, refs: Sequence[PluginRef], folder: Path, *, trusted: bool) -> _Found:
        from steadyhand.plugins.resolve import names_code, resolve_plugins

        self._installed = self._installed or InstalledPlugins()
        held_back = [] if trusted or self.checking else [ref for ref in refs if ref.enabled and names_code(ref.name)]
        resolved = resolve_plugins(
            [ref for ref in refs if ref not in held_back],
            folder=folder,
            live=self._live,
            installed=self._installed,
            execute=not self.checking,
        )
        return _Found(
            self.base.extended(resolved.plugins),
            resolved.warnings,
            resolved.missing,
            (*resolved.unloaded, *(ref.name for ref in held_back)),
        )


class Given(NamedTuple):
    """What a Python caller passes as objects: `data` with the structure of a scenario file, scenarios, and plugins for
    all of them."""

    data: tuple[Mapping[str, Any], ...] = ()
    scenarios: tuple[Scenario, ...] = ()
    plugins: tuple[Plugin, ...] = ()


NOTHING_GIVEN = Given()


def build_registry() -> Registry:
    """Only the built-in parts."""
    return Registry([builtin_plugin()])


def open_registries(settings: Settings, given: Given = NOTHING_GIVEN, *, checking: bool = False) -> ScenarioRegistries:
    """The built-in parts, those of `--plugin`, of the configuration's `plugins` and of `given`, and what is installed.

    When `checking`, nothing that a scenario names will be imported or called.

    Raises `SetupError` for a plugin that is not found, `FileError` for options that no part takes.
    """
    installed = InstalledPlugins()
    base = Registry([builtin_plugin()], functools.cache(lambda: _installed_plugins(installed)))
    config, live = settings.config, settings.options.live
    if config.plugins or settings.options.plugins:
        from steadyhand.plugins.resolve import resolve_plugins

        place = Place(file="--plugin")
        named = [PluginRef(name=name, place=place) for name in settings.options.plugins]
        for refs, folder in ((config_plugins(config), config.folder), (named, Path.cwd())):
            base = base.extended(resolve_plugins(refs, folder=folder, live=live, installed=installed).plugins)
    if given.plugins:
        base = base.extended(given.plugins)
    check_parts(config, base)
    return ScenarioRegistries(base, live=live, installed=installed, project=settings.project, checking=checking)


def config_plugins(config: Config) -> list[PluginRef]:
    place = Place(file=str(config.file))
    return [
        PluginRef(name=each.name, place=place, version=each.version, enabled=each.enabled, config=each.config)
        for each in config.plugins
    ]


def _installed_plugins(installed: InstalledPlugins) -> list[Plugin]:
    if not installed.names():
        return []
    from steadyhand.plugins.resolve import installed_plugins

    return installed_plugins(installed)


LIBRARY = SHIPPED / "scenarios"


def load_files(paths: Sequence[str], registries: ScenarioRegistries, given: Given = NOTHING_GIVEN) -> Loaded:
    """Load everything the paths name, and what is given as data. `@clinical` is a library that ships with Steadyhand.
    Problems are part of the result.
    """
    base = registries.base
    return load(
        [library_path(path) for path in paths],
        catalogue=EvaluationCatalogue(base),
        environments=EnvironmentNames(base),
        extend=registries.vocabulary,
        given=given.data,
    )


def library_path(path: str) -> str:
    """Raises `SetupError` for an unknown library."""
    if not path.startswith("@"):
        return path
    folder = LIBRARY / path[1:]
    known = sorted(entry.name for entry in LIBRARY.iterdir() if entry.is_dir())
    if folder.parent != LIBRARY or folder.name not in known:
        raise SetupError(f"unknown library {path!r}; available: {', '.join(f'@{name}' for name in known)}")
    return str(folder)


def load_scenarios(
    selection: Selection,
    registries: ScenarioRegistries,
    given: Given = NOTHING_GIVEN,
    *,
    models: Sequence[str] = (),
    agents: Sequence[str] = (),
    note: Callable[[str], None] | None = None,
) -> list[Scenario]:
    """The selected scenarios, one for each target if there are several `models` or `agents`. `note` is told what was
    passed over.

    Raises `FileError` with every error of every file, `SetupError` when none is left.
    """
    loaded = load_files(selection.paths, registries, given)
    combinations, problems = combinations_of(loaded, registries)
    if loaded.errors or problems:
        raise FileError([*loaded.errors, *problems])
    if note is not None:
        for each in loaded.notes:
            note(each)
    scenarios = [*loaded.scenarios, *combinations, *given.scenarios]
    if given.scenarios:
        _refuse_same_ids(scenarios)
    if models or agents:
        from steadyhand.compose.targets import for_each_target

        scenarios = for_each_target(scenarios, models, agents)
    if selection.filters:
        from steadyhand.compose.matrices import filter_combinations

        scenarios = filter_combinations(scenarios, selection.filters)
    if selection.ids:
        scenarios = _with_ids(scenarios, selection.ids)
    chosen = select(scenarios, tags=selection.tags, expression=selection.expression)
    if not chosen:
        raise SetupError(_nothing(selection, len(scenarios)))
    return chosen


def _with_ids(scenarios: Sequence[Scenario], ids: Sequence[str]) -> list[Scenario]:
    """Raises `SetupError` for an id that no scenario has."""
    known = {scenario.id for scenario in scenarios}
    for wanted in ids:
        if wanted not in known:
            near = nearest(wanted, sorted(known))
            raise SetupError(f"no scenario has the id {wanted!r}" + (f"; did you mean {near!r}?" if near else ""))
    return [scenario for scenario in scenarios if scenario.id in set(ids)]


def _refuse_same_ids(scenarios: Sequence[Scenario]) -> None:
    """Raises `FileError`. Duplicates among files were found when they were loaded."""
    first: dict[str, Scenario] = {}
    for scenario in scenarios:
        earlier = first.setdefault(scenario.id, scenario)
        if earlier is not scenario:
            message = f"id `{scenario.id}` is already used at {earlier.place}; ids must be unique within a run"
            raise FileError([Problem(place=scenario.place, message=message, code="duplicate-id")])


def combinations_of(loaded: Loaded, registries: ScenarioRegistries) -> tuple[list[Scenario], list[Problem]]:
    """The combinations of the matrices among the files, and their problems."""
    if not loaded.matrices:
        return [], []
    from steadyhand.compose.matrices import expand_matrices

    return expand_matrices(loaded, registries)


def _nothing(selection: Selection, found: int) -> str:
    filters = [f"--tag {tag}" for tag in selection.tags]
    if selection.expression:
        filters.append(f"-k {selection.expression!r}")
    if filters and found:
        many = "the scenario does not match" if found == 1 else f"none of the {found} scenarios matches"
        return f"{many} {' '.join(filters)}; `steadyhand list` shows names and tags"
    return f"no scenarios in {', '.join(selection.paths) or 'what was given'}"


RUBRICS = SHIPPED / "rubrics"
_ENDINGS = (".yaml", ".yml")


class Rubrics:
    """Finds and reads each rubric file once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[tuple[str, Path, Path | None], Path | None] = {}
        self._read: dict[Path, Rubric] = {}

    def get(self, scenario: Scenario) -> Rubric | None:
        """The scenario's rubric, or None when it names none. Raises `FileError`."""
        if scenario.rubric is None:
            return None
        file = self.file(scenario)
        if file is None:
            raise FileError([self._missing(scenario.rubric, scenario)])
        if file not in self._read:
            self._read[file] = _read(file)
        return self._read[file]

    def file(self, scenario: Scenario) -> Path | None:
        """The path of the scenario's rubric; None if it names none, or one that is not found."""
        return None if scenario.rubric is None else self._find(scenario.rubric, scenario)

    def check(self, scenarios: Iterable[Scenario], *, read: bool) -> list[Problem]:
        """A problem for each rubric that is not found; with `read`, also the problems in the files found."""
        problems: dict[Problem, None] = {}
        for scenario in scenarios:
            if scenario.rubric is None:
                continue
            try:
                if self._find(scenario.rubric, scenario) is None:
                    problems[self._missing(scenario.rubric, scenario)] = None
                elif read:
                    self.get(scenario)
            except FileError as error:
                problems |= dict.fromkeys(error.problems)
        return list(problems)

    def _find(self, name: str, scenario: Scenario) -> Path | None:
        beside = Path(scenario.place.file).absolute().parent
        config = self._settings.config
        configured = config.folder / config.rubrics if config.rubrics is not None else None
        key = (name, beside, configured)
        if key not in self._found:
            files = (folder / f"{name}{ending}" for folder in _folders(beside, configured) for ending in _ENDINGS)
            self._found[key] = next((file for file in files if file.is_file()), None)
        return self._found[key]

    def _missing(self, name: str, scenario: Scenario) -> Problem:
        config = self._settings.config
        configured = config.folder / config.rubrics if config.rubrics is not None else None
        folders = _folders(Path(scenario.place.file).absolute().parent, configured)
        known = {file.stem for folder in folders[1:] for ending in _ENDINGS for file in folder.glob(f"*{ending}")}
        near = nearest(name, sorted(known))
        hint = f"; did you mean `{near}`?" if near else ""
        shipped = ", ".join(sorted(file.stem for file in RUBRICS.glob("*.yaml")))
        message = (
            f"rubric {name!r} not found next to the scenario, in the folder that `rubrics` in steadyhand.toml names, "
            f"or among those that ship with Steadyhand{hint} (shipped: {shipped})"
        )
        return Problem(place=scenario.rubric_place or scenario.place, message=message, code="unknown-name")


def _folders(beside: Path, configured: Path | None) -> list[Path]:
    return [beside, *([configured] if configured is not None else []), RUBRICS]


def _read(file: Path) -> Rubric:
    from steadyhand.spec.rubric import read_rubric  # most runs score no rubric

    document, faults = read_document(str(file), show_file(str(file), str(Path.cwd())))
    if document is None:
        raise FileError(faults)
    findings = Findings(document, faults)
    rubric = read_rubric(document, findings)
    if rubric is None:
        raise FileError(findings.problems)
    return rubric


def with_safe_ids(scenarios: Sequence[Scenario], redactor: Redactor) -> list[Scenario]:
    """The same scenarios with secrets in their ids masked, and the ids still unique.

    A trial's record is found by its id, so the id must be the same before and after secrets are removed from the
    record.
    """
    taken = {scenario.id for scenario in scenarios}
    safe: list[Scenario] = []
    for scenario in scenarios:
        name = blotted = redactor.text(scenario.id)
        if blotted != scenario.id:
            number = 1
            while name in taken:
                number += 1
                name = f"{blotted}~{number}"
            taken.add(name)
        safe.append(scenario if name == scenario.id else msgspec.structs.replace(scenario, id=name))
    return safe


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step uses an agent; a scenario with only code steps needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)


def target_of(scenario: Scenario, settings: Settings) -> Target:
    """Raises `SetupError` for a model without a provider."""
    cell, choice = scenario.cell, scenario.target
    asked = needs_agent(scenario)
    model = settings.model(scenario) if asked else None
    base = cell or choice
    return Target(
        scenario=base.base_id if base is not None else scenario.id,
        model=model.name if model is not None else None,
        agent=settings.agent(scenario) if asked else None,
        cell={each.parameter: each.value for each in cell.settings if each.parameter not in _NOT_OF_THE_CELL}
        if cell is not None
        else {},
    )


def needs_services(scenario: Scenario, registry: Registry) -> bool:
    """A plain question to a bare model does not need them."""
    return scenario.default_agent != "model" or offers_tools(scenario, registry)


def offers_tools(scenario: Scenario, registry: Registry) -> bool:
    """Whether there is a service or an action that an agent can call."""
    setup = scenario.setup
    return bool(
        setup.mocks or setup.services or setup.database or registry.names("actions") or registry.names("services")
    )


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


def model_types(scenario: Scenario) -> list[str]:
    """The models, by alias or name, that its checks and its simulated user ask for."""
    asked = [spec.params.get("model_type") for spec in evaluation_specs(scenario)]
    return sorted({name for name in (*asked, *user_model_types(scenario)) if isinstance(name, str)})


def user_model_types(scenario: Scenario) -> list[str]:
    """The models, by alias or name, that its simulated users ask for."""
    simulators = [step.task.config.user_simulator for step in scenario.steps if isinstance(step.task, Converse)]
    return [simulator.model_type for simulator in simulators if simulator is not None and simulator.model_type]
