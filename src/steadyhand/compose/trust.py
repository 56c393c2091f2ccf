"""Finds what a scenario from outside the project would run on this machine, and whether the user allowed it.

This is the only place that decides: `named_by` lists what a scenario names; `Project` in `spec/config.py` defines which
files belong to the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from steadyhand.compose.scenarios import needs_agent
from steadyhand.compose.settings import Settings, part_options
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.plugins.resolve import names_code
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.evaluator import runs_commands
from steadyhand.records.base import shorten
from steadyhand.records.config import RunOptions
from steadyhand.records.location import Place
from steadyhand.records.scenario import Converse, RunCode, Scenario, evaluation_specs
from steadyhand.redaction import Redactor, secrets_in_command
from steadyhand.spec.config import SHIPPED, Project, files_of, is_below

_SHOWN = 8
_LONGEST = 77


class Named(NamedTuple):
    """Something that a scenario names and that needs trust: `what` it is in words, and the `place` in the file."""

    what: str
    place: Place


def named_by(scenario: Scenario, settings: Settings, registry: Registry, *, rubric: Path | None) -> list[Named]:
    """What the scenario names that needs trust if it comes from outside the project.

    That is code and commands that would run on this machine, and files beyond its own folder. What the command line or
    the configuration decides instead is not listed. `rubric` is the file of its rubric. Nothing is run or imported.
    Raises `SetupError` when its environment cannot be set up.
    """
    return [
        *(Named(f"plugin {ref.name}", ref.place) for ref in scenario.plugins if ref.enabled and names_code(ref.name)),
        *_agent(scenario, settings, registry),
        *_commands(scenario, settings, registry),
        *_services(scenario),
        *_database(scenario),
        *_models(scenario, settings),
        *_rubric(scenario, settings, rubric),
    ]


def untrusted(found: Sequence[Named], project: Project) -> str:
    """One line: what would have run, and how to allow it."""
    listed = [f"{named.what} ({named.place})" for named in dict.fromkeys(found)]
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return (
        f"outside the project {project.folder}, --trust is needed to use {'; '.join(listed[:_SHOWN])}{more}. "
        "Nothing was run; check the files before you trust them"
    )


def require_trusted_record(record: Path, options: RunOptions, project: Project) -> None:
    """A record contains the command line that is repeated. Raises `SetupError` if a record from outside the project
    names anything that would run or be read on this machine."""
    if project.trusts(record):
        return
    agents = [agent for agent in (options.agent, *options.agents) if agent is not None and ":" in agent]
    models = [("model", options.model), ("judge", options.judge), ("user-model", options.user_model)]
    models += [("model", name) for name in options.models]
    chosen = [
        *(f"--plugin {name}" for name in options.plugins),
        *(f"--{name.replace('_', '-')} {getattr(options, name)}" for name in _PATHS if getattr(options, name)),
        *(f"--agent {_short(agent)}" for agent in agents),
        *(f"--{name.replace('_', '-')}" for name in ("allow_commands", "live") if getattr(options, name)),
    ]
    chosen += [
        f"--{role} {_short(name)}"
        for role, name in models
        if name and _leaves(Path.cwd(), name.partition("/")[2], (Path.cwd(),))
    ]
    if chosen:
        raise SetupError(
            f"{record} is outside the project {project.folder}, and its run was started with {' '.join(chosen)}: "
            "--trust is needed to use it. Nothing was run"
        )


_PATHS = ("config", "env_file", "record", "replay", "judge_canaries", "rubric")


def _agent(scenario: Scenario, settings: Settings, registry: Registry) -> Iterator[Named]:
    if not needs_agent(scenario) or not settings.agent_is_scenarios(scenario):
        return
    agent = settings.agent(scenario)
    kind, _, target = agent.partition(":")
    if target and registry.has("agents", kind) and agent_facts(registry.agent(kind)).runs_target:
        yield Named(f"agent {_short(agent)}", _place_of(scenario, "agent"))


def _commands(scenario: Scenario, settings: Settings, registry: Registry) -> Iterator[Named]:
    found = [
        Named(f"command {_short(step.task.code)}", step.place)
        for step in scenario.steps
        if isinstance(step.task, RunCode)
    ]
    found += [
        Named(f"command {_short(str(spec.params.get('command', spec.type)))}", spec.place)
        for spec in evaluation_specs(scenario)
        if registry.has("evaluators", spec.type) and runs_commands(registry.evaluator(spec.type))
    ]
    if _model_may_run_commands(scenario, settings, registry):
        found.append(Named("commands that a model writes (allow_commands)", scenario.place))
    if found and not _confined(scenario, settings, registry):
        yield from found


def _model_may_run_commands(scenario: Scenario, settings: Settings, registry: Registry) -> bool:
    """Its author writes the prompts, and may have written the model's answers too (`scripted/FILE`)."""
    kind = settings.agent(scenario).partition(":")[0]
    if not needs_agent(scenario) or not registry.has("agents", kind):
        return False
    flags = {"allow_commands": True} if settings.allow_commands else {}
    options = part_options(registry.agent(kind), settings.config.agents.get(kind, {}), flags)
    return options.get("allow_commands") is True


