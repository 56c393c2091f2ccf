"""How checks match actions, which agent took one, and whether we would have seen it: what its absence proves.

Names are compared ignoring case, `_` and `-`; parameters match by subset. Of several agents, actions carry the name of
the one that took them where the framework or the trace knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from steadyhand.builtin.evaluators.text import excerpt
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.base import counted
from steadyhand.records.event import ServiceCalled, TrajectoryStep
from steadyhand.records.result import ExecutionResult
from steadyhand.runtime.values import Mismatch, as_list, differs_in_spelling, includes, mismatches

_QUALIFIER = re.compile(r"__|[./:]")
SPELLING = "that may be the same in another spelling"


def plain_name(name: str) -> str:
    """A name in the form in which names are compared, ignoring case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").casefold()


def _agent_name(name: str) -> str:
    if not plain_name(name).strip():
        raise ValueError("the agent's name is empty; leave the key out to mean any")
    return name


def _action_name(action: str) -> str:
    if not plain_name(action).strip():
        raise ValueError("the action's name is empty; give one such as 'SEND_MESSAGE'")
    return action


AgentName = Annotated[str, AfterValidator(_agent_name)]
ActionName = Annotated[str, AfterValidator(_action_name)]
Status = Literal["success", "error", "any"]


def actions_of(result: ExecutionResult) -> list[TrajectoryStep]:
    """In the order they began."""
    return [step for step in result.trajectory if step.type == "action"]


def since_start_ms(step: TrajectoryStep, result: ExecutionResult) -> float:
    """When an action began, in milliseconds since its step did."""
    return round(step.at_ms - result.started_at_ms, 3)


def matches(step: TrajectoryStep, name: str, params: dict[str, Any], status: str) -> bool:
    return (
        plain_name(step.name or "") == plain_name(name)
        and status in ("any", step.status)
        and (not params or includes(step.params, params))
    )


def action_differences(step: TrajectoryStep, params: dict[str, Any], status: str) -> list[str]:
    """Why an action of the right name does not match; empty when it does."""
    different = differences(params, step.params)
    return different if status in ("any", step.status) else [*different, f"its status was {step.status or 'unknown'}"]


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Where `found` lacks what is `wanted`, such as `amount was 20, not 50`."""
    return [_difference(mismatch) for mismatch in mismatches(found, wanted, where)]


def _difference(mismatch: Mismatch) -> str:
    if mismatch.kind == "missing":
        return f"{mismatch.path} was not given"
    if mismatch.kind == "length":
        found, wanted = len(as_list(mismatch.found) or ()), len(as_list(mismatch.expected) or ())
        return f"{mismatch.path} had {counted(found, 'entry', 'entries')}, not {wanted}"
    return f"{mismatch.path} was {excerpt(repr(mismatch.found))}, not {excerpt(repr(mismatch.expected))}"


def is_by(agent: str | None, doer: str | None) -> bool:
    return agent is None or (doer is not None and plain_name(doer) == plain_name(agent))


def unknown_agents(named: Iterable[str | None], result: ExecutionResult) -> str | None:
    """Why the absence of these agents' actions proves nothing: one of them never appears. None if all do."""
    seen = {each.agent: None for each in (*result.trajectory, *result.calls) if each.agent is not None}
    known = {plain_name(name) for name in seen}
    missing = [name for name in dict.fromkeys(named) if name is not None and plain_name(name) not in known]
    if not missing:
        return None
    others = f"agents seen: {', '.join(seen)}" if seen else "no agents were named"
    return f"no agent called {missing[0]} was seen here ({others}), so the absence of actions proves nothing"


async def unserved(names: Iterable[str], actions: Sequence[TrajectoryStep], context: EvaluationContext) -> str | None:
    """Why the absence of these actions proves nothing: we see the tools that we serve, and one of them is no such tool.

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
    """Why the absence of these actions proves nothing: one was taken that has such a name at the end of a longer one,
    as tools of MCP servers have it in many frameworks (`mcp__shop__refund`, `shop.refund`). None if none was."""
    wanted = {plain_name(name): name for name in names}
    for step in actions:
        last = _QUALIFIER.split(step.name or "")[-1]
        if last != step.name and plain_name(last) in wanted:
            return f"{step.name} was seen, which may be the same as {wanted[plain_name(last)]}; name it in full"
    return None


def respelled(name: str, params: dict[str, Any], status: str, actions: Iterable[TrajectoryStep]) -> str | None:
    """Why the absence of such an action proves nothing: one was taken with these parameters in another spelling. None
    if none was."""
    for step in actions:
        if params and matches(step, name, {}, status) and differs_in_spelling(step.params, params):
            return f"{SPELLING}: {', and '.join(differences(params, step.params))}"
    return None


def unseen_arguments(alike: Iterable[TrajectoryStep], context: EvaluationContext) -> str | None:
    """Why an action that is `alike` except for its parameters proves nothing: they are not reported. None if they
    are."""
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
