"""The `python` agent in our own process, and what holds for it in any: its options, and what is seen of it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from pydantic import Field

from steadyhand.builtin.agents.addresses import reached_through
from steadyhand.builtin.agents.options import ProgramOptions
from steadyhand.builtin.agents.python_call import BLOCK_LIMIT_S, REACHES
from steadyhand.builtin.agents.python_callable import CallableAgent, CallLimits
from steadyhand.builtin.agents.trajectory import shows_of_program
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import Reply, Shows, Turn
from steadyhand.records.isolation import IsolationKind


class PythonOptions(ProgramOptions):
    block_limit_s: float = Field(default=BLOCK_LIMIT_S, gt=0)
    in_process: bool = False

    @property
    def limits(self) -> CallLimits:
        return CallLimits(turn_s=self.timeout_s, block_s=self.block_limit_s)


_ADVICE = (
    "return what the agent's framework returns, with its tool calls, or {'text': ..., 'tool_calls': []} if there were "
    "none; let its model calls go through the gateway (--model); use `action`, `get_service` or `workspace`, as a "
    "parameter; or map {mocks_url}, {mcp_url}, {workspace} or {database_url} in [agents.python.env]"
)
_TOLD_IN_PART = "in some turns it returned only text, which does not show what it did; return the whole result"


class PythonSight:
    """What can be seen of a `python:` agent: what it can report and reach through its parameters (`names`) and its
    `env`, and what it returns, if that includes its actions."""

    def __init__(self, settings: AgentSettings, options: PythonOptions, names: frozenset[str]) -> None:
        reached = {what for name in names for what in REACHES.get(name, ())}
        led = reached_through([*options.env.values(), *("{mcp_url}" for name in names if name == "mcp_url")])
        served = "actions" in led and "actions" not in reached
        self._base: Shows = shows_of_program(
            settings,
            Shows(
                actions="self_reported" if "actions" in reached else "seen" if served else "not_seen",
                services="seen" if "services" in reached | led else "not_seen",
                files="seen" if "files" in reached | led else "not_seen",
                database="seen" if "database" in reached | led else "not_seen",
                served_only=served,
                on_report=True,
                advice=_ADVICE,
            ),
        )
        self._reported: list[bool] = []

    def ended(self, *, reports: bool) -> None:
        """A turn has ended; `reports` is whether it returned the agent's actions too, or only a reply."""
        self._reported.append(reports)

    @property
    def shows(self) -> Shows:
        if not any(self._reported):
            return self._base
        if all(self._reported):
            return msgspec.structs.replace(self._base, actions="self_reported", on_report=False, served_only=False)
        if self._base.actions == "self_reported":
            return self._base
        return msgspec.structs.replace(self._base, actions="partly_seen", served_only=False, advice=_TOLD_IN_PART)


class PythonAgent(CallableAgent):
    """The agent in our own process."""

    isolation: ClassVar[IsolationKind] = "none"

    options: ClassVar[type[Options]] = PythonOptions

    def __init__(self, settings: AgentSettings, *, found: Any = None) -> None:
        """As `CallableAgent`. Raises `SetupError`."""
        options = read_options(PythonOptions, settings.options, f"agent python:{settings.target}")
        super().__init__(settings.target, settings.folder, options.limits, found=found)
        self._sight: PythonSight = PythonSight(settings, options, self.names)

    @property
    def shows(self) -> Shows:
        return self._sight.shows

    async def respond(self, turn: Turn) -> Reply:
        reply = await super().respond(turn)
        self._sight.ended(reports=self.reports_actions)
        return reply
