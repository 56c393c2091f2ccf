"""What the user asked for on the command line. None means: not said there, look in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from holdfast.records.base import Record


class Selection(Record):
    """Which scenarios."""

    paths: tuple[str, ...]
    tags: tuple[str, ...] = ()
    expression: str | None = None


class RunOptions(Record):
    """How to run them."""

    model: str | None = None
    judge: str | None = None
    user_model: str | None = None
    agent: str | None = None
    environment: str | None = None
    live: bool = False
    env_file: Path | None = None
    seed: int | None = None
    out: Path | None = None
    concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    strict_judge: bool = False
    sandbox: bool = False
    allow_commands: bool = False
    enforce_deadline: bool = False
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: float | None = None
    max_tokens: int | None = None
    command: tuple[str, ...] = ()
