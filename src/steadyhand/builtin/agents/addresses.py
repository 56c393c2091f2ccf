"""What an agent is told about its trial: the addresses, the workspace, and how long a turn may take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from steadyhand.errors import AgentError, SetupError
from steadyhand.ports.agent import Addresses, TrialContext, Turn
from steadyhand.ports.environment import OnThisMachine
from steadyhand.records.event import Visible

_ADDRESS = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_PLACES = ("workspace", "database_url")
_MISSING = {
    "openai_": "name a model with --model",
    "anthropic_": "name a model with --model",
    "gemini_": "name a model with --model",
    "bedrock_": "name a model with --model",
}

_LEADS_TO: Mapping[str, tuple[Visible, ...]] = {
    "mocks_url": ("services", "database"),
    "mcp_url": ("actions", "services", "database"),
    "workspace": ("files",),
    "database_url": ("database",),
}


def program_variables(
    addresses: Addresses, env: Mapping[str, str], *, wanted_by: str, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment variables for a program. Raises `SetupError` for an unknown address.

    `own` are the addresses that are not the gateway's, as in `trial_places`; without them, they are left empty.
    """
    names = {**addresses.names, **dict.fromkeys(_PLACES, ""), **(own or {})}
    given = {name: filled_addresses(value, names, f"{wanted_by}: env.{name}") for name, value in env.items()}
    database = {"DATABASE_URL": names["database_url"]} if names["database_url"] else {}
    return {**addresses.variables, **database, **given}


async def trial_places(trial: TrialContext, env: Mapping[str, str], *, wanted_by: str) -> dict[str, str]:
    """Where the trial's database is and, if `env` asks for it, its workspace. Raises `AgentError`."""
    found = {"database_url": str(getattr(trial.database, "url", ""))}
    if "files" in reached_through(env.values()):
        found["workspace"] = str(await workspace_of(trial, f"{wanted_by} is given {{workspace}} in its `env`"))
    return found


async def workspace_of(trial: TrialContext, wanted: str) -> Path:
    """Raises `AgentError`, which begins with what `wanted` it, if the workspace is not on this machine."""
    environment = trial.environment
    if not isinstance(environment, OnThisMachine):
        raise AgentError(f"{wanted}, but the environment {environment.name!r} has no folder on this machine")
    return await environment.folder()


def filled_addresses(value: str, names: Mapping[str, str], where: str) -> str:
    """The text with each `{name}` replaced by its address. Raises `SetupError` for an unknown one."""

    def found(match: re.Match[str]) -> str:
        name = match[1]
        if name in names:
            return names[name]
        known = ", ".join(f"{{{each}}}" for each in names) or "none"
        hints = [hint for key, hint in _MISSING.items() if name.startswith(key)]
        hint = f"; {hints[0]}" if hints else ""
        raise SetupError(f"{where}: unknown address {{{name}}} (available in this run: {known}){hint}")

    return _ADDRESS.sub(found, value)


def reached_through(templates: Iterable[str]) -> frozenset[Visible]:
    """What can be seen of an agent that is given the addresses in these texts. Actions: the tools that we serve."""
    named = {name for text in templates for name in _ADDRESS.findall(text)}
    return frozenset(what for name in named for what in _LEADS_TO.get(name, ()))


def limit_of(turn: Turn, limit_s: float) -> float | None:
    """The time limit that the agent enforces itself; None if the scenario has its own.

    Exceeding the scenario's limit fails the step. Exceeding this one is an error, because the author set no limit.
    """
    return None if turn.deadline is not None else limit_s


def shown_url(url: str) -> str:
    """The URL without its query, which may contain a key."""
    return re.sub(r"\?[^#]*", "", url)
