"""The OTLP receiver: assigns the spans that agents export to their trials.

A span belongs to the trial whose address it was sent to or, at the open address of the run (`--otlp-port`), to the
trial with its trace id. Each problem has one outcome:

- *out of order*: spans become events at the end of the turn, in the order in which they began;
- *duplicate*: the first one of a span id counts;
- *late*, after its turn was checked: an action is recorded and marked, and the trial can no longer pass;
- *foreign*, of no trial here: counted, and otherwise ignored;
- *incomplete*, when a span's parent is missing, nothing arrived although tools are declared to be traced, or an
  export could not be read: actions are partly seen, and can make a check fail but never pass.
"""

from __future__ import annotations

import asyncio
import hashlib
import time

from msgspec.structs import replace

from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, refusal
from steadyhand.gateway.otlp import PROTOBUF, TraceSpan, UnreadableExport, protobuf_is_read, read_export
from steadyhand.gateway.server import Address, GatewayServer, TrialEndpoint
from steadyhand.gateway.spans import kind_of, read_spans
from steadyhand.ports.agent import Addresses, Shows, TrialContext, turn_span_id
from steadyhand.records.event import ActionTaken, AnyEvent, Noted

MOUNT = "otlp"
WAIT_S = 6.0
"""Longer than the five seconds for which exporters batch spans by default."""
MOST_SPANS = 100_000
_DELAY_MS = 200
_CLOCKS_DIFFER_MS = 50.0


def trace_id_of(token: str) -> str:
    return hashlib.sha256(f"trace {token}".encode()).hexdigest()[:32]


class TrialTrace:
    """The spans of one trial, and the resulting state."""

    def __init__(self, trial: TrialContext, trace_id: str, *, models: bool) -> None:
        """With `models` false, model calls are recorded elsewhere, and not repeated."""
        self._trial = trial
        self._models = models
        self._spans: dict[str, TraceSpan] = {}
        self._untold: list[TraceSpan] = []
        self._arrived = asyncio.Event()
        self._zero_ns: int = time.time_ns() - int(trial.elapsed_ms() * 1e6)
        self._trace_id = trace_id
        self._ours: dict[str, int] = {turn_span_id(trace_id, 0): 0}
        self._turns = 0
        self._began_ms = 0.0
        self.problem: str | None = None
        """Why the trace is incomplete. If a turn lacked spans, the rest of the trial stays in doubt."""
        self._lost: str | None = None
        self.any = False
        self.tools_seen = False
        self.doubts: list[str] = []

    def take(self, spans: list[TraceSpan]) -> None:
        for span in spans:
            if span.span_id in self._spans:
                continue
            if len(self._spans) >= MOST_SPANS:
                self.lose(f"more than {MOST_SPANS:,} spans arrived")
                break
            self._spans[span.span_id] = span
            self._untold.append(span)
        self.any = True
        self._arrived.set()

    def lose(self, why: str) -> None:
        """Spans of this trial may have been lost for good."""
        if self._lost is None:
            self._lost = why
            self._emit(Noted(at_ms=self._trial.elapsed_ms(), message=f"the trace: {why}", level="warning"))
        self._arrived.set()

    async def settle(self, *, wait_s: float) -> None:
        """A turn has ended: wait for its spans, if any are expected, and emit their events."""
        declared = self._trial.shows.traced
        self._turns += 1
        self._ours[turn_span_id(self._trace_id, self._turns)] = self._turns
        until = asyncio.get_running_loop().time() + wait_s
        while (declared or self.any) and (problem := self._missing()) is not None:
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._arrived.wait()
            except TimeoutError:
                self.problem = self.problem or problem
                break
        self.problem = self.problem or self._lost
        self._tell(late_before=self._turns)
        self._began_ms = self._trial.elapsed_ms()

    def leave(self) -> None:
        """The trial ends: anything that arrived after the last turn was checked is late."""
        self._tell(late_before=self._turns + 1)
        self._spans.clear()

    def _missing(self) -> str | None:
        """What is still missing from the trace of the current turn."""
        if self._lost is not None:
            return None  # no use in waiting
        if not self._untold:
            return "no span of this turn has arrived"
        for span in self._untold:
            parent = span.parent_id
            if parent and parent not in self._spans and parent not in self._ours:
                return f"the span around {span.name!r} has not arrived"
        return None

    def _tell(self, *, late_before: int) -> None:
        spans, self._untold = self._untold, []
        on_time = [span for span in spans if self._turn_of(span) >= late_before]
        late = [span for span in spans if self._turn_of(span) < late_before]
        self._emit_all(on_time)
        self._emit_late(late)

    def _emit_all(self, spans: list[TraceSpan]) -> None:
        told = read_spans(spans, self._spans, at_ms=self._at_ms, models=self._models)
        self.tools_seen = self.tools_seen or told.tools
        for event in told.events:
            self._emit(event)
        if told.without_arguments:
            names = ", ".join(told.without_arguments)
            self.problem = self.problem or (
                f"the spans of {names} do not include the arguments; have the instrumentation record them"
            )

    def _emit_late(self, spans: list[TraceSpan]) -> None:
        tools = [span for span in spans if kind_of(span) == "tool"]
        if not tools:
            return
        for event in read_spans(tools, self._spans, at_ms=self._at_ms).events:
            if isinstance(event, ActionTaken):
                message = f"the action {event.name} was reported by the trace only after its turn had been checked"
                self._emit(Noted(at_ms=self._trial.elapsed_ms(), message=message, level="warning"))
                self.doubts.append(message)

    def _turn_of(self, span: TraceSpan) -> int:
        """The turn of an event: by our enclosing span, else by its time."""
        seen: set[str] = set()
        look = span
        while look.span_id not in seen:
            seen.add(look.span_id)
            number = self._ours.get(look.parent_id, 0)
            if number:
                return number
            outer = self._spans.get(look.parent_id)
            if outer is None:
                break
            look = outer
        before = (span.start_ns - self._zero_ns) / 1e6 < self._began_ms - _CLOCKS_DIFFER_MS
        return self._turns - 1 if before else self._turns

    def _at_ms(self, nanoseconds: int) -> float:
        """The agent's time converted to the trial's, clamped to the turn, because its clock may be wrong."""
        at_ms = (nanoseconds - self._zero_ns) / 1e6
        return round(min(max(at_ms, self._began_ms), self._trial.elapsed_ms()), 3)

    def _emit(self, event: AnyEvent) -> None:
        self._trial.emit(event)


