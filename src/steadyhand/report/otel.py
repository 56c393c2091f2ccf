"""Trials as traces: one trace per trial, in the GenAI conventions, sent as OTLP/JSON to any collector.

A background thread sends them in batches, so that no trial waits. A note at the end reports what could not be sent.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import datetime
from http.client import HTTPMessage
from typing import IO, Any, cast
from urllib.parse import unquote

import msgspec

from steadyhand.errors import SetupError
from steadyhand.records.deed import deeds_in
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled, Observed, Thought
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.version import __version__

DEFAULT_ENDPOINT = "http://127.0.0.1:4318"
_BATCH = 64
_WAIT_S = 1.0
_SEND_S = 10.0
_END_S = 15.0
_MOST_WAITING = 10_000


class OtelEndpoint(msgspec.Struct, frozen=True):
    """The full endpoint URL, its headers, and the timeout of an export."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = _SEND_S


def endpoint_of(url: str, variables: Mapping[str, str]) -> OtelEndpoint:
    """The given endpoint, or that of OpenTelemetry's own variables. Raises `SetupError` for an invalid one."""
    own = variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    base = url or variables.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or DEFAULT_ENDPOINT
    full = own if own and not url else base if base.endswith("/v1/traces") else base.rstrip("/") + "/v1/traces"
    if not full.startswith(("http://", "https://")):
        raise SetupError(f"--otel: {full!r} is not a URL; expected http://HOST:PORT")
    # The variables' headers belong to the variables' endpoint, not to one that is named on the command line.
    given = "" if url else _of_traces("HEADERS", variables)
    pairs = (pair.partition("=") for pair in given.split(",") if "=" in pair)
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    return OtelEndpoint(url=full, headers=headers, timeout_s=_timeout_s(variables))


def _of_traces(name: str, variables: Mapping[str, str]) -> str:
    """A variable for traces only takes precedence over a general one."""
    found = variables.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or variables.get(f"OTEL_EXPORTER_OTLP_{name}")
    return found or ""


def _timeout_s(variables: Mapping[str, str]) -> float:
    given = _of_traces("TIMEOUT", variables)
    if not given:
        return _SEND_S
    if not given.isdigit() or not int(given):
        raise SetupError(f"--otel: OTEL_EXPORTER_OTLP_TIMEOUT is {given!r}; expected milliseconds, such as 10000")
    return int(given) / 1000


class OtelExporter:
    """Implements `ports.observer.RunObserver`. A trial is handed to a thread, and nothing more is done for it here."""

    def __init__(self, target: OtelEndpoint) -> None:
        self._target = target
        self._queue: queue.Queue[TrialRecord | None] = queue.Queue(_MOST_WAITING + 1)
        self._thread = threading.Thread(target=self._send_all, name="steadyhand --otel", daemon=True)
        self._run_id = ""
        self._given = 0
        self.sent = 0
        self.problem: str | None = None

    @property
    def lost(self) -> int:
        """Trials that were not exported. Known once the run has ended."""
        return self._given - self.sent

    @property
    def note(self) -> str | None:
        """What the user should know at the end; None when everything was sent."""
        if not self.lost:
            return None
        trials = "1 trial was" if self.lost == 1 else f"{self.lost} trials were"
        return f"--otel: {trials} not exported to {self._target.url}: {self.problem}"

    def run_started(self, header: RunHeader) -> None:
        self._run_id = header.id
        self._thread.start()

    def trial_started(self, key: TrialKey, name: str) -> None: ...

    def trial_finished(self, record: TrialRecord) -> None:
        self._given += 1
        if self._queue.qsize() < _MOST_WAITING:
            self._queue.put_nowait(record)
        else:
            self.problem = f"the collector is too slow: {_MOST_WAITING:,} trials were waiting for it"

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None:
        """Waits for the rest, for a limited time."""
        if not self._thread.is_alive():
            return
        self._queue.put_nowait(None)
        wait_s = _END_S if self.sent else min(_END_S, self._target.timeout_s + _WAIT_S)
        self._thread.join(wait_s)
        if self._thread.is_alive() and self.lost:
            self.problem = self.problem or f"the collector took more than {wait_s:g} s"

    def _send_all(self) -> None:
        ended = False
        while not ended:
            batch: list[TrialRecord] = []
            first = self._queue.get()
            ended = first is None
            if first is not None:
                batch.append(first)
                ended = self._more(batch)
            if batch:
                self._send(batch)

    def _more(self, batch: list[TrialRecord]) -> bool:
        """Add what comes soon; whether that was the end."""
        while len(batch) < _BATCH:
            try:
                record = self._queue.get(timeout=_WAIT_S)
            except queue.Empty:
                return False
            if record is None:
                return True
            batch.append(record)
        return False

    def _send(self, batch: list[TrialRecord]) -> None:
        try:
            spans = [span for record in batch for span in trial_spans(record, self._run_id)]
            headers = {"Content-Type": "application/json", "User-Agent": "steadyhand", **self._target.headers}
            request = urllib.request.Request(  # noqa: S310 - checked in endpoint_of
                self._target.url, data=json.dumps(export_of(spans)).encode(), headers=headers
            )
            opener = urllib.request.build_opener(_NoRedirect)
            with opener.open(request, timeout=self._target.timeout_s) as answer:
                answer.read()
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs these trials' export and nothing else
            self.problem = str(error) or type(error).__name__
        else:
            self.sent += len(batch)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The headers may hold a key, which belongs to the endpoint alone; and a POST that is redirected loses its body."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        raise OSError(f"it redirects ({code}) to {newurl}, which is not followed; give that URL if it is right")