def _confined(scenario: Scenario, settings: Settings, registry: Registry) -> bool:
    """Whether its commands are isolated from this machine. Raises `SetupError` when the environment cannot be set
    up."""
    type_ = settings.environment(scenario)
    if not registry.has("environments", type_):
        return False
    factory = registry.environment(type_)
    table = settings.config.environments.get(type_, {})
    options = part_options(factory, table, {"sandbox": True} if settings.sandbox else {})
    unused = EnvironmentSettings(root=Path("unused"), trial_id="trust", variables=settings.variables, options=options)
    return factory(unused).sandboxed


def _services(scenario: Scenario) -> Iterator[Named]:
    """A program runs on this machine; a URL gets no key, and what it answers is data."""
    for service in scenario.setup.services:
        if not service.has_url:
            yield Named(f"MCP server {_short(service.mcp)}", service.place)


def _database(scenario: Scenario) -> Iterator[Named]:
    seed = scenario.setup.database
    if seed is None:
        return
    own = _own_folders(scenario)
    folder = Path(scenario.place.file).absolute().parent
    if seed.sql_file is not None and _leaves(folder, seed.sql_file, own):
        yield Named(f"SQL file {seed.sql_file}", scenario.place)
    if seed.url is not None:
        parts = urlsplit(seed.url)
        path = unquote(parts.path).removeprefix("/")
        if parts.scheme != "sqlite":
            # A driver fills in what the URL leaves out from the user's own variables and password file.
            yield Named(f"database {parts.scheme}://{parts.hostname or ''}", scenario.place)
        elif path not in ("", ":memory:") and _leaves(folder, path, own):
            yield Named(f"database file {path}", scenario.place)


def _models(scenario: Scenario, settings: Settings) -> Iterator[Named]:
    """Some providers read the file that a model's name leads to, such as `scripted/FILE`."""
    own = _own_folders(scenario)
    for name, folder, place in _model_names(scenario, settings):
        if name not in settings.config.models and _leaves(folder, name.partition("/")[2], own):
            yield Named(f"model {_short(name)}", place)


def _model_names(scenario: Scenario, settings: Settings) -> Iterator[tuple[str, Path, Place]]:
    """The models that the scenario or its matrix chooses, with the folder that a path in the name starts from."""
    beside = Path(scenario.place.file).absolute().parent
    if scenario.cell is not None:
        matrix = Path(scenario.cell.file).absolute().parent
        for role in ("model", "judge"):
            if role in scenario.overrides:
                yield scenario.overrides[role], matrix, _place_of(scenario, role)
    character = scenario.character.model if scenario.character is not None else None
    if character is not None and "model" not in scenario.overrides and settings.users_model(scenario) is None:
        yield character, beside, scenario.place
    for spec in evaluation_specs(scenario):
        if isinstance(model_type := spec.params.get("model_type"), str):
            yield model_type, beside, spec.place
    for step in scenario.steps:
        if isinstance(step.task, Converse) and step.task.config.user_simulator is not None:
            yield step.task.config.user_simulator.model_type, beside, step.place


def _rubric(scenario: Scenario, settings: Settings, rubric: Path | None) -> Iterator[Named]:
    if rubric is None:
        return
    config = settings.config
    configured = [(config.folder / config.rubrics).resolve()] if config.rubrics is not None else []
    if not any(is_below(rubric, (folder,)) for folder in (*configured, SHIPPED.resolve())) and not all(
        is_below(rubric, (folder,)) for folder in _own_folders(scenario)
    ):
        yield Named(f"rubric {scenario.rubric}", scenario.rubric_place or scenario.place)


def _place_of(scenario: Scenario, parameter: str) -> Place:
    for setting in scenario.cell.settings if scenario.cell is not None else ():
        if setting.parameter == parameter:
            return setting.place
    return scenario.place


def _own_folders(scenario: Scenario) -> list[Path]:
    """A file must be in all of these folders to belong to the scenario: a matrix does not extend it to the folder of
    its base."""
    return [Path(os.path.realpath(file)).parent for file in files_of(scenario)]


def _leaves(start: Path, name: str, folders: Iterable[Path]) -> bool:
    """Whether the path, with links followed, is outside any of the folders."""
    return bool(name) and not all(is_below(start / name, (folder,)) for folder in folders)


def _short(text: str) -> str:
    line = Redactor(secrets_in_command(text) | secrets_in_command(text.partition(":")[2])).text(" ".join(text.split()))
    return shorten(line, _LONGEST)
