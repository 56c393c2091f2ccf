"""The settings of a project. Command-line flags win over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadyhand.records.base import Record


class ProviderConfig(Record):
    """How to reach a model provider. The key itself is never in the file: `api_key_env` names its variable."""

    base_url: str | None = None
    api_key_env: str | None = None
    stream: bool | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    options: dict[str, Any] = {}


class Price(Record):
    """Per million tokens."""

    input: float
    output: float


class Config(Record):
    """None means not set. `folder` is where `file` was found, and what its paths are relative to."""

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
    models: dict[str, str] = {}
    providers: dict[str, ProviderConfig] = {}
    prices: dict[str, Price] = {}
