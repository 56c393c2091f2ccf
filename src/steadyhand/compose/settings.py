"""Settings of a scenario: command line over scenario over configuration over defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.records.config import Config
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor, secrets_of
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
    trials: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    pass_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: Amount | None = None
    max_tokens: Count | None = None
    votes: Count | None = None
    rubric: str | None = None
    rejudge: Path | None = None
    """The record of a run whose stored trials are judged again instead of running any."""
    judge_canaries: Path | None = None
    command: tuple[str, ...] = ()


def save_options(selection: Selection, options: RunOptions, *, objects: bool = False) -> dict[str, Any]:
    """As plain data for the header of the run, from which `restore_options` makes both again.

    `objects` says that the run was given scenarios or parts as objects, of which a record cannot hold enough.
    """
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
        return self.options.votes or self.config.votes or 1

    @property
    def variables(self) -> Mapping[str, str]:
        """The process's environment, with the variables of the environment file over it."""
        if self._variables is None:
            file = self.options.env_file
            if file is None and self.config.env_file is not None:
                file = self.config.folder / self.config.env_file
            self._variables = {**os.environ, **_read_env(file)} if file else dict(os.environ)
        return self._variables

    def redactor(self) -> Redactor:
        """Knows every secret of the run: the environment's, the environment file's, and those that settings name."""
        named = [provider.api_key_env for provider in self.config.providers.values()]
        return Redactor(secrets_of(os.environ) | secrets_of(self.variables, [name for name in named if name]))

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


def _read_env(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    if not file.is_file():
        raise SetupError(f"environment file {file}: no such file")
    return {key: value for key, value in dotenv_values(file).items() if value is not None}
