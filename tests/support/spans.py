"""Spans as OTLP/JSON, as an exporter sends them."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span_id(number: int) -> str:
    return f"{number:016x}"


def a_span(
    name: str,
    *,
    number: int = 1,
    parent: int | str | None = None,
    trace: str = TRACE,
    start_ms: float = 0.0,
    end_ms: float | None = None,
    now: bool = False,
    **attributes: Any,
) -> dict[str, Any]:
    """`parent` is a number, or the id of a span that is not ours. Times count from zero, or from `now`."""
    zero = time.time_ns() if now else 0
    end = start_ms + 1 if end_ms is None else end_ms
    return {
        "traceId": trace,
        "spanId": span_id(number),
        "parentSpanId": parent if isinstance(parent, str) else "" if parent is None else span_id(parent),
        "name": name,
        "startTimeUnixNano": str(zero + int(start_ms * 1e6)),
        "endTimeUnixNano": str(zero + int(end * 1e6)),
        "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
    }


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": _value(held)} for key, held in value.items()]}}
        case _:
            return {"stringValue": str(value)}


def a_tool(name: str, *, number: int = 1, params: dict[str, Any] | None = None, **span: Any) -> dict[str, Any]:
    return a_span(
        f"execute_tool {name}",
        number=number,
        **span,
        **{
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(params or {}),
        },
    )


def an_export(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def as_protobuf(export: bytes, service: Any) -> bytes:
    from google.protobuf.json_format import ParseDict

    value = json.loads(export)
    for resource in value["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(value, service.ExportTraceServiceRequest()).SerializeToString()
