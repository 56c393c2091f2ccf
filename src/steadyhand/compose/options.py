"""What the user asked for on the command line. None means: not said there, look in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from steadyhand.errors import SetupError
from steadyhand.records.base import Record


class Selection(Record):
    """Which scenarios."""

    paths: tuple[str, ...]
    tags: tuple[str, ...] = ()
    expression: str | None = None
    filters: tuple[str, ...] = ()


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
    trials: int | None = None
    pass_rate: float | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_time: Literal["zero", "original"] = "zero"
    max_cost: float | None = None
    max_tokens: int | None = None
    command: tuple[str, ...] = ()


def save_options(selection: Selection, options: RunOptions) -> dict[str, Any]:
    """As plain data for the header of the run, from which `restore_options` makes both again."""
    saved = {"folder": Path.cwd(), "selection": selection, "options": options}
    return msgspec.to_builtins(saved, enc_hook=str)


def restore_options(saved: dict[str, Any]) -> tuple[Path, Selection, RunOptions]:
    """The folder that the run was started in, what it was to run, and how.

    Raises `SetupError` when a run was not saved so that it can be carried on.
    """
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