class TraceReceiver:
    """A mount of the gateway, and the handler for the open address of a run.

    `wait_s` is how long the end of a turn waits for spans, if the agent's tools are declared to be traced (`Shows`) or
    spans of its trial have arrived.
    """

    def __init__(self, server: GatewayServer, *, wait_s: float = WAIT_S) -> None:
        self._server = server
        self._wait_s = wait_s
        self._tokens: dict[str, str] = {}
        self.foreign = 0
        """Spans of no trial."""
        server.mount_in_the_open("v1", self.serve_in_the_open)

    def addresses(self, address: Address) -> Addresses:
        """Independent of the trial, so that a program that serves many trials can keep it."""
        trace_id = trace_id_of(address.token)
        self._tokens[trace_id] = address.token
        endpoint = address.url(MOUNT)
        parent = f"00-{trace_id}-{turn_span_id(trace_id, 0)}-01"
        return Addresses(
            names={"otlp_endpoint": endpoint, "trace_id": trace_id, "traceparent": parent},
            variables={
                "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
                "OTEL_EXPORTER_OTLP_HEADERS": f"x-steadyhand-trace={trace_id}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf" if protobuf_is_read() else "http/json",
                "OTEL_BSP_SCHEDULE_DELAY": str(_DELAY_MS),
                "TRACEPARENT": parent,
            },
        )

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if not request.path.endswith("v1/traces"):
            return _accepted(request)  # metrics and logs, which the same variables may send here
        trace = self._trace(endpoint)
        try:
            trace.take(self._read(request))
        except UnreadableExport as error:
            trace.lose(str(error))
            return refusal(error.status, str(error))
        return _accepted(request)

    async def serve_in_the_open(self, request: GatewayRequest) -> GatewayResponse:
        """Spans that identify their trial only by the trace id."""
        if request.path != "v1/traces":
            return _accepted(request)
        try:
            spans = self._read(request)
        except UnreadableExport as error:
            for endpoint in self._server.endpoints:  # they may have been of any trial
                self._trace(endpoint).lose(str(error))
            return refusal(error.status, str(error))
        for trace_id in dict.fromkeys(span.trace_id for span in spans):
            own = [span for span in spans if span.trace_id == trace_id]
            endpoint = self._server.endpoint(self._tokens.get(trace_id, ""))
            if endpoint is None:
                self.foreign += len(own)
            else:
                self._trace(endpoint).take(own)
        return _accepted(request)

    async def settle(self, endpoint: TrialEndpoint) -> None:
        await self._trace(endpoint).settle(wait_s=self._wait_s)

    async def leave(self, endpoint: TrialEndpoint) -> None:
        self._trace(endpoint).leave()
        self._tokens.pop(trace_id_of(endpoint.address.token), None)

    def shows(self, endpoint: TrialEndpoint, declared: Shows) -> Shows:
        """What can be seen of the agent, given the trace so far."""
        trace: TrialTrace | None = endpoint.kept.get(MOUNT)
        if not declared.acts or (declared.actions == "seen" and not declared.served_only) or trace is None:
            return declared
        if trace.problem is not None and (declared.traced or trace.tools_seen):
            foreign = f"; {self.foreign} spans of other traces arrived" if self.foreign else ""
            advice = f"the trace is incomplete: {trace.problem}{foreign}"
            return replace(declared, actions="partly_seen", served_only=False, advice=advice)
        if trace.tools_seen or (declared.traced and trace.any):
            return replace(declared, actions="seen", served_only=False)
        return declared

    def doubts(self, endpoint: TrialEndpoint) -> tuple[str, ...]:
        trace: TrialTrace | None = endpoint.kept.get(MOUNT)
        return () if trace is None else tuple(trace.doubts)

    def _trace(self, endpoint: TrialEndpoint) -> TrialTrace:
        if MOUNT not in endpoint.kept:
            trace_id = trace_id_of(endpoint.address.token)
            endpoint.kept[MOUNT] = TrialTrace(endpoint.trial, trace_id, models=endpoint.model is None)
        return endpoint.kept[MOUNT]

    def _read(self, request: GatewayRequest) -> list[TraceSpan]:
        if request.method != "POST":
            raise UnreadableExport(f"send spans with POST, not with {request.method}", 405)
        return read_export(
            request.body, request.headers.get("content-type", ""), request.headers.get("content-encoding", "")
        )


def _accepted(request: GatewayRequest) -> GatewayResponse:
    """The response to a fully accepted export, in the format of the request."""
    if request.headers.get("content-type", "").startswith(PROTOBUF):
        return GatewayResponse(content_type=PROTOBUF)
    return GatewayResponse(body=b"{}")
