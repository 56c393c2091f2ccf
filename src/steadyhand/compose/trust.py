"""Finds what a scenario from outside the project would run on this machine, and whether the user allowed it.

This is the only place that decides: `trust_requests` lists what a scenario names; `Project` in `spec/config.py` defines
which files belong to the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from steadyhand.compose.cast import Cast, embedders, needs_agent
from steadyhand.compose.isolation import check_files
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.evaluator import runs_commands
from steadyhand.records.base import first_few, shorten
from steadyhand.records.config import Option, RunOptions, declared_by
from steadyhand.records.location import Place
from steadyhand.records.scenario import Converse, RunCode, Scenario, leaf_specs
from steadyhand.redaction import Redactor, secrets_in_command
from steadyhand.spec.config import SHIPPED, Project, is_below, own_files

_SHOWN = 8
_LONGEST = 77


class TrustRequest(NamedTuple):
    """Something that a scenario names and that needs trust: `what` it is in words, and the `place` in the file."""

    what: str
    place: Place


def trust_requests(cast: Cast, settings: Settings) -> list[TrustRequest]:
    """What the scenario names that needs trust if it comes from outside the project.

    That is code and commands that would run on this machine, and files beyond its own folder. What the command line or
    the configuration decides instead is not listed. Nothing is run or imported. Raises `SetupError` when its
    environment cannot be set up.
    """
    files = check_files(cast.scenario, cast.registry)
    return [
        *_plugins(cast.scenario),
        *_agent(cast),
        *_commands(cast, settings),
        *(TrustRequest(f"{file.spec.type} {file.name}", file.spec.place) for file in files),
        *_services(cast.scenario),
        *_database(cast),
        *_sources(cast.scenario),
        *_models(cast),
        *_rubric(cast),
    ]


def _plugins(scenario: Scenario) -> Iterator[TrustRequest]:
    if not scenario.plugins:
        return
    from steadyhand.plugins.resolve import names_code  # most scenarios name no plugin

    for ref in scenario.plugins:
        if ref.enabled and names_code(ref.name):
            yield TrustRequest(f"plugin {ref.name}", ref.place)


def untrusted(found: Sequence[TrustRequest], project: Project) -> str:
    """One line: what would have run, and how to allow it."""
    listed = [f"{named.what} ({named.place})" for named in dict.fromkeys(found)]
    return (
        f"outside the project {project.folder}, --trust is needed to use {first_few(listed, _SHOWN, between='; ')}. "
        "Nothing was run; check the files before you trust them"
    )


def require_trusted_record(record: Path, options: RunOptions, project: Project, *, runs_agents: bool = True) -> None:
    """A record contains the command line that is repeated. Raises `SetupError` if a record from outside the project
    names anything that would run or be read on this machine."""
    if project.trusts(record):
        return
    chosen = [given for name, option in declared_by(RunOptions).items()
              for given in _guarded(option, getattr(options, name), runs_agents=runs_agents)]  # fmt: skip
    if chosen:
        raise SetupError(
            f"{record} is outside the project {project.folder}, and its run was started with {' '.join(chosen)}: "
            "--trust is needed to use it. Nothing was run"
        )


def _guarded(option: Option, value: Any, *, runs_agents: bool) -> Iterator[str]:
    """As it was given, if it must not be repeated."""
    values = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    for each in values:
        match option.guarded:
            case "always":
                is_guarded = bool(each)
            case "running":
                is_guarded = bool(each) and runs_agents
            case "code":
                is_guarded = runs_agents and ":" in (each or "")
            case "path":
                is_guarded = _leaves(Path.cwd(), (each or "").partition("/")[2], (Path.cwd(),))
            case "":
                is_guarded = False
        if is_guarded:
            yield option.flag if each is True else f"{option.flag} {_short(str(each))}"


def _agent(cast: Cast) -> Iterator[TrustRequest]:
    if not needs_agent(cast.scenario) or not cast.agent.is_authors:
        return
    kind, _, target = cast.agent.value.partition(":")
    if target and cast.registry.has("agents", kind) and agent_facts(cast.registry.agent(kind)).runs_target:
        yield TrustRequest(f"agent {_short(cast.agent.value)}", _place_of(cast.scenario, "agent"))


def _commands(cast: Cast, settings: Settings) -> Iterator[TrustRequest]:
    scenario, registry = cast.scenario, cast.registry
    found = [
        TrustRequest(f"command {_short(step.task.code)}", step.place)
        for step in scenario.steps
        if isinstance(step.task, RunCode)
    ]
    found += [
        TrustRequest(f"command {_short(str(spec.params.get('command', spec.type)))}", spec.place)
        for spec in leaf_specs(scenario)
        if registry.has("evaluators", spec.type) and runs_commands(registry.evaluator(spec.type))
    ]
    if _model_may_run_commands(cast, settings):
        found.append(TrustRequest("commands that a model writes (allow_commands)", scenario.place))
    if found and not _confined(cast, settings):
        yield from found


def _model_may_run_commands(cast: Cast, settings: Settings) -> bool:
    """Its author writes the prompts, and may have written the model's answers too (`scripted/FILE`)."""
    kind = cast.agent.kind
    if not needs_agent(cast.scenario) or not cast.registry.has("agents", kind):
        return False
    options = settings.agent_options(cast.registry.agent(kind), settings.config.agents.get(kind, {}))
    return options.get("allow_commands") is True


