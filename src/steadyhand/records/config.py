"""The settings of a project. Command-line flags win over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadyhand.records.base import Record


class ProviderConfig(Record):
    """How to reach a model provider. The key is never in the file; the option `api_key_env` names its variable.

    `type` is the provider whose API it uses, if the user chose its name.
    """

    type: str | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
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
    """Whether a judge has to be calibrated before it decides, and how good it must be. A bar of None is none."""

    required: bool = False
    file: str | None = None
    min_labels: int = 20
    min_kappa: float | None = 0.6
    max_false_pass: float | None = 0.1
    max_false_fail: float | None = None


class Config(Record):
    """The configuration. None means not set. `folder` is the folder of `file`, and paths are relative to it.

    `agents`, `environments`, `judges` and `users` hold the options of parts, by kind, and `services` by name.
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
    rubrics: str | None = None
    sandbox: bool | None = None
    allow_commands: bool | None = None
    strict_judge: bool | None = None
    votes: int | None = None
    judge_kind: str | None = None
    user_kind: str | None = None
    plugins: tuple[PluginConfig, ...] = ()
    models: dict[str, str] = {}
    providers: dict[str, ProviderConfig] = {}
    agents: dict[str, dict[str, Any]] = {}
    environments: dict[str, dict[str, Any]] = {}
    services: dict[str, dict[str, Any]] = {}
    judges: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    prices: dict[str, Price] = {}
    calibration: CalibrationConfig = CalibrationConfig()
