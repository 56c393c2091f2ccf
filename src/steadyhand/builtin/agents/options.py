"""The options of agents, and what they share: time limits, files beside the scenario."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import Options
from steadyhand.ports.agent import Turn

DEFAULT_LIMIT_S = 300.0


class TimedOptions(Options):
    """`timeout_s` is the time limit of a turn if the scenario sets none."""

    timeout_s: float = Field(default=DEFAULT_LIMIT_S, gt=0)


def limit_of(turn: Turn, limit_s: float) -> float | None:
    """The time limit that the agent enforces itself; None if the scenario has its own.

    Exceeding the scenario's limit fails the step. Exceeding this one is an error, because the author set no limit.
    """
    return None if turn.deadline is not None else limit_s


def file_beside(name: str, folder: Path, *, wanted_by: str) -> Path:
    """A file relative to the scenario's folder or, failing that, to the current folder. Raises `SetupError`."""
    looked = [base / name for base in dict.fromkeys((folder, Path.cwd()))]
    for candidate in looked:
        if candidate.is_file():
            return candidate.resolve()
    places = " nor ".join(str(candidate.parent.resolve()) for candidate in looked)
    raise SetupError(f"{wanted_by}: there is no file {name!r}, neither in {places}")


def shown_url(url: str) -> str:
    """The URL without its query, which may hold a key."""
    return re.sub(r"\?[^#]*", "", url)