def _confined(cast: Cast, settings: Settings) -> bool:
    """Whether its commands are isolated from this machine. Raises `SetupError` when the environment cannot be set
    up."""
    type_ = cast.environment.value
    if not cast.registry.has("environments", type_):
        return False
    factory = cast.registry.environment(type_)
    options = settings.environment_options(type_, factory)
    unused = EnvironmentSettings(root=Path("unused"), trial_id="trust", variables=settings.variables, options=options)
    return factory(unused).sandboxed


def _services(scenario: Scenario) -> Iterator[TrustRequest]:
    """A program runs on this machine; a URL gets no key, and what it answers is data."""
    for service in scenario.setup.services:
        if not service.has_url:
            yield TrustRequest(f"MCP server {_short(service.mcp)}", service.place)


def _database(cast: Cast) -> Iterator[TrustRequest]:
    scenario, seed = cast.scenario, cast.scenario.setup.database
    if seed is None:
        return
    own = _own_folders(scenario)
    if seed.sql_file is not None and _leaves(cast.folder, seed.sql_file, own):
        yield TrustRequest(f"SQL file {seed.sql_file}", scenario.place)
    if seed.url is not None:
        parts = urlsplit(seed.url)
        path = unquote(parts.path).removeprefix("/")
        if parts.scheme != "sqlite":
            # A driver fills in what the URL leaves out from the user's own variables and password file.
            yield TrustRequest(f"database {parts.scheme}://{parts.hostname or ''}", scenario.place)
        elif path not in ("", ":memory:") and _leaves(cast.folder, path, own):
            yield TrustRequest(f"database file {path}", scenario.place)


def _sources(scenario: Scenario) -> Iterator[TrustRequest]:
    """Files that it is made from and that are not below its own folder."""
    own = _own_folders(scenario)
    for file in scenario.sources:
        if _leaves(Path.cwd(), file, own):
            yield TrustRequest(f"file {file}", scenario.place)


def _models(cast: Cast) -> Iterator[TrustRequest]:
    """Some providers read the file that a model's name leads to, such as `scripted/FILE`."""
    scenario, own = cast.scenario, _own_folders(cast.scenario)
    chosen = [(each, _place_of(scenario, role)) for role, each in (("model", cast.model), ("judge", cast.judge))]
    found = [(each, place) for each, place in chosen if each is not None and each.is_authors]
    asked = [(spec.params.get("model_type"), spec.place) for spec in leaf_specs(scenario)]
    asked += [
        (step.task.config.user_simulator.model_type, step.place)
        for step in scenario.steps
        if isinstance(step.task, Converse) and step.task.config.user_simulator is not None
    ]
    asked += [(name, spec.place) for name, spec in embedders(cast)]
    for name, place in asked:
        if isinstance(name, str) and "/" in name:
            found.append((cast.named(name), place))
    for choice, place in found:
        if not choice.alias and _leaves(choice.folder, choice.value.partition("/")[2], own):
            yield TrustRequest(f"model {_short(choice.value)}", place)


def _rubric(cast: Cast) -> Iterator[TrustRequest]:
    if cast.rubric is None or not cast.rubric.is_authors:
        return
    config, rubric, scenario = cast.config, cast.rubric.value, cast.scenario
    configured = [(config.folder / config.rubrics).resolve()] if config.rubrics is not None else []
    if not any(is_below(rubric, (folder,)) for folder in (*configured, SHIPPED.resolve())) and not all(
        is_below(rubric, (folder,)) for folder in _own_folders(scenario)
    ):
        yield TrustRequest(f"rubric {scenario.rubric}", scenario.rubric_place or scenario.place)


def _place_of(scenario: Scenario, parameter: str) -> Place:
    for setting in scenario.cell.settings if scenario.cell is not None else ():
        if setting.parameter == parameter:
            return setting.place
    return scenario.place


def _own_folders(scenario: Scenario) -> list[Path]:
    """A file must be in all of these folders to belong to the scenario: a matrix does not extend it to the folder of
    its base."""
    return [Path(os.path.realpath(file)).parent for file in own_files(scenario)]


def _leaves(start: Path, name: str, folders: Iterable[Path]) -> bool:
    """Whether the path, with links followed, is outside any of the folders."""
    return bool(name) and not all(is_below(start / name, (folder,)) for folder in folders)


def _short(text: str) -> str:
    line = Redactor(secrets_in_command(text) | secrets_in_command(text.partition(":")[2])).text(" ".join(text.split()))
    return shorten(line, _LONGEST)
