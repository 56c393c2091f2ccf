"""The OTLP receiver: assigns the spans that agents export to their trials.

A span belongs to the trial whose address it was sent to or, at the open address of the run (`--otlp-port`), to the
trial with its trace id. Each problem has one outcome:

- *out of order*: spans become events at the end of the turn, in the order in which they began;
- *duplicate*: the first one of a span id counts, and another one under the same id makes the trace incomplete;
- *late*, after its turn was checked: an action is recorded and marked, and the trial can no longer pass;
- *foreign*, of no trial here or, at a trial's own address, of another trial: counted, and otherwise ignored;
- *incomplete*, when a span's parent is missing, spans enclose one another in a circle, nothing arrived although tools
  are declared to be traced, an export could not be read, or there was too much to keep: actions are partly seen, and
  can make a check fail but never pass.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, refusal
from steadyhand.gateway.otlp import PROTOBUF, TraceSpan, UnreadableExport, protobuf_is_read, read_export, unpacked
from steadyhand.gateway.server import Address, GatewayServer, TrialEndpoint
from steadyhand.gateway.spans import SpanEvents, kind_of, read_spans
from steadyhand.gateway.traffic import traffic_of
from steadyhand.ports.agent import Addresses, Shows, TrialContext, turn_span_id
from steadyhand.records.event import ActionTaken, AnyEvent, Noted

MOUNT = "otlp"
WAIT_S = 6.0
"""Longer than the five seconds for which exporters batch spans by default."""
MOST_SPANS = 100_000
MOST_BYTES = 64 * 1024 * 1024
"""What the exports of one trial may add up to."""
_AT_ONCE_BYTES = 32 * 1024
_AT_ONCE_SPANS = 200
"""More than this is read on a thread: answers are being timed on the event loop."""
_DELAY_MS = 200
_Read = TypeVar("_Read")
_CLOCKS_DIFFER_MS = 50.0


def trace_id_of(token: str) -> str:
    return hashlib.sha256(f"trace {token}".encode()).hexdigest()[:32]


class TrialTrace:
    """The spans of one trial, and the resulting state."""

    def __init__(
        self, trial: TrialContext, trace_id: str, *, models: bool, only_parameter: Callable[[str], str | None]
    ) -> None:
        """With `models` false, model calls are recorded elsewhere, and not repeated."""
        self._trial = trial
        self._only_parameter = only_parameter
        self._models = models
        self._spans: dict[str, TraceSpan] = {}
        self._bytes = 0
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

    def has_room(self, size: int) -> bool:
        """Whether an export of this many bytes may still be read; if not, the trace is incomplete."""
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self.lose(f"its exports add up to more than {MOST_BYTES:,} bytes")
        return self._bytes <= MOST_BYTES

    def take(self, spans: list[TraceSpan]) -> None:
        for span in spans:
            if (same := self._spans.get(span.span_id)) is not None:
                if same != span:
                    self.lose(f"two different spans have the id {span.span_id}")
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
        await self._tell(late_before=self._turns)
        self._began_ms = self._trial.elapsed_ms()

    async def leave(self) -> None:
        """The trial ends: anything that arrived after the last turn was checked is late."""
        await self._tell(late_before=self._turns + 1)
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

    async def _tell(self, *, late_before: int) -> None:
        spans, self._untold = self._untold, []
        if len(self._spans) <= _AT_ONCE_SPANS:
            found, late = self._interpreted(spans, self._spans, late_before)
        else:
            found, late = await asyncio.to_thread(self._interpreted, spans, dict(self._spans), late_before)
        self.tools_seen = self.tools_seen or found.tools
        for event in found.events:
            self._emit(event)
        if found.unordered:
            names = ", ".join(found.unordered)
            self.problem = self.problem or f"the spans {names} enclose one another in a circle"
        self._emit_late(late)

    def _interpreted(
        self, spans: list[TraceSpan], known: dict[str, TraceSpan], late_before: int
    ) -> tuple[SpanEvents, SpanEvents]:
        """The events of the spans that are on time, and of the tools among those that are late."""
        turns = self._turns_of(spans, known)
        on_time = [span for span, turn in zip(spans, turns, strict=True) if turn >= late_before]
        late = [span for span, turn in zip(spans, turns, strict=True) if turn < late_before and kind_of(span) == "tool"]
        found = read_spans(on_time, known, at_ms=self._at_ms, models=self._models, only_parameter=self._only_parameter)
        return found, read_spans(late, known, at_ms=self._at_ms) if late else SpanEvents()

    def _emit_late(self, late: SpanEvents) -> None:
        for event in late.events:
            if isinstance(event, ActionTaken):
                message = f"the action {event.name} was reported by the trace only after its turn had been checked"
                self._emit(Noted(at_ms=self._trial.elapsed_ms(), message=message, level="warning"))
                self.doubts.append(message)

    def _turns_of(self, spans: list[TraceSpan], known: dict[str, TraceSpan]) -> list[int]:
        """The turns of spans: by our enclosing span, else by their time. Each span is looked at once."""
        enclosing: dict[str, int] = {}
        """The turn of our span around a span, by its id; 0 if there is none."""
        found: list[int] = []
        for span in spans:
            path: list[str] = []
            look: TraceSpan | None = span
            number = 0
            while look is not None:
                if look.span_id in enclosing:
                    number = enclosing[look.span_id]
                    break
                enclosing[look.span_id] = 0  # a circle ends here
                path.append(look.span_id)
                number = self._ours.get(look.parent_id, 0)
                if number:
                    break
                look = known.get(look.parent_id)
            enclosing.update(dict.fromkeys(path, number))
            before = (span.start_ns - self._zero_ns) / 1e6 < self._began_ms - _CLOCKS_DIFFER_MS
            found.append(number or (self._turns - 1 if before else self._turns))
        return found

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
                "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
                "TRACEPARENT": parent,
            },
        )

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if not request.path.endswith("v1/traces"):
            return _accepted(request)  # metrics and logs, which the same variables may send here
        if request.method != "POST":
            return _not_an_export(request)
        trace = self._trace(endpoint)
        try:
            body = await _off_the_loop(unpacked, request.body, request.headers.get("content-encoding", ""))
            if not trace.has_room(len(body)):
                return refusal(413, f"the exports of this trial add up to more than {MOST_BYTES} bytes")
            spans = await _off_the_loop(read_export, body, request.headers.get("content-type", ""))
        except UnreadableExport as error:
            trace.lose(str(error))
            return refusal(error.status, str(error))
        own = [span for span in spans if self._endpoint(span.trace_id) in (None, endpoint)]
        if len(own) < len(spans):
            self.foreign += len(spans) - len(own)
            trace.lose("spans with the trace id of another trial arrived at this trial's address")
        trace.take(own)
        return _accepted(request)

    async def serve_in_the_open(self, request: GatewayRequest) -> GatewayResponse:
        """Spans that identify their trial only by the trace id."""
        if request.path != "v1/traces":
            return _accepted(request)
        if request.method != "POST":
            return _not_an_export(request)
        try:
            body = await _off_the_loop(unpacked, request.body, request.headers.get("content-encoding", ""))
            spans = await _off_the_loop(read_export, body, request.headers.get("content-type", ""))
        except UnreadableExport as error:
            for endpoint in self._server.endpoints:  # they may have been of any trial
                self._trace(endpoint).lose(str(error))
            return refusal(error.status, str(error))
        traces: dict[str, list[TraceSpan]] = {}
        for span in spans:
            traces.setdefault(span.trace_id, []).append(span)
        for trace_id, own in traces.items():
            endpoint = self._endpoint(trace_id)
            if endpoint is None:
                self.foreign += len(own)
            elif (trace := self._trace(endpoint)).has_room(len(body)):
                trace.take(own)
        return _accepted(request)

    async def settle(self, endpoint: TrialEndpoint) -> None:
        await self._trace(endpoint).settle(wait_s=self._wait_s)

    async def leave(self, endpoint: TrialEndpoint) -> None:
        await self._trace(endpoint).leave()
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

    def _endpoint(self, trace_id: str) -> TrialEndpoint | None:
        """The running trial that has this trace id. Agents that we start may use any other at their own address."""
        return self._server.endpoint(self._tokens.get(trace_id, ""))

    def _trace(self, endpoint: TrialEndpoint) -> TrialTrace:
        if MOUNT not in endpoint.kept:
            trace_id = trace_id_of(endpoint.address.token)
            endpoint.kept[MOUNT] = TrialTrace(
                endpoint.trial,
                trace_id,
                models=endpoint.model is None,
                only_parameter=traffic_of(endpoint).only_parameter,
            )
        return endpoint.kept[MOUNT]


async def _off_the_loop(read: Callable[[bytes, str], _Read], body: bytes, header: str) -> _Read:
    if len(body) <= _AT_ONCE_BYTES and not (read is unpacked and header):
        return read(body, header)
    return await asyncio.to_thread(read, body, header)


def _not_an_export(request: GatewayRequest) -> GatewayResponse:
    """A question such as OPTIONS, which carries no spans and so loses none."""
    return refusal(405, f"send spans with POST, not with {request.method}")


def _accepted(request: GatewayRequest) -> GatewayResponse:
    """The response to a fully accepted export, in the format of the request."""
    if request.headers.get("content-type", "").startswith(PROTOBUF):
        return GatewayResponse(content_type=PROTOBUF)
    return GatewayResponse(body=b"{}")
