"""The options that kinds of agents share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steadyhand.plugins.plugin import Options

DEFAULT_LIMIT_S = 300.0


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

    Which addresses there are depends on the run: `openai_base_url`, for one, only where a model is named. `workspace`
    and `database_url` are always there; without a database the latter is empty.
    """

    env: dict[str, str] = {}
