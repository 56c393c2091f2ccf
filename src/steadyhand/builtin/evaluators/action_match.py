"""How checks find deeds by name, parameters, status and agent, and what the absence of one proves.

Names are compared as `records/deed_name.py` says; parameters match by subset. Of several agents, deeds carry the name
of the one that did them where the framework or the trace knows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator

from steadyhand.builtin.evaluators.text import excerpt
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.base import counted
from steadyhand.records.deed import HAPPENED, Deed
from steadyhand.records.deed_name import Meaning, ToolOffer, likeness, meaning, plain_name
from steadyhand.records.event import UNREADABLE, ActionStatus
from steadyhand.records.result import ExecutionResult
from steadyhand.runtime.values import Mismatch, as_list, differs_in_spelling, includes, mismatches
from steadyhand.suggestion import nearest

SPELLING = "that may be the same in another spelling"
EVERY: frozenset[ActionStatus] = frozenset(get_args(ActionStatus))


def _agent_name(name: str) -> str:
    if not plain_name(name):
        raise ValueError("the agent's name is empty; leave the key out to mean any")
    return name


def _action_name(action: str) -> str:
    if not plain_name(action):
        raise ValueError("the action's name is empty; give one such as 'SEND_MESSAGE'")
    return action


AgentName = Annotated[str, AfterValidator(_agent_name)]
ActionName = Annotated[str, AfterValidator(_action_name)]
Status = Literal["success", "error", "rejected", "invalid", "interrupted", "unknown", "any"]
STATUS = (
    "How it must have ended; `any` also counts what was only tried. Default: `success`, `error` or `unknown`; "
    "`any` for what must not happen"
)


def statuses(asked: Status | None, *, forbids: bool) -> frozenset[ActionStatus]:
    """Those that count. Unless the check says, whatever was tried counts against it, and what happened for it."""
    if asked is None:
        return EVERY if forbids else HAPPENED
    return EVERY if asked == "any" else frozenset((asked,))


def since_start_ms(deed: Deed, result: ExecutionResult) -> float:
    """When a deed began, in milliseconds since its step did."""
    return round(deed.at_ms - result.started_at_ms, 3)


def fits(deed: Deed, params: dict[str, Any], counting: frozenset[ActionStatus]) -> bool:
    return deed.status in counting and (not params or any(includes(given, params) for given in deed.given))


def deed_differences(deed: Deed, params: dict[str, Any], counting: frozenset[ActionStatus]) -> list[str]:
    """Why a deed of the right name does not match; empty when it does."""
    different = min((differences(params, given) for given in deed.given), key=len)
    return different if deed.status in counting else [*different, f"its status was {deed.status}"]


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


def unknown_outcome(named: Iterable[Deed], params: dict[str, Any], asked: Status | None) -> str | None:
    """Why a check on how something ended cannot be decided: that is not known of one that was done. None if it is."""
    if asked not in ("success", "error"):
        return None
    open_ended = (deed for deed in named if deed.status in ("unknown", "interrupted") and fits(deed, params, EVERY))
    return next((f"how {deed.name} ended is unknown" for deed in open_ended), None)


class DeedList:
    """The deeds of a step or turn, found by name, and what the agent was offered."""

    def __init__(self, result: ExecutionResult, context: EvaluationContext) -> None:
        self.all: list[Deed] = result.deeds
        self._result: ExecutionResult = result
        self._context: EvaluationContext = context
        offer = result.offer
        served = context.shows.served_only
        self._offer: ToolOffer | None = offer if offer is not None and (offer.complete or served) else None

    def called(self, name: str, *, forbids: bool) -> tuple[int, ...]:
        """The numbers, from 0, of the deeds that go by this name. What a check forbids may go by any of its names; what
        it requires is what the name means, without the calls that it was made of."""
        if forbids:
            return tuple(number for number, deed in enumerate(self.all) if likeness(name, deed.names) == "yes")
        return tuple(number for number in self._meaning(name).deeds if not self.all[number].inside)

    def ambiguous(self, name: str) -> str | None:
        """Why a check cannot require a deed of this name: it could be one of several. None if it is clear."""
        things = self._meaning(name).things
        return f"{name} could mean {' or '.join(things)}; name it in full" if len(things) > 1 else None

    def _meaning(self, name: str) -> Meaning:
        offered = () if self._result.offer is None else self._result.offer.tools
        return meaning(name, [deed.names for deed in self.all], [tool.names for tool in offered])

    def namesake(self, name: str, params: dict[str, Any], counting: frozenset[ActionStatus]) -> str | None:
        """Why it is not known how often this was done: one deed may or may not go by this name. None if none does."""
        for deed in self.all:
            if likeness(name, deed.names) == "maybe" and fits(deed, params, counting):
                return f"{deed.name} was seen, which may be the same as {name}; name it in full"
        return None

    def unoffered(self, names: Iterable[str]) -> str | None:
        """Why the absence of these deeds proves nothing: one of them was not offered. None if all were, or happened all
        the same, or if it is not known what was offered."""
        offer = self._offer
        if offer is None:
            return None
        missing = next((name for name in names if not offer.has(name) and not self._was_done(name)), None)
        if missing is None:
            return None
        if self.own_tools_unseen:
            return (
                f"{missing} is not one of the tools served to the agent (served: {offer}), and the agent's own tools "
                "cannot be seen; mock it, or have the agent export spans of its tool calls"
            )
        return never_offered(missing, offer)

    def _was_done(self, name: str) -> bool:
        return any(deed.status != "rejected" and likeness(name, deed.names) != "no" for deed in self.all)

    @property
    def own_tools_unseen(self) -> bool:
        """Whether the agent may have tools that we would not see it use."""
        return self._context.shows.served_only

    def unknown_agents(self, named: Iterable[str | None]) -> str | None:
        """Why the absence of these agents' deeds proves nothing: one of them never appears. None if all do."""
        seen = {
            each.agent: None
            for each in (*self.all, *self._result.trajectory, *self._result.calls)
            if each.agent is not None
        }
        known = {plain_name(name) for name in seen}
        missing = [name for name in dict.fromkeys(named) if name is not None and plain_name(name) not in known]
        if not missing:
            return None
        others = f"agents seen: {', '.join(seen)}" if seen else "no agents were named"
        return f"no agent called {missing[0]} was seen here ({others}), so the absence of actions proves nothing"

    def respelled(self, name: str, params: dict[str, Any], counting: frozenset[ActionStatus]) -> str | None:
        """Why the absence of such a deed proves nothing: one was done with these parameters in another spelling. None
        if none was."""
        for deed in self.all:
            if not params or deed.status not in counting or likeness(name, deed.names) != "yes":
                continue
            if any(differs_in_spelling(given, params) for given in deed.given):
                return f"{SPELLING}: {', and '.join(deed_differences(deed, params, EVERY))}"
        return None

    def unseen_arguments(self, alike: Iterable[Deed]) -> str | None:
        """Why a deed that is `alike` except for its parameters proves nothing: they are not reported, or cannot be
        read. None if they are known."""
        deeds = list(alike)
        if any(UNREADABLE in deed.params for deed in deeds):
            return "its parameters are unknown: they were not reported, or are not a JSON object"
        if self._context.shows.arguments or all(any(deed.given) for deed in deeds):
            return None
        return "its parameters are unknown: the agent's server does not report them"


def never_offered(name: str, offer: ToolOffer) -> str:
    near = next((found for names in offer.spellings if (found := nearest(name, names))), None)
    hint = f"; did you mean {near}?" if near else ""
    return f"{name} was never offered to the agent (offered: {excerpt(str(offer))}){hint}"
