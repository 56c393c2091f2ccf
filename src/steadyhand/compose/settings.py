"""Settings of a scenario: command line over scenario over configuration over defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.records.config import Config
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor, secrets_among, secrets_in_command, secrets_in_url, secrets_of
from steadyhand.spec.config import find_config, other_configs, read_config
from steadyhand.spec.load import show_file


class Selection(Record):
    """Which scenarios."""

    paths: tuple[str, ...]
    tags: tuple[str, ...] = ()
    expression: str | None = None
    filters: tuple[str, ...] = ()


Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]


class RunOptions(Record):
    """How to run them.

    `config` is the configuration file; without it the nearest one upwards counts, unless `ignore_config` is set.
    """

    config: Path | None = None
    ignore_config: bool = False
    plugins: tuple[str, ...] = ()
    model: str | None = None
    judge: str | None = None
    user_model: str | None = None
    agent: str | None = None
    environment: str | None = None
    live: bool = False
    env_file: Path | None = None
    seed: int | None = None
    out: Path | None = None
    concurrency: Count | None = None
    timeout_s: Amount | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] | None = None
    strict_judge: bool = False
    sandbox: bool = False
    allow_commands: bool = False
    enforce_deadline: bool = False
    in_process: bool = False
    trust: bool = False
    trials: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    pass_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: Amount | None = None
    max_tokens: Count | None = None
    command: tuple[str, ...] = ()


def save_options(selection: Selection, options: RunOptions, *, objects: bool = False) -> dict[str, Any]:
    """As plain data for the header of the run, from which `restore_options` makes both again.

    `objects` says that the run was given scenarios or parts as objects, of which a record cannot hold enough. Trust is
    not kept: a resume asks for it again.
    """
    options = msgspec.structs.replace(options, trust=False)
    saved: dict[str, Any] = {"folder": Path.cwd(), "selection": selection, "options": options}
    if objects:
        saved["objects"] = True
    return msgspec.to_builtins(saved, enc_hook=str)


def restore_options(saved: dict[str, Any]) -> tuple[Path, Selection, RunOptions]:
    """The folder that the run was started in, what it was to run, and how.

    Raises `SetupError` when a run was not saved so that it can be carried on.
    """
    if saved.get("objects"):
        raise SetupError(
            "the run was started from Python with scenarios, an agent or plugins that are objects of that program; "
            "run them there again"
        )
    try:
        return (
            Path(saved["folder"]),
            msgspec.convert(saved["selection"], Selection),
            msgspec.convert(saved["options"], RunOptions, dec_hook=_path),
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise SetupError(f"the run was recorded by a version that did not keep what a resume needs: {error}") from error


def _path(kind: type, value: Any) -> Any:
    return kind(value) if kind is Path else value


DEFAULT_OUT = Path(".steadyhand/runs")
DEFAULT_ENVIRONMENT = "local"
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_RETRIES = 2
DEFAULT_CONCURRENCY = 8
ALIASES = ("TEXT_SMALL", "TEXT_LARGE")


SHIPPED = Path(__file__).parent.parent / "configs"


class Project:
    """What is the user's own: the folder they stand in, that of the configuration, and what ships with Steadyhand.

    A file counts by where it really is: a link in the project to a file elsewhere does not bring that file in.
    """

    def __init__(self, config: Config, *, trust: bool) -> None:
        """With `trust`, everything is treated as the user's own."""
        self.folder: Path = config.folder.resolve()
        self._trust: bool = trust
        self._folders: tuple[Path, ...] = (self.folder, Path.cwd().resolve(), SHIPPED.resolve())

    def trusts(self, *files: str | Path) -> bool:
        """Whether all of the files are the user's own."""
        return self._trust or all(is_below(file, self._folders) for file in files)

    def trusts_scenario(self, scenario: Scenario) -> bool:
        return self.trusts(*files_of(scenario))


def files_of(scenario: Scenario) -> tuple[str, ...]:
    """The files that say what it is: its own, and that of the matrix that it is a combination of."""
    return (scenario.place.file,) if scenario.cell is None else (scenario.place.file, scenario.cell.file)


def is_below(file: str | Path, folders: Sequence[Path]) -> bool:
    """Whether the file, with links followed, is in or below one of the folders."""
    try:
        real = Path(os.path.realpath(file))
    except (OSError, ValueError):  # a path that no file can have
        return False
    return any(real.is_relative_to(folder) for folder in folders)


class ModelRef(Record):
    """A model by name, and the folder that a path in the name is relative to."""

    name: str
    folder: Path


