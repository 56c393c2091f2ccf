"""Settings of a scenario: command line over scenario over configuration over defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.records.config import Config, Price
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor, secrets_of
from steadyhand.spec.config import find_config, read_config


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

    `config` is the configuration file; without it the nearest ones upwards count, unless `ignore_config` is set.
    """

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
    trials: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    pass_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: Amount | None = None
    max_tokens: Count | None = None
    config: Path | None = None
    ignore_config: bool = False
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
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_RETRIES = 2
DEFAULT_CONCURRENCY = 8
ALIASES = ("TEXT_SMALL", "TEXT_LARGE")


class ModelRef(Record):
    """A model by name, and the folder that a path in the name is relative to."""

    name: str
    folder: Path


class Settings:
    """Answers what holds for a scenario. Configuration files and environment files are read once each."""

    def __init__(self, options: RunOptions) -> None:
        self.options: RunOptions = options
        self.base: Config = self._find(Path.cwd())
        self._configs: dict[Path, Config] = {}
        self._by_file: dict[str, Config] = {}
        self._variables: dict[Path | None, Mapping[str, str]] = {}

    def config(self, scenario: Scenario) -> Config:
        known = self._by_file.get(scenario.place.file)
        if known is None:
            folder = Path(scenario.place.file).absolute().parent
            if folder not in self._configs:
                self._configs[folder] = self._find(folder)
            known = self._by_file[scenario.place.file] = self._configs[folder]
        return known

    def _find(self, folder: Path) -> Config:
        """Raises `SetupError` when the file that was asked for is not there."""
        file = self.options.config
        if file is None:
            return Config(folder=folder) if self.options.ignore_config else find_config(folder)
        if not file.is_file():
            raise SetupError(f"configuration file {file}: no such file")
        return read_config(file.absolute())

    @property
    def out(self) -> Path:
        if self.options.out is not None:
            return self.options.out
        return self.base.folder / self.base.out if self.base.out else DEFAULT_OUT

    @property
    def concurrency(self) -> int:
        return self.options.concurrency or self.base.concurrency or DEFAULT_CONCURRENCY

    @property
    def seed(self) -> int | None:
        return self.options.seed if self.options.seed is not None else self.base.seed

    def timeout_s(self, scenario: Scenario) -> float:
        return self.options.timeout_s or self.config(scenario).timeout_s or DEFAULT_TIMEOUT_S

    def retries(self, scenario: Scenario) -> int:
        for value in (self.options.retries, self.config(scenario).retries):
            if value is not None:
                return value
        return DEFAULT_RETRIES

    def agent(self, scenario: Scenario) -> str:
        chosen = scenario.overrides.get("agent") or self.options.agent
        return chosen or scenario.agent or self.config(scenario).agent or scenario.default_agent

    def environment(self, scenario: Scenario) -> str:
        return self.options.environment or scenario.environment

    def model(self, scenario: Scenario) -> ModelRef | None:
        """The model under test, aliases resolved; None when nobody names one."""
        config = self.config(scenario)
        if "model" in scenario.overrides:
            return self._resolve(scenario.overrides["model"], folder_of(scenario, "model"), config)
        if self.options.model is not None:
            return self._resolve(self.options.model, Path.cwd(), config)
        if scenario.character is not None and scenario.character.model is not None:
            return self.named(scenario.character.model, scenario)
        if config.model is not None:
            return self._resolve(config.model, config.folder, config)
        return None

    def judge(self, scenario: Scenario) -> ModelRef | None:
        """The judge that somebody named; None when nobody did."""
        if "judge" in scenario.overrides:
            return self._resolve(scenario.overrides["judge"], folder_of(scenario, "judge"), self.config(scenario))
        return self._role(self.options.judge, self.config(scenario).judge, scenario)

    def user_model(self, scenario: Scenario) -> ModelRef | None:
        """The model that plays the user: the one named, else the model under test."""
        config = self.config(scenario)
        return self._role(self.options.user_model, config.user_model, scenario) or self.model(scenario)

    def named(self, name: str, scenario: Scenario) -> ModelRef:
        """A model that the scenario itself names. Raises `SetupError` for a name without a provider."""
        return self._resolve(name, Path(scenario.place.file).absolute().parent, self.config(scenario))

    def of_type(self, model_type: str | None, default: ModelRef, scenario: Scenario) -> ModelRef:
        """The model that a `model_type` stands for. An alias that no configuration maps stands for the default.

        Raises `SetupError` for a name without a provider.
        """
        if model_type is None or (model_type in ALIASES and model_type not in self.config(scenario).models):
            return default
        return self.named(model_type, scenario)

    def strict_judge(self, scenario: Scenario) -> bool:
        return self.options.strict_judge or bool(self.config(scenario).strict_judge)

    def sandbox(self, scenario: Scenario) -> bool:
        return self.options.sandbox or bool(self.config(scenario).sandbox)

    def allow_commands(self, scenario: Scenario) -> bool:
        return self.options.allow_commands or bool(self.config(scenario).allow_commands)

    def votes(self, scenario: Scenario) -> int:
        return self.config(scenario).votes or 1

    def variables(self, scenario: Scenario) -> Mapping[str, str]:
        """The process's environment, with the variables of the environment file over it."""
        file = self.options.env_file
        config = self.config(scenario)
        if file is None and config.env_file is not None:
            file = config.folder / config.env_file
        if file not in self._variables:
            self._variables[file] = {**os.environ, **_read_env(file)} if file else dict(os.environ)
        return self._variables[file]

    def redactor(self, scenarios: Sequence[Scenario]) -> Redactor:
        """Knows every secret of the run: the environment's, the environment files', and those that settings name."""
        secrets = set(secrets_of(os.environ))
        for config, scenario in {id(self.config(each)): (self.config(each), each) for each in scenarios}.values():
            named = (provider.api_key_env for provider in config.providers.values())
            secrets |= secrets_of(self.variables(scenario), [name for name in named if name])
        return Redactor(secrets)

    def prices(self, scenarios: Sequence[Scenario]) -> dict[str, Price]:
        """The prices of all configuration files."""
        return {name: price for scenario in scenarios for name, price in self.config(scenario).prices.items()}

    def own_servers(self, scenarios: Sequence[Scenario]) -> tuple[str, ...]:
        """The providers behind a base URL of one's own, for whose models list prices do not hold."""
        configs = [self.config(scenario) for scenario in scenarios]
        elsewhere = {name for config in configs for name, provider in config.providers.items() if provider.base_url}
        if any(self.variables(scenario).get("OPENAI_BASE_URL") for scenario in scenarios):
            elsewhere.add("openai")
        return tuple(sorted(elsewhere))

    def _role(self, option: str | None, configured: str | None, scenario: Scenario) -> ModelRef | None:
        config = self.config(scenario)
        if option is not None:
            return self._resolve(option, Path.cwd(), config)
        return self._resolve(configured, config.folder, config) if configured is not None else None

    def _resolve(self, name: str, folder: Path, config: Config) -> ModelRef:
        alias = config.models.get(name)
        if alias is not None:
            name, folder = alias, config.folder
        if "/" not in name:
            known = f" (aliases here: {', '.join(sorted(config.models))})" if config.models else ""
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
