"""The options that kinds of agents share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steadyhand.plugins.plugin import Options

DEFAULT_LIMIT_S = 300.0


class TimedOptions(Options):
    """`timeout_s` is the time limit for a turn if the scenario sets none."""

    timeout_s: float = Field(default=DEFAULT_LIMIT_S, gt=0)


class TracedOptions(TimedOptions):
    """`traces` declares that the agent exports spans: `spans` covers some of what it does, `tools` every tool call, so
    that a missing span means that the tool was not called."""

    traces: Literal["spans", "tools"] | None = None


class A2aOptions(TracedOptions):
    """`api_key_env` names the variable that holds the agent's bearer token; `headers` go with every request."""

    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}


class ProgramOptions(TracedOptions):
    """For an agent that is a program: `env` are its environment variables, in which `{name}` is replaced by an address
    of the trial. The available addresses depend on the run: `openai_base_url`, for example, needs a model. `workspace`
    and `database_url` are always available; without a database, the latter is empty. `shows` declares that it reports
    every action, so that a turn without a report is one without an action.
    """

    env: dict[str, str] = {}
    shows: Literal["actions"] | None = None