def export_of(spans: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {"attributes": _attributes({"service.name": "steadyhand", "service.version": __version__})}
    scope = {"name": "steadyhand", "version": __version__}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def trial_spans(record: TrialRecord, run_id: str) -> list[dict[str, Any]]:
    """The trial as the root, its model calls and actions below it, and its evaluations as events of the root."""
    names = _Names(record, run_id)
    judged = record.judged
    root = names.span(
        f"trial {record.key.scenario_id}",
        0.0,
        record.duration_ms,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": record.agent,
            "gen_ai.request.model": record.model,
            "steadyhand.run.id": run_id,
            "steadyhand.scenario.id": record.key.scenario_id,
            "steadyhand.scenario.name": record.scenario_name,
            "steadyhand.trial": str(record.key),
            "steadyhand.verdict": judged.verdict.value,
            "steadyhand.latency_ms": judged.latency_ms,
            "steadyhand.latency.tier": judged.latency_tier,
        },
        parent=None,
        failed=judged.verdict is Verdict.ERROR,
    )
    root["events"] = [
        {
            "name": "gen_ai.evaluation.result",
            "timeUnixNano": names.at(record.duration_ms),
            "attributes": _attributes(
                {
                    "gen_ai.evaluation.name": result.name or result.type,
                    "gen_ai.evaluation.score.label": result.verdict.value,
                    "gen_ai.evaluation.explanation": result.message,
                }
            ),
        }
        for result in record.evaluations
    ]
    return [root, *_steps(record, names, root["spanId"])]


def _steps(record: TrialRecord, names: _Names, root: str) -> Iterable[dict[str, Any]]:
    results = {event.action_id: event.content for event in record.events if type(event) is Observed}
    for deed in deeds_in(record.events):
        result = results.get(deed.action_id) if deed.call is None else results.get(deed.action_id, deed.call.result)
        yield names.span(
            f"execute_tool {deed.name}",
            deed.at_ms,
            deed.at_ms + deed.duration_ms,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": deed.name,
                "gen_ai.tool.call.id": deed.action_id or None,
                "gen_ai.tool.call.arguments": json.dumps(deed.params),
                "gen_ai.tool.call.result": None if result is None else json.dumps(result),
                "gen_ai.agent.name": deed.agent,
                "steadyhand.status": deed.status,
                "steadyhand.names": list(deed.names),
            },
            parent=root,
            failed=deed.status not in ("success", "unknown"),
        )
    for event in record.events:
        if type(event) is ModelCalled:
            sent_ms = event.at_ms + _sent_ms(event)
            parts: list[dict[str, Any]] = [] if event.text is None else [{"type": "text", "content": event.text}]
            parts += [
                {"type": "tool_call", "id": each.id, "name": each.name, "arguments": each.arguments}
                for each in event.tool_calls
            ]
            yield names.span(
                f"chat {event.model}",
                sent_ms,
                sent_ms + (event.timing.latency_ms or 0.0),
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": event.model,
                    "gen_ai.agent.name": event.agent,
                    "gen_ai.usage.input_tokens": event.usage.input_tokens if event.usage else None,
                    "gen_ai.usage.output_tokens": event.usage.output_tokens if event.usage else None,
                    "gen_ai.response.finish_reasons": [event.finish.reason.value] if event.finish else None,
                    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]) if parts else None,
                    "steadyhand.purpose": event.purpose,
                    "error.type": event.error,
                },
                parent=root,
                failed=event.error is not None,
            )
        elif type(event) is Thought:
            text = json.dumps([{"role": "assistant", "parts": [{"type": "reasoning", "content": event.text}]}])
            yield names.span("thought", event.at_ms, event.at_ms, {"gen_ai.output.messages": text}, parent=root)


def _sent_ms(call: ModelCalled) -> float:
    """When the last attempt was sent, after the call began."""
    return (call.timing.attempts[-1].sent_ms or 0.0) if call.timing.attempts else 0.0


class _Names:
    """Ids and times of one trial's spans. The same record gives the same ids, so that exporting twice does not create a
    second trial."""

    def __init__(self, record: TrialRecord, run_id: str) -> None:
        self._seed = f"{run_id} {record.key} {record.started_at}"
        self._zero_ns = int(datetime.fromisoformat(record.started_at).timestamp() * 1e9)
        self._trace_id = hashlib.sha256(self._seed.encode()).hexdigest()[:32]
        self._count = 0

    def at(self, ms: float) -> str:
        return str(self._zero_ns + int(max(0.0, ms) * 1e6))

    def span(
        self,
        name: str,
        start_ms: float,
        end_ms: float,
        attributes: Mapping[str, Any],
        *,
        parent: str | None,
        failed: bool = False,
    ) -> dict[str, Any]:
        self._count += 1
        found = {
            "traceId": self._trace_id,
            "spanId": hashlib.sha256(f"{self._seed} {self._count}".encode()).hexdigest()[:16],
            "name": name,
            "kind": 1,
            "startTimeUnixNano": self.at(start_ms),
            "endTimeUnixNano": self.at(max(start_ms, end_ms)),
            "attributes": _attributes(attributes),
            "status": {"code": 2} if failed else {},
        }
        return found if parent is None else {**found, "parentSpanId": parent}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case list():
            return {"arrayValue": {"values": [_value(each) for each in cast("list[Any]", value)]}}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": str(value)}
