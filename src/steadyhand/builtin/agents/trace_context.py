"""The trial's trace as the current context of OpenTelemetry, around a turn of an agent in our process.

Does nothing if OpenTelemetry is not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Generator
from typing import Any

_FLUSH_MS = 5000


@contextlib.contextmanager
def current_trace(traceparent: str | None) -> Generator[None]:
    """Spans that begin within become children of the turn's span."""
    if traceparent is None or importlib.util.find_spec("opentelemetry") is None:
        yield
        return
    try:
        from opentelemetry import context as otel_context
        from opentelemetry import trace as otel_trace
    except ImportError:
        yield
        return
    context: Any = otel_context
    trace: Any = otel_trace
    _, trace_id, span_id, _ = traceparent.split("-")
    span = trace.NonRecordingSpan(
        trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)


async def flush_spans() -> None:
    """Have the agent's exporter send what it has collected, if it has one: the turn is over."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if callable(flush):
        with contextlib.suppress(Exception):  # the trace is then incomplete, which is detected when it is read
            await asyncio.to_thread(flush, _FLUSH_MS)
