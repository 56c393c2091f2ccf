"""Settings of a scenario: command line over scenario over configuration over defaults.

Also the configuration of parts: custom providers, and the options of parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from steadyhand.engine.model_call import STALL_LIMIT_S, WAIT_LIMIT_S
from steadyhand.errors import FileError, SetupError
from steadyhand.language.thoughts import DEFAULT_TAGS
from steadyhand.plugins.plugin import ModelFactory, Options, options_of
from steadyhand.plugins.registry import ExtensionPoint, Registry, unknown_part
from steadyhand.ports.model import ModelFacts
from steadyhand.records.base import Record
from steadyhand.records.config import Config, ProviderConfig, RunOptions, Selection
from steadyhand.records.isolation import IsolationChoice
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import (
    Redactor,
    maskable,
    secrets_in_command,
    secrets_in_table,
    secrets_in_url,
    secrets_of,
    secrets_of_process,
)
from steadyhand.spec.config import Project, config_problem, find_config, other_configs, read_config
from steadyhand.spec.discovery import show_file
from steadyhand.spec.validation import FieldPath, Findings, validate
from steadyhand.suggestion import nearest

DEFAULT_OUT = Path(".steadyhand/runs")
DEFAULT_ENVIRONMENT = "local"
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_RETRIES = 2
DEFAULT_CONCURRENCY = 8
ALIASES = ("TEXT_SMALL", "TEXT_LARGE")
DEFAULT_TYPE = "openai"
"""The interface of a custom provider unless its `type` says otherwise."""
_TABLES: tuple[ExtensionPoint, ...] = ("agents", "environments", "judges", "users")
_SIMILAR = 0.75


def under_test(models: Sequence[str], agents: Sequence[str]) -> dict[str, Any]:
    """In the form that `RunOptions` uses. Raises `SetupError` for a duplicate."""
    chosen: dict[str, Any] = {}
    for option, names in (("model", models), ("agent", agents)):
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise SetupError(f"--{option} {twice[0]} is given twice; name each target once")
        chosen |= {f"{option}s": tuple(names)} if len(names) > 1 else {option: next(iter(names), None)}
    return chosen


def save_options(selection: Selection, options: RunOptions, *, objects: bool = False) -> dict[str, Any]:
    """Plain data for the header of the run, from which `restore_options` restores both.

    `objects` is whether the run was given scenarios or parts as objects, which a record cannot store. Trust is not
    stored: a resume requires it again.
    """
    options = msgspec.structs.replace(options, trust=False)
    saved: dict[str, Any] = {"folder": Path.cwd(), "selection": selection, "options": options}
    if objects:
        saved["objects"] = True
    return msgspec.to_builtins(saved, enc_hook=str)


def restore_options(saved: dict[str, Any]) -> tuple[Path, Selection, RunOptions]:
    """The folder that the run was started in, what it was to run, and how.

    Raises `SetupError` if the record does not have what a resume needs.
    """
    if saved.get("objects"):
        raise SetupError(
            "the run was started from Python with scenarios, an agent or plugins that are Python objects; "
            "run them again from Python"
        )
    try:
        return (
            Path(saved["folder"]),
            msgspec.convert(saved["selection"], Selection),
            msgspec.convert(saved["options"], RunOptions, dec_hook=_path),
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise SetupError(
            f"the run was recorded by a version that did not store what a resume needs: {error}"
        ) from error


def _path(kind: type, value: Any) -> Any:
    return kind(value) if kind is Path else value


class ModelRef(Record):
    """A model by name, and the folder that a path in the name is relative to."""

    name: str
    folder: Path


class Settings:
    """The effective settings of each scenario. One run has one configuration; it and the environment file are read
    once."""

    def __init__(self, options: RunOptions) -> None:
        """Raises `SetupError` if the configuration is missing, `FileError` if it is invalid."""
        self.options: RunOptions = options
        self.config: Config = self._read_config()
        self.project: Project = Project(self.config, trust=options.trust)
        self._variables: Mapping[str, str] | None = None

    def notes(self, scenarios: Sequence[Scenario]) -> list[str]:
        """Notes on configuration that exists but has no effect in this run."""
        return [*self._ignored_configs(scenarios), *self._unused_services(scenarios)]

    def _unused_services(self, scenarios: Iterable[Scenario]) -> list[str]:
        """Service tables that match no scenario, if some scenario has a service without a table: the name may be
        misspelt. These are only notes, because this run may have only some of the scenarios."""
        tables = self.config.services
        if not tables:
            return []
        there = {service.name for scenario in scenarios for service in scenario.setup.services}
        without = sorted(there - tables.keys())
        notes: list[str] = []
        for name in tables.keys() - there if without else ():
            near = nearest(name, without)
            hint = f"did you mean {near!r}?" if near else f"without options: {', '.join(without)}"
            place = config_problem(self.config, ("services", name), "", "unknown-name").place
            notes.append(f"{place}: no scenario has the service {name!r}, so its options are not used; {hint}")
        return sorted(notes)

    def _ignored_configs(self, scenarios: Iterable[Scenario]) -> list[str]:
        """A note for each configuration file next to or above a scenario that is not used in this run."""
        if self.options.ignore_config:
            return []
        here = Path.cwd()
        folders = {Path(file).absolute().parent for file in {scenario.place.file for scenario in scenarios}}
        used = "no configuration" if self.config.file is None else show_file(str(self.config.file), str(here))
        return [
            f"{show_file(str(file), str(here))} is ignored: this run uses {used}; choose another with --config"
            for file in other_configs(folders, here, used=self.config.file)
        ]

    def _read_config(self) -> Config:
        """Raises `SetupError` if the requested file does not exist, `FileError` if it is invalid."""
        file = self.options.config
        if file is None:
            return Config(folder=Path.cwd()) if self.options.ignore_config else find_config(Path.cwd())
        if not file.is_file():
            raise SetupError(f"configuration file {file}: no such file")
        return read_config(file)

    @property
    def out(self) -> Path:
        if self.options.out is not None:
            return self.options.out
        return self.config.folder / self.config.out if self.config.out else DEFAULT_OUT

    @property
    def concurrency(self) -> int:
        return self.options.concurrency or self.config.concurrency or DEFAULT_CONCURRENCY

    @property
    def workers(self) -> int:
        """How many processes run trials; 1 is this one."""
        return self.options.workers or 1

    @property
    def seed(self) -> int | None:
        return self.options.seed if self.options.seed is not None else self.config.seed

    @property
    def timeout_s(self) -> float:
        return self.options.timeout_s or self.config.timeout_s or DEFAULT_TIMEOUT_S

    @property
    def retries(self) -> int:
        for value in (self.options.retries, self.config.retries):
            if value is not None:
                return value
        return DEFAULT_RETRIES

    @property
    def wait_limit_s(self) -> float:
        return self.options.wait_limit_s or self.config.wait_limit_s or WAIT_LIMIT_S

    @property
    def stall_limit_s(self) -> float:
        return self.options.stall_limit_s or self.config.stall_limit_s or STALL_LIMIT_S

    def agent(self, scenario: Scenario) -> str:
        chosen = scenario.overrides.get("agent") or self._users_agent(scenario)
        return chosen or scenario.agent or self.config.agent or scenario.default_agent

    def agent_is_scenarios(self, scenario: Scenario) -> bool:
        """Whether the scenario or its matrix chose the agent, and not the user."""
        if "agent" in scenario.overrides:
            return True
        return self._users_agent(scenario) is None and scenario.agent is not None

    def _users_agent(self, scenario: Scenario) -> str | None:
        """The agent given on the command line, one of several for each target."""
        return (scenario.target.agent if scenario.target is not None else None) or self.options.agent

    def users_model(self, scenario: Scenario) -> str | None:
        """The model given on the command line, one of several for each target."""
        return (scenario.target.model if scenario.target is not None else None) or self.options.model

    def agent_folder(self, scenario: Scenario) -> Path:
        """Where files and modules of its agent are searched for first: next to the scenario, if that is in the project.

        Otherwise the user's own agent could be replaced by a file of the same name that came with the scenario.
        """
        if self.project.trusts_scenario(scenario):
            return folder_of(scenario, "agent")
        return Path.cwd() if self._users_agent(scenario) is not None else self.config.folder

    def environment(self, scenario: Scenario) -> str:
        return self.options.environment or scenario.environment or self.config.environment or DEFAULT_ENVIRONMENT

    def model(self, scenario: Scenario) -> ModelRef | None:
        """The model under test, with aliases resolved; None if none is set."""
        if "model" in scenario.overrides:
            return self._resolve(scenario.overrides["model"], folder_of(scenario, "model"))
        asked = self.users_model(scenario)
        if asked is not None:
            return self._resolve(asked, Path.cwd())
        if scenario.character is not None and scenario.character.model is not None:
            return self.named(scenario.character.model, scenario)
        return self._configured(self.config.model)

    def judge(self, scenario: Scenario) -> ModelRef | None:
        """The configured judge; None if none is set."""
        if "judge" in scenario.overrides:
            return self._resolve(scenario.overrides["judge"], folder_of(scenario, "judge"))
        return self._role(self.options.judge, self.config.judge)

    def user_model(self, scenario: Scenario) -> ModelRef | None:
        """The model that plays the user: the one named, else the model under test."""
        return self._role(self.options.user_model, self.config.user_model) or self.model(scenario)

    def named(self, name: str, scenario: Scenario) -> ModelRef:
        """A model that the scenario itself names. Raises `SetupError` for a name without a provider."""
        return self._resolve(name, Path(scenario.place.file).absolute().parent)

    def of_type(self, model_type: str | None, default: ModelRef, scenario: Scenario) -> ModelRef:
        """The model for a `model_type`. An alias that is not in the configuration means the default.

        Raises `SetupError` for a name without a provider.
        """
        if model_type is None or (model_type in ALIASES and model_type not in self.config.models):
            return default
        return self.named(model_type, scenario)

    def reasoning_tags(self, scenario: Scenario) -> tuple[str, ...]:
        """The marks of thoughts: the scenario's, its agent's, those of its model's provider, or the usual ones."""
        agent = self.config.reasoning_tags.get(self.agent(scenario).partition(":")[0])
        model = self.model(scenario)
        provider = None if model is None else self.config.providers.get(model.name.partition("/")[0])
        return scenario.reasoning_tags or agent or (provider and provider.reasoning_tags) or DEFAULT_TAGS

    @property
    def strict_judge(self) -> bool:
        return self.options.strict_judge or bool(self.config.strict_judge)

    @property
    def sandbox(self) -> bool:
        return self.options.sandbox or bool(self.config.sandbox)

    @property
    def isolation(self) -> IsolationChoice:
        return self.options.isolation or self.config.isolation or "auto"

    @property
    def agent_can_read(self) -> tuple[str, ...]:
        """Absolute paths, of the command line and the configuration."""
        given = [Path(path).absolute() for path in self.options.agent_can_read]
        return tuple(
            str(path) for path in (*given, *(self.config.folder / each for each in self.config.agent_can_read))
        )

    @property
    def allow_commands(self) -> bool:
        return self.options.allow_commands or bool(self.config.allow_commands)

    @property
    def votes(self) -> int:
        return self.options.votes or self.config.votes or 1

    @property
    def variables(self) -> Mapping[str, str]:
        """The process's environment, with the variables of the environment file over it."""
        if self._variables is None:
            file = self.options.env_file
            if file is None and self.config.env_file is not None and not self.options.ignore_env_file:
                file = self.config.folder / self.config.env_file
            self._variables = {**os.environ, **_read_env(file)} if file else dict(os.environ)
        return self._variables

    def plain_keys(self, models: Iterable[str]) -> list[str]:
        """The variables with keys of these models' providers that cannot be masked."""
        found: list[str] = []
        for provider in dict.fromkeys(model.partition("/")[0] for model in models):
            table = self.config.providers.get(provider)
            variable = (table.api_key_env if table is not None else None) or f"{provider.upper()}_API_KEY"
            value = self.variables.get(variable, "").strip()
            if value and not maskable(value):
                found.append(variable)
        return found

    def redactor(self, scenarios: Iterable[Scenario] = ()) -> Redactor:
        """The redactor for all secrets of the run."""
        return Redactor(self.secrets(scenarios))

    def secrets(self, scenarios: Iterable[Scenario] = ()) -> frozenset[str]:
        """Secrets from the environment and the environment file, and those that settings and scenarios name or
        contain."""
        named = [provider.api_key_env for provider in self.config.providers.values()]
        named += [table.get("api_key_env") for table in self.config.services.values()]
        found = secrets_of(os.environ)
        found |= secrets_of_process(self.variables, [name for name in named if isinstance(name, str)])
        config = self.config
        tables = [each.options for each in config.providers.values()]
        for kind in (config.agents, config.services, config.environments, config.judges, config.users):
            tables += kind.values()
        for table in tables:
            found |= secrets_in_table(table)
        plugins = {id(each): each for each in config.plugins}
        agents = {self.options.agent, *self.options.agents, config.agent}
        for scenario in scenarios:
            agents |= {scenario.agent, scenario.overrides.get("agent")}
            plugins |= {id(each): each for each in scenario.plugins}
            database = scenario.setup.database
            found |= secrets_in_url(database.url) if database is not None and database.url else frozenset()
            for service in scenario.setup.services:
                found |= secrets_in_url(service.mcp) if service.has_url else secrets_in_command(service.mcp)
        for agent in agents:
            found |= secrets_in_command((agent or "").partition(":")[2])
        for plugin in plugins.values():
            found |= secrets_in_table(plugin.config)
        return found

    def own_servers(self, providers: Mapping[str, ModelFacts]) -> tuple[str, ...]:
        """The providers with a custom base URL, for whose models list prices do not apply."""
        configured = {name for name, provider in self.config.providers.items() if provider.base_url}
        by_variable = {name for name, facts in providers.items() if self.variables.get(facts.base_url_variable)}
        return tuple(sorted(configured | by_variable))

    def _role(self, option: str | None, configured: str | None) -> ModelRef | None:
        return self._resolve(option, Path.cwd()) if option is not None else self._configured(configured)

    def _configured(self, name: str | None) -> ModelRef | None:
        return self._resolve(name, self.config.folder) if name is not None else None

    def _resolve(self, name: str, folder: Path) -> ModelRef:
        aliases = self.config.models
        alias = aliases.get(name)
        if alias is not None:
            name, folder = alias, self.config.folder
        if "/" not in name:
            known = f" (aliases here: {', '.join(sorted(aliases))})" if aliases else ""
            raise SetupError(
                f"model {name!r} has no provider; write it as provider/model, such as openai/{name}{known}"
            )
        return ModelRef(name=name, folder=folder)


