"""Whose an action is, and whether we would have seen it: what silence about an action is worth.

Of several agents, actions carry the name of the one that took them where the framework or the trace knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import AfterValidator

from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.event import ServiceCalled, TrajectoryStep
from steadyhand.records.result import ExecutionResult

_QUALIFIER = re.compile(r"__|[./:]")


def plain_name(name: str) -> str:
    """A name without what spellings differ in: case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").casefold()


def _agent_name(name: str) -> str:
    if not plain_name(name).strip():
        raise ValueError("the agent's name is empty; leave the key out to mean any")
    return name


AgentName = Annotated[str, AfterValidator(_agent_name)]


def is_by(agent: str | None, doer: str | None) -> bool:
    return agent is None or (doer is not None and plain_name(doer) == plain_name(agent))


def unknown_agents(named: Iterable[str | None], result: ExecutionResult) -> str | None:
    """Why silence about these agents proves nothing: one of them never appears. None if all do."""
    seen = {each.agent: None for each in (*result.trajectory, *result.calls) if each.agent is not None}
    known = {plain_name(name) for name in seen}
    missing = [name for name in dict.fromkeys(named) if name is not None and plain_name(name) not in known]
    if not missing:
        return None
    others = f"agents seen: {', '.join(seen)}" if seen else "no agents were named"
    return f"no agent called {missing[0]} was seen here ({others}), so the absence of actions proves nothing"


async def unserved(names: Iterable[str], actions: Sequence[TrajectoryStep], context: EvaluationContext) -> str | None:
    """Why silence about these actions proves nothing: we see the tools that we serve, and one of them is no such tool.

    None if all of them are, or happened, or if all actions of the agent are seen anyway.
    """
    if not context.shows.served_only:
        return None
    services = context.trial.services
    served = {mock.method for mock in context.scenario.setup.mocks}
    if services is not None:
        served |= {*services.actions, *(each.method for each in await services.offered())}
    known = {plain_name(name) for name in (*served, *(step.name or "" for step in actions))}
    missing = [name for name in dict.fromkeys(names) if plain_name(name) not in known]
    if not missing:
        return None
    return (
        f"{missing[0]} is not one of the tools served to the agent (served: {', '.join(sorted(served)) or 'none'}), "
        "and the agent's own tools cannot be seen; mock it, or have the agent export spans of its tool calls"
    )


def namesake(names: Iterable[str], actions: Sequence[TrajectoryStep]) -> str | None:
    """Why silence about these actions proves nothing: one was taken that has such a name at the end of a longer one,
    as tools of MCP servers have it in many frameworks (`mcp__shop__refund`, `shop.refund`). None if none was."""
    wanted = {plain_name(name): name for name in names}
    for step in actions:
        last = _QUALIFIER.split(step.name or "")[-1]
        if last != step.name and plain_name(last) in wanted:
            return f"{step.name} was seen, which may be the same as {wanted[plain_name(last)]}; name it in full"
    return None


def unseen_arguments(alike: Iterable[TrajectoryStep], context: EvaluationContext) -> str | None:
    """Why an action that is `alike` but for its parameters proves nothing: we are not told them. None if we are."""
    if context.shows.arguments or all(step.params for step in alike):
        return None
    return "its parameters are unknown: the agent's server does not report them"


def caller_of(call: ServiceCalled, actions: Sequence[TrajectoryStep]) -> str | None:
    """The agent that called a service: the one whose action was under way, if that is known and only one was."""
    around = {
        action.agent
        for action in actions
        if action.duration_ms and action.at_ms <= call.at_ms <= action.at_ms + action.duration_ms
    }
    return around.pop() if len(around) == 1 else None
