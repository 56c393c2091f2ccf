"""Loads scenarios from paths, with all problems in all files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import PluginRef, Scenario
from steadyhand.redaction import Redactor
from steadyhand.spec.agent import Vocabulary
from steadyhand.spec.config import SHIPPED, Project, files_of, read_defaults
from steadyhand.spec.load import Loaded, load
from steadyhand.spec.yaml import Document
from steadyhand.suggestion import nearest


class ScenarioPlugins(NamedTuple):
    """The registry of a scenario, and what is to be said of the plugins that it names: those that are not installed,
    and those that were not loaded, because their code must not be executed."""

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
        defaults: Document | None = None,
    ) -> None:
        self.base: Registry = base
        self.checking: bool = checking
        self.defaults: Document | None = defaults
        """What the project's scenarios say that do not say otherwise."""
        self._project: Project | None = project
        self._live: bool = live
        self._installed: InstalledPlugins | None = installed
        self._known: dict[tuple[Path, bytes, bool], ScenarioPlugins] = {}

    def plugins(self, scenario: Scenario) -> ScenarioPlugins:
        """Raises `SetupError` for a plugin that is not found."""
        return self._resolved(scenario.plugins, files_of(scenario))

    def registry(self, scenario: Scenario) -> Registry:
        """The same without what is to be said, for whoever has no cast."""
        return self.plugins(scenario).registry

    def vocabulary(self, refs: Sequence[PluginRef], files: Sequence[str]) -> Vocabulary:
        """The known types where these files name these plugins, which are found beside the first."""
        found = self._resolved(refs, files)
        return Vocabulary(EvaluationCatalogue(found.registry), EnvironmentNames(found.registry), found.unloaded)

    def _resolved(self, refs: Sequence[PluginRef], files: Sequence[str]) -> ScenarioPlugins:
        if not refs:
            return ScenarioPlugins(self.base)
        folder = Path(files[0]).absolute().parent
        trusted = self._project is None or self._project.trusts(*files)
        named = msgspec.json.encode([(ref.name, ref.version, ref.enabled, ref.config) for ref in refs])
        key = (folder, named, trusted)
        if key not in self._known:
            self._known[key] = self._plugins_of(refs, folder, trusted=trusted)
        return self._known[key]

    def _plugins_of(self, refs: Sequence[PluginRef], folder: Path, *, trusted: bool) -> ScenarioPlugins:
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
        return ScenarioPlugins(
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
    return ScenarioRegistries(
        base,
        live=live,
        installed=installed,
        project=settings.project,
        checking=checking,
        defaults=read_defaults(config),
    )


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
        defaults=registries.defaults,
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
        from steadyhand.compose.matrices import for_each_target

        scenarios = for_each_target(scenarios, models, agents)
    if selection.filters:
        from steadyhand.compose.matrices import filter_combinations

        scenarios = filter_combinations(scenarios, selection.filters)
    if selection.variants or selection.faults:
        from steadyhand.compose.variants import with_variants

        scenarios = with_variants(scenarios, note, variants=selection.variants, faults=selection.faults)
    chosen = _with_ids(scenarios, selection.ids) if selection.ids else scenarios
    chosen = select(chosen, tags=selection.tags, expression=selection.expression)
    if not chosen:
        raise SetupError(_nothing(selection, len(scenarios)))
    if selection.variants or selection.faults:
        from steadyhand.compose.variants import with_originals

        return with_originals(chosen, scenarios)
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


def with_safe_ids(scenarios: Sequence[Scenario], redactor: Redactor) -> list[Scenario]:
    """The same scenarios with secrets in their ids masked, and the ids still unique.

    A trial's record is found by its id, so the id must be the same before and after secrets are removed from the
    record.
    """
    taken = {scenario.id for scenario in scenarios}
    renamed: dict[str, str] = {}
    for scenario in scenarios:
        name = blotted = redactor.text(scenario.id)
        if blotted != scenario.id:
            number = 1
            while name in taken:
                number += 1
                name = f"{blotted}~{number}"
            taken.add(name)
            renamed[scenario.id] = name
    return [_renamed(scenario, renamed) for scenario in scenarios] if renamed else list(scenarios)


def _renamed(scenario: Scenario, names: Mapping[str, str]) -> Scenario:
    variant = scenario.variant
    if variant is not None:
        variant = msgspec.structs.replace(variant, original=names.get(variant.original, variant.original))
    return msgspec.structs.replace(scenario, id=names.get(scenario.id, scenario.id), variant=variant)
