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

from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.plugin import ModelFactory, Options, options_of
from steadyhand.plugins.registry import ExtensionPoint, Registry, unknown_part
from steadyhand.ports.model import ModelFacts
from steadyhand.records.config import Config, ProviderConfig, RunOptions, Selection, default_of
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
            msgspec.convert(
                saved["options"], RunOptions, dec_hook=lambda kind, value: kind(value) if kind is Path else value
            ),
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise SetupError(
            f"the run was recorded by a version that did not store what a resume needs: {error}"
        ) from error


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

    def _first(self, name: str) -> Any:
        """What the option says, else the configuration, else the default."""
        given = (getattr(self.options, name), getattr(self.config, name))
        return next((value for value in given if value is not None), default_of(name))

    @property
    def out(self) -> Path:
        if self.options.out is None and self.config.out:
            return self.config.folder / self.config.out
        return self.options.out or default_of("out")

    @property
    def concurrency(self) -> int:
        return self._first("concurrency")

    @property
    def workers(self) -> int:
        """How many processes run trials; 1 is this one."""
        return self.options.workers or default_of("workers")

    @property
    def seed(self) -> int | None:
        return self._first("seed")

    @property
    def timeout_s(self) -> float:
        return self._first("timeout_s")

    @property
    def retries(self) -> int:
        return self._first("retries")

    @property
    def wait_limit_s(self) -> float:
        return self._first("wait_limit_s")

    @property
    def stall_limit_s(self) -> float:
        return self._first("stall_limit_s")

    @property
    def votes(self) -> int:
        return self._first("votes")

    @property
    def isolation(self) -> IsolationChoice:
        return self._first("isolation")

    @property
    def strict_judge(self) -> bool:
        return self.options.strict_judge or bool(self.config.strict_judge)

    @property
    def sandbox(self) -> bool:
        return self.options.sandbox or bool(self.config.sandbox)

    @property
    def allow_commands(self) -> bool:
        return self.options.allow_commands or bool(self.config.allow_commands)

    @property
    def agent_can_read(self) -> tuple[str, ...]:
        """Absolute paths, of the command line and the configuration."""
        given = [Path(path).absolute() for path in self.options.agent_can_read]
        return tuple(
            str(path) for path in (*given, *(self.config.folder / each for each in self.config.agent_can_read))
        )

    def environment_options(self, type_: str, factory: object) -> dict[str, Any]:
        flags = {"sandbox": True} if self.sandbox else {}
        return part_options(factory, self.config.environments.get(type_, {}), flags)

    def agent_options(self, factory: object, table: Mapping[str, Any]) -> dict[str, Any]:
        flags: dict[str, Any] = {"allow_commands": True} if self.allow_commands else {}
        if self.options.in_process:
            flags["in_process"] = True
        if self.options.timeout_s is not None:
            flags["timeout_s"] = self.options.timeout_s
        return part_options(factory, table, flags)

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
        agents: set[str | None] = {*self.options.users_agents, config.agent}
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


def _read_env(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    if not file.is_file():
        raise SetupError(f"environment file {file}: no such file")
    return {key: value for key, value in dotenv_values(file).items() if value is not None}


def provider_part(provider: str, config: Config, registry: Registry) -> ModelFactory:
    """The factory of a provider that a plugin provides or the configuration defines. Raises `SetupError` otherwise."""
    own = config.providers.get(provider)
    if not registry.has("models", provider):
        if own is not None and (own.type is not None or own.base_url is not None):
            return registry.model(own.type or DEFAULT_TYPE)
        known = {*registry.names("models"), *config.providers}
        defined = "; to define a provider, give [providers.NAME] a base_url"
        raise SetupError(unknown_part("models", provider, known) + defined)
    return registry.model(provider)


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
