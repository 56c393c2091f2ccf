"""`steadyhand.toml`, as it is written."""

from __future__ import annotations

from pydantic import Field

from steadyhand.spec.shapes.base import FreeForm, Name, Shape


class ProviderShape(Shape):
    """How to reach a model provider."""

    base_url: Name | None = None
    api_key_env: Name | None = Field(default=None, description="Name of the environment variable that holds the key")
    stream: bool | None = None
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    options: FreeForm = {}


class PriceShape(Shape):
    """Price per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class ConfigShape(Shape):
    """Settings of a project. Paths are relative to the file; command-line flags win."""

    model: Name | None = Field(default=None, description="Model under test, provider/model")
    judge: Name | None = Field(default=None, description="Model that judges, provider/model")
    user_model: Name | None = Field(default=None, description="Model that plays the user, provider/model")
    agent: Name | None = None
    environment: Name | None = None
    env_file: Name | None = None
    out: Name | None = Field(default=None, description="Folder of run records")
    seed: int | None = None
    concurrency: int | None = Field(default=None, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)
    retries: int | None = Field(default=None, ge=0, le=20)
    rubrics: Name | None = Field(default=None, description="Folder of rubrics")
    sandbox: bool | None = None
    allow_commands: bool | None = None
    strict_judge: bool | None = None
    votes: int | None = Field(default=None, ge=1)
    models: dict[str, Name] = Field(default={}, description="Aliases, such as TEXT_SMALL, to provider/model")
    providers: dict[str, ProviderShape] = {}
    prices: dict[str, PriceShape] = Field(default={}, description="By provider/model")