def folder_of(scenario: Scenario, role: str) -> Path:
    """The folder that a path in the name of its model, judge or agent is relative to: that of the file with the
    name."""
    by_matrix = scenario.cell is not None and role in scenario.overrides
    file = scenario.cell.file if scenario.cell is not None and by_matrix else scenario.place.file
    return Path(file).absolute().parent


def _read_env(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    if not file.is_file():
        raise SetupError(f"environment file {file}: no such file")
    return {key: value for key, value in dotenv_values(file).items() if value is not None}


def provider_part(provider: str, config: Config, registry: Registry) -> ModelFactory:
    """The factory of a provider that a plugin provides or the configuration defines. Raises `SetupError` otherwise."""
    own = config.providers.get(provider)
    if own is not None and _is_own(provider, own, registry):
        return registry.model(own.type or DEFAULT_TYPE)
    if not registry.has("models", provider):
        known = {*registry.names("models"), *config.providers}
        defined = "; to define a provider, give [providers.NAME] a base_url"
        raise SetupError(unknown_part("models", provider, known) + defined)
    return registry.model(provider)


def _is_own(provider: str, config: ProviderConfig, registry: Registry) -> bool:
    return not registry.has("models", provider) and (config.type is not None or config.base_url is not None)


def part_options(part: object, table: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a part: its table in the configuration, overridden by matching flags."""
    shape = options_of(part)
    known = shape.model_fields if shape is not None else {}
    return {**table, **{name: value for name, value in flags.items() if name in known}}


def check_parts(config: Config, registry: Registry) -> None:
    """Check every table of options against its part, whether or not the run uses it.

    Raises `FileError` with every problem, each at its line.
    """
    problems = [*_provider_problems(config, registry)]
    for point in _TABLES:
        tables: dict[str, dict[str, Any]] = getattr(config, point)
        for name, table in tables.items():
            if not registry.has(point, name):
                message = unknown_part(point, name, registry.names(point))
                problems.append(config_problem(config, (point, name), message, "unknown-name"))
            else:
                problems += _option_problems(config, (point, name), options_of(registry.part(point, name)), table)
    if problems:
        raise FileError(problems)


def _provider_problems(config: Config, registry: Registry) -> Iterator[Problem]:
    for name, provider in config.providers.items():
        path = ("providers", name)
        if provider.type is not None and not registry.has("models", provider.type):
            message = unknown_part("models", provider.type, registry.names("models"))
            yield config_problem(config, (*path, "type"), message, "unknown-name")
            continue
        if not registry.has("models", name):
            problem = _own_problem(name, provider, registry)
            if problem is not None:
                yield config_problem(config, path, problem, "unknown-name")
                continue
        elif provider.type is not None and provider.type != name:
            message = f"{name} is a built-in provider with its own interface; choose another name for yours"
            yield config_problem(config, (*path, "type"), message, "bad-value")
            continue
        factory = provider_part(name, config, registry)
        yield from _option_problems(config, path, options_of(factory), provider.options, also=ProviderConfig)


def _own_problem(name: str, provider: ProviderConfig, registry: Registry) -> str | None:
    """Why a name that no plugin provides cannot be a custom provider."""
    names = registry.names("models")
    if provider.type is None and provider.base_url is None:
        return unknown_part("models", name, names) + "; a custom provider needs a base_url"
    near = nearest(name, names, likeness=_SIMILAR)
    if provider.type is None and near is not None and near not in name:
        return (
            f"unknown model provider {name!r}; did you mean {near!r}? "
            f'If it is a custom provider, set its interface: type = "{DEFAULT_TYPE}"'
        )
    return None


class _InConfig:
    """Locates the options of a table in the configuration file."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        return config_problem(self._config, path, "", "").place


class _NoOptions(BaseModel, extra="forbid"):
    pass


def _option_problems(
    config: Config,
    path: FieldPath,
    shape: type[Options] | None,
    table: Mapping[str, Any],
    *,
    also: type[ProviderConfig] | None = None,
) -> list[Problem]:
    findings = Findings(_InConfig(config))
    beside = [name for name in also.__struct_fields__ if name != "options"] if also is not None else ()
    validate(shape or _NoOptions, dict(table), path, findings, also=beside)
    return findings.problems
