"""User settings: the configuration of a project, and the options of a run, which override it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from steadyhand.records.base import Record
from steadyhand.records.isolation import IsolationChoice

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]


class ProviderConfig(Record):
    """How to reach a model provider. The key is never in the file; the option `api_key_env` names its variable.

    `type` is the provider whose API it uses, if the user chose its name.
    """

    type: str | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    reasoning_tags: tuple[str, ...] | None = None
    options: dict[str, Any] = {}

    @property
    def base_url(self) -> str | None:
        return self.options.get("base_url")

    @property
    def api_key_env(self) -> str | None:
        return self.options.get("api_key_env")


class PluginConfig(Record):
    """A plugin that every scenario of the project may use."""

    name: str
    version: str | None = None
    enabled: bool = True
    config: dict[str, Any] = {}


class Price(Record):
    """Per million tokens."""

    input: float
    output: float


class CalibrationConfig(Record):
    """Whether a judge has to be calibrated before it decides, and how good it must be. None means no threshold."""

    required: bool = False
    file: str | None = None
    min_labels: int = 20
    min_kappa: float | None = 0.6
    max_false_pass: float | None = 0.1
    max_false_fail: float | None = None


class Config(Record):
    """The configuration. None means not set. `folder` is the folder of `file`, and paths are relative to it.

    `agents`, `environments`, `judges` and `users` hold the options of parts, by kind, and `services` by name.
    `reasoning_tags` are those of agents, by kind.
    """

    folder: Path
    file: Path | None = None
    model: str | None = None
    judge: str | None = None
    user_model: str | None = None
    agent: str | None = None
    environment: str | None = None
    env_file: str | None = None
    out: str | None = None
    seed: int | None = None
    concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    wait_limit_s: float | None = None
    stall_limit_s: float | None = None
    rubrics: str | None = None
    sandbox: bool | None = None
    isolation: IsolationChoice | None = None
    agent_can_read: tuple[str, ...] = ()
    allow_commands: bool | None = None
    strict_judge: bool | None = None
    votes: int | None = None
    judge_kind: str | None = None
    user_kind: str | None = None
    plugins: tuple[PluginConfig, ...] = ()
    models: dict[str, str] = {}
    providers: dict[str, ProviderConfig] = {}
    agents: dict[str, dict[str, Any]] = {}
    reasoning_tags: dict[str, tuple[str, ...]] = {}
    environments: dict[str, dict[str, Any]] = {}
    services: dict[str, dict[str, Any]] = {}
    judges: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    prices: dict[str, Price] = {}
    calibration: CalibrationConfig = CalibrationConfig()


class Selection(Record):
    """Which scenarios to run. `ids` are exact, and all of them must exist."""

    paths: tuple[str, ...]
    ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    expression: str | None = None
    filters: tuple[str, ...] = ()


class RunOptions(Record):
    """How to run them.

    `config` is the configuration file; without it, the nearest one upwards is used, unless `ignore_config` is set.
    `ignore_env_file` is for cluster nodes, which use their own environment. With several `models` or `agents`, every
    combination is a separate target.
    """

    config: Path | None = None
    ignore_config: bool = False
    plugins: tuple[str, ...] = ()
    model: str | None = None
    judge: str | None = None
    user_model: str | None = None
    agent: str | None = None
    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    environment: str | None = None
    live: bool = False
    env_file: Path | None = None
    seed: int | None = None
    out: Path | None = None
    concurrency: Count | None = None
    workers: Count | None = None
    engine: Literal["local", "ray"] | None = None
    ray_address: str | None = None
    ray_env: tuple[str, ...] = ()
    ignore_env_file: bool = False
    timeout_s: Amount | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] | None = None
    wait_limit_s: Amount | None = None
    stall_limit_s: Amount | None = None
    strict_judge: bool = False
    sandbox: bool = False
    isolation: IsolationChoice | None = None
    agent_can_read: tuple[str, ...] = ()
    allow_commands: bool = False
    enforce_deadline: bool = False
    judge_timeline: bool = False
    in_process: bool = False
    trust: bool = False
    trials: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    pass_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    until: Literal["decided"] | None = None
    alpha: Annotated[float, Meta(gt=0, lt=1)] | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: Amount | None = None
    otlp_port: Count | None = None
    max_tokens: Count | None = None
    votes: Count | None = None
    rubric: str | None = None
    rejudge: Path | None = None
    """The record of a run whose stored trials are judged again instead of running any."""
    judge_canaries: Path | None = None
    only: tuple[str, ...] = ()
    """The ids of the scenarios to run, of those that are loaded; all when empty."""
    failed_of: str | None = None
    """The run that they did not pass in."""
    shard: str | None = None
    command: tuple[str, ...] = ()