class Settings:
    """Answers what holds for a scenario. One run has one configuration; it and the environment file are read once."""

    def __init__(self, options: RunOptions) -> None:
        """Raises `SetupError` when the configuration is missing, `FileError` when it is wrong."""
        self.options: RunOptions = options
        self.config: Config = self._read_config()
        self.project: Project = Project(self.config, trust=options.trust)
        self._variables: Mapping[str, str] | None = None

    def ignored_configs(self, scenarios: Iterable[Scenario]) -> list[str]:
        """A note for each configuration file beside or above a scenario that does not count in this run."""
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
        """Raises `SetupError` when the file that was asked for is not there, `FileError` when it is wrong."""
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

    def agent(self, scenario: Scenario) -> str:
        chosen = scenario.overrides.get("agent") or self.options.agent
        return chosen or scenario.agent or self.config.agent or scenario.default_agent

    def agent_is_scenarios(self, scenario: Scenario) -> bool:
        """Whether the scenario or its matrix chose the agent, and not the user."""
        if "agent" in scenario.overrides:
            return True
        return self.options.agent is None and scenario.agent is not None

    def agent_folder(self, scenario: Scenario) -> Path:
        """Where files and modules of its agent are looked for first: beside the scenario, if that is in the project.

        Else an agent of the user's own could be replaced by a file of the same name that came with the scenario.
        """
        if self.project.trusts_scenario(scenario):
            return folder_of(scenario, "agent")
        return Path.cwd() if self.options.agent is not None else self.config.folder

    def environment(self, scenario: Scenario) -> str:
        return self.options.environment or scenario.environment or self.config.environment or DEFAULT_ENVIRONMENT

    def model(self, scenario: Scenario) -> ModelRef | None:
        """The model under test, aliases resolved; None when nobody names one."""
        if "model" in scenario.overrides:
            return self._resolve(scenario.overrides["model"], folder_of(scenario, "model"))
        if self.options.model is not None:
            return self._resolve(self.options.model, Path.cwd())
        if scenario.character is not None and scenario.character.model is not None:
            return self.named(scenario.character.model, scenario)
        return self._configured(self.config.model)

    def judge(self, scenario: Scenario) -> ModelRef | None:
        """The judge that somebody named; None when nobody did."""
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
        """The model that a `model_type` stands for. An alias that no configuration maps stands for the default.

        Raises `SetupError` for a name without a provider.
        """
        if model_type is None or (model_type in ALIASES and model_type not in self.config.models):
            return default
        return self.named(model_type, scenario)

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
    def votes(self) -> int:
        return self.config.votes or 1

    @property
    def variables(self) -> Mapping[str, str]:
        """The process's environment, with the variables of the environment file over it."""
        if self._variables is None:
            file = self.options.env_file
            if file is None and self.config.env_file is not None:
                file = self.config.folder / self.config.env_file
            self._variables = {**os.environ, **_read_env(file)} if file else dict(os.environ)
        return self._variables

    def redactor(self, scenarios: Iterable[Scenario] = ()) -> Redactor:
        """Knows every secret of the run: the environment's, the environment file's, and those that settings name."""
        named = [provider.api_key_env for provider in self.config.providers.values()]
        found = secrets_of(os.environ) | secrets_of(self.variables, [name for name in named if name])
        for table in (*(each.options for each in self.config.providers.values()), *self.config.agents.values()):
            found |= _secrets_in_options(table)
        for name, value in self.variables.items():
            found |= secrets_in_url(value) if name.endswith("_URL") else frozenset()
        agents = {self.options.agent, self.config.agent}
        for scenario in scenarios:
            agents |= {scenario.agent, scenario.overrides.get("agent")}
            database = scenario.setup.database
            found |= secrets_in_url(database.url) if database is not None and database.url else frozenset()
        for agent in agents:
            found |= secrets_in_command((agent or "").partition(":")[2])
        return Redactor(found)

    def own_servers(self) -> tuple[str, ...]:
        """The providers behind a base URL of one's own, for whose models list prices do not hold."""
        elsewhere = {name for name, provider in self.config.providers.items() if provider.base_url}
        if self.variables.get("OPENAI_BASE_URL"):
            elsewhere.add("openai")
        return tuple(sorted(elsewhere))

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
                f"model {name!r} names no provider; write it as provider/model, such as openai/{name}{known}"
            )
        return ModelRef(name=name, folder=folder)


def folder_of(scenario: Scenario, role: str) -> Path:
    """What a path in the name of its model, judge or agent is relative to: the folder of the file with the name."""
    by_matrix = scenario.cell is not None and role in scenario.overrides
    file = scenario.cell.file if scenario.cell is not None and by_matrix else scenario.place.file
    return Path(file).absolute().parent


def _secrets_in_options(table: Mapping[str, Any]) -> frozenset[str]:
    """The headers and the query of a base URL, which a server may repeat in what it says of an error."""
    found: set[str] = set()
    if isinstance(headers := table.get("headers"), dict):
        found |= secrets_among(cast("dict[str, object]", headers))
    if isinstance(base_url := table.get("base_url"), str):
        found |= secrets_in_url(base_url)
    return frozenset(found)


def _read_env(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    if not file.is_file():
        raise SetupError(f"environment file {file}: no such file")
    return {key: value for key, value in dotenv_values(file).items() if value is not None}
