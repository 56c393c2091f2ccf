"""The options of agents, and what they share: time limits, files beside the scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import Options
from steadyhand.ports.agent import Addresses, Turn

DEFAULT_LIMIT_S = 300.0
_ADDRESS = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_MISSING = {
    "openai_": "name a model with --model",
    "anthropic_": "name a model with --model",
    "mcp_": "install the extra: pip install 'steadyhand[mcp]'",
}


class TimedOptions(Options):
    """`timeout_s` is the time for a turn where the scenario sets none."""

    timeout_s: float = Field(default=DEFAULT_LIMIT_S, gt=0)


class TracedOptions(TimedOptions):
    """`traces` says that the agent exports spans to us: `spans`, some of what it does, or `tools`, every tool call, so
    that what is not in its trace was not done."""

    traces: Literal["spans", "tools"] | None = None


class A2aOptions(TracedOptions):
    """`api_key_env` names the variable that holds the agent's bearer token; `headers` go with every request."""

    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}


class ProgramOptions(TracedOptions):
    """Of an agent that is a program: `env` are variables for it, in which `{name}` stands for an address of the trial.

    Which addresses there are depends on the run: `openai_base_url`, for one, only where a model is named.
    """

    env: dict[str, str] = {}


def program_variables(addresses: Addresses, env: Mapping[str, str], *, wanted_by: str) -> dict[str, str]:
    """What a program's environment says of its trial. Raises `SetupError` for an address that there is not."""
    given = {name: filled_addresses(value, addresses.names, f"{wanted_by}: env.{name}") for name, value in env.items()}
    return {**addresses.variables, **given}


def filled_addresses(value: str, names: Mapping[str, str], where: str) -> str:
    """The text with addresses for its `{name}`. Raises `SetupError` for one that there is not."""

    def found(match: re.Match[str]) -> str:
        name = match[1]
        if name in names:
            return names[name]
        known = ", ".join(f"{{{each}}}" for each in names) or "none"
        hints = [hint for key, hint in _MISSING.items() if name.startswith(key)]
        hint = f"; {hints[0]}" if hints else ""
        raise SetupError(f"{where}: there is no address {{{name}}} in this run (there is: {known}){hint}")

    return _ADDRESS.sub(found, value)


def limit_of(turn: Turn, limit_s: float) -> float | None:
    """The time limit that the agent enforces itself; None if the scenario has its own.

    Exceeding the scenario's limit fails the step. Exceeding this one is an error, because the author set no limit.
    """
    return None if turn.deadline is not None else limit_s


def shown_url(url: str) -> str:
    """The URL without its query, which may hold a key."""
    return re.sub(r"\?[^#]*", "", url)
