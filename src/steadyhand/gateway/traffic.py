"""What the model calls of an external agent tell of its actions: a witness of every tool call, without any glue.

A model call offers tools, its answer calls some of them, and the next request brings their results. The calls are only
kept while they pass, and read when the turn has ended. Where models are offered tools in this way and every turn asked
one, all that the agent's models had it do was seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, refusal
from steadyhand.gateway.server import Address, TrialEndpoint
from steadyhand.ports.agent import Addresses, Shows, TrialContext
from steadyhand.records.base import plain_object
from steadyhand.records.chat import ChatRequest, Message, ToolCall, ToolSpec
from steadyhand.records.deed_name import OfferedTool
from steadyhand.records.event import UNREADABLE, ActionStatus, ActionTaken, Noted, Observed, ToolsOffered
from steadyhand.records.tool_result import content_has_failed
from steadyhand.runtime.values import kept_part

MOUNT = "traffic"
_MOMENT_S = 0.1
NO_CALL = (
    "no model call of the agent has arrived at the gateway; have its client use the address in OPENAI_BASE_URL, "
    "OPENAI_API_BASE, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL or AWS_ENDPOINT_URL_BEDROCK_RUNTIME, or map "
    "{openai_base_url} or another in `env` of [agents]"
)


class ModelExchange(NamedTuple):
    """What is kept of one model call until its turn has ended."""

    asked_ms: float
    answered_ms: float
    tools: tuple[ToolSpec, ...]
    other_tools: tuple[str, ...]
    history: list[Message]
    """The calls in it and their results."""
    calls: tuple[ToolCall, ...]
    whole: bool


class ModelTraffic:
    """The model calls of one trial."""

    def __init__(self, trial: TrialContext) -> None:
        self._trial = trial
        self._passed: list[ModelExchange] = []
        self._offered: dict[str, OfferedTool] = {}
        self._waiting: dict[str, list[tuple[str, str]]] = {}
        """Calls without a result, as (action's id, name), by the model's id."""
        self._calls = 0
        self._any = False
        self._gap: str | None = None
        """Why some tool calls may not have been seen."""
        self._silent_turn = False
        self.late: list[str] = []

    def passed(self, asked_ms: float, request: ChatRequest, calls: tuple[ToolCall, ...], *, whole: bool) -> None:
        """A call has been answered, as a `whole` or in part."""
        history = [message for message in request.messages if message.tool_calls or message.role == "tool"]
        now_ms = self._trial.elapsed_ms()
        self._passed.append(ModelExchange(asked_ms, now_ms, request.tools, request.other_tools, history, calls, whole))

    def only_parameter(self, name: str) -> str | None:
        """The parameter of a tool that models were offered and that has no other; None if that is not known."""
        tool = self._offered.get(name)
        properties: Any = None if tool is None else msgspec.json.decode(tool.schema).get("properties")
        return next(iter(properties)) if isinstance(properties, dict) and len(properties) == 1 else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON

    def settle(self) -> None:
        """A turn has ended: emit what its model calls tell."""
        self._silent_turn = self._silent_turn or not self._passed
        self._tell()

    def leave(self) -> None:
        """The trial ends. What a model called after the last turn was checked is late."""
        self.late += [
            f"the model called {call.name} after the last turn that was checked"
            for exchange in self._passed
            for call in exchange.calls
        ]
        for message in self.late:
            self._trial.emit(Noted(at_ms=self._trial.elapsed_ms(), message=message, level="warning"))
        self._tell()

    def shows(self, declared: Shows) -> Shows:
        """What can be seen of the agent, given its model calls so far."""
        if not declared.acts:
            return declared
        if not self._any:
            unseen = declared.actions == "not_seen"
            return msgspec.structs.replace(declared, advice=f"{NO_CALL}; or {declared.advice}") if unseen else declared
        if not self._offered:
            why = (
                "its model calls passed the gateway, but offered no tools: the agent acts in some other way, if it does"
            )
            unseen = declared.actions == "not_seen"
            return msgspec.structs.replace(declared, advice=f"{why}; {declared.advice}") if unseen else declared
        if (gap := self._gap or (_SILENT if self._silent_turn else None)) is not None:
            kept = declared.actions in ("seen", "self_reported") and not declared.served_only
            return (
                declared
                if kept
                else msgspec.structs.replace(declared, actions="partly_seen", served_only=False, advice=gap)
            )
        return msgspec.structs.replace(declared, actions="seen", served_only=False)

    def _tell(self) -> None:
        passed, self._passed = self._passed, []
        taken: dict[str, tuple[ActionTaken, Observed | None]] = {}
        for exchange in passed:
            self._any = True
            self._offer(exchange)
            self._take_results(exchange, taken)
            for call in exchange.calls:
                action = self._action(call, exchange)
                taken[action.id] = (action, None)
        for action, observed in taken.values():
            self._trial.emit(action)
            if observed is not None:
                self._trial.emit(observed)

    def _offer(self, exchange: ModelExchange) -> None:
        new = [
            OfferedTool(name=tool.name, schema=msgspec.json.encode(plain_object(tool.parameters)).decode())
            for tool in exchange.tools
            if tool.name and tool.name not in self._offered
        ]
        if new:
            self._offered.update({tool.name: tool for tool in new})
            self._trial.emit(ToolsOffered(at_ms=exchange.asked_ms, tools=tuple(new), complete=not exchange.other_tools))
        if exchange.other_tools:
            kinds = ", ".join(exchange.other_tools)
            self._gap = f"its models are offered tools whose calls cannot be read at the gateway: {kinds}"
        if not exchange.whole:
            self._gap = self._gap or "the agent did not read an answer of its model to the end"

    def _action(self, call: ToolCall, exchange: ModelExchange) -> ActionTaken:
        self._calls += 1
        action_id = f"model-{self._calls}"
        self._waiting.setdefault(call.id, []).append((action_id, call.name))
        status: ActionStatus = "unknown"
        if call.raw is not None:
            status = "invalid"
        elif call.name not in {tool.name for tool in exchange.tools}:
            status = "rejected"
        return ActionTaken(
            at_ms=exchange.answered_ms,
            id=action_id,
            name=call.name,
            params=call.arguments if call.raw is None else {UNREADABLE: call.raw},
            status=status,
            call_id=call.id or None,
            relayed=True,
        )

    def _take_results(self, exchange: ModelExchange, taken: dict[str, tuple[ActionTaken, Observed | None]]) -> None:
        for message in _latest_results(exchange.history):
            waiting = self._waiting.get(message.tool_call_id or "")
            if not waiting:
                continue
            action_id, name = waiting.pop()
            kept, cut = kept_part(message.content)
            observed = Observed(at_ms=exchange.asked_ms, action_id=action_id, name=name, content=kept, cut=cut)
            if action_id not in taken:  # of a call in an earlier turn
                self._trial.emit(observed)
                continue
            action, _ = taken[action_id]
            if action.status == "unknown":
                action = msgspec.structs.replace(action, status=_outcome(message))
            taken[action_id] = (action, observed)


_SILENT = "in some turns no model call of the agent passed the gateway, so it is not known what it did in them"


def _latest_results(messages: Sequence[Message]) -> list[Message]:
    """The results that came after the last call with their id: ids may be used again, and histories are repeated."""
    found: dict[str, Message | None] = {}
    for message in messages:
        found.update(dict.fromkeys((call.id for call in message.tool_calls), None))
        if message.role == "tool":
            found[message.tool_call_id or ""] = message
    return [message for message in found.values() if message is not None]


def _outcome(message: Message) -> ActionStatus:
    """Success needs evidence: a text alone may be the message of an exception."""
    failed = content_has_failed(message.content) if message.failed is None else message.failed
    return "unknown" if failed is None else "error" if failed else "success"


class TrafficMount:
    """An `ObservingMount` that serves nothing itself: it reads what has passed the mounts for models."""

    def addresses(self, address: Address) -> Addresses:
        return Addresses()

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        return refusal(404, "nothing is served here")

    async def settle(self, endpoint: TrialEndpoint) -> None:
        if endpoint.model is None:
            return
        if endpoint.at_work:  # its client may have had the end of an answer before we did
            await asyncio.wait(tuple(endpoint.at_work), timeout=_MOMENT_S)
        traffic_of(endpoint).settle()

    async def leave(self, endpoint: TrialEndpoint) -> None:
        if endpoint.model is not None:
            traffic_of(endpoint).leave()

    def shows(self, endpoint: TrialEndpoint, declared: Shows) -> Shows:
        return declared if endpoint.model is None else traffic_of(endpoint).shows(declared)

    def doubts(self, endpoint: TrialEndpoint) -> tuple[str, ...]:
        return () if endpoint.model is None else tuple(traffic_of(endpoint).late)


def traffic_of(endpoint: TrialEndpoint) -> ModelTraffic:
    found: Any = endpoint.kept.get(MOUNT)
    if found is None:
        found = endpoint.kept[MOUNT] = ModelTraffic(endpoint.trial)
    return found
