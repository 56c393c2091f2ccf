"""Reads OTLP over HTTP: the body of an export as spans. JSON needs nothing; protobuf needs the extra `otel`."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from steadyhand.records.base import Record

LARGEST_EXPORT = 16 * 1024 * 1024
PROTOBUF = "application/x-protobuf"
_ERROR = (2, "2", "STATUS_CODE_ERROR")


class TraceSpan(Record):
    """A span as it was exported. Ids are hexadecimal, `parent_id` is empty for a root, times are from its own clock."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    attributes: dict[str, Any] = {}
    failed: bool = False
    message: str = ""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()


class UnreadableExport(ValueError):
    """The body is not a readable export; `status` is the response status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status: int = status


def protobuf_is_read() -> bool:
    """Whether the extra `otel` is installed."""
    try:
        import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 # pyright: ignore[reportUnusedImport, reportMissingTypeStubs] - looked for
    except ImportError:
        return False
    return True


def read_export(body: bytes, content_type: str, encoding: str = "") -> list[TraceSpan]:
    """Raises `UnreadableExport`, whatever is wrong with it."""
    body = unpacked(body, encoding)
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in ("application/json", PROTOBUF):
        raise UnreadableExport(f"spans are read as application/json or {PROTOBUF}, not as {kind or 'nothing'}", 415)
    try:
        if kind == PROTOBUF:
            return _spans(_from_protobuf(body), _base64_id)
        return _spans(msgspec.json.decode(body), _hex_id)
    except UnreadableExport:
        raise
    except Exception as error:
        # Times of infinity, nesting without end, text where a list belongs: an export that cannot be read has many
        # forms, and each of them may have contained an action.
        raise UnreadableExport(f"this is not an export of spans: {type(error).__name__}: {error}") from error


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body without its compression. Raises `UnreadableExport` if it is too long or cannot be decompressed."""
    if len(body) > LARGEST_EXPORT:
        raise UnreadableExport(f"the export is longer than {LARGEST_EXPORT} bytes", 413)
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "deflate":
            unpack = zlib.decompressobj(47)
            try:
                plain = unpack.decompress(body, LARGEST_EXPORT)
            except zlib.error as error:
                raise UnreadableExport(f"the export cannot be decompressed: {error}") from error
            if unpack.unconsumed_tail:
                raise UnreadableExport(f"the export is longer than {LARGEST_EXPORT} bytes", 413)
            return plain
        case other:
            raise UnreadableExport(f"the export is encoded as {other}; expected gzip or none", 415)


def _from_protobuf(body: bytes) -> Any:
    try:
        from google.protobuf.json_format import MessageToDict  # pyright: ignore[reportMissingModuleSource, reportMissingTypeStubs, reportUnknownVariableType] - the extra may not be there
        from google.protobuf.message import DecodeError  # pyright: ignore[reportMissingModuleSource, reportMissingTypeStubs, reportUnknownVariableType] - likewise
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # pyright: ignore[reportMissingTypeStubs] - likewise
            ExportTraceServiceRequest,
        )
    except ImportError:
        raise UnreadableExport(
            "reading spans as protobuf needs an extra: pip install 'steadyhand[otel]'; or let the exporter send JSON "
            "(OTEL_EXPORTER_OTLP_PROTOCOL=http/json)",
            415,
        ) from None
    request: Any = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise UnreadableExport(f"this is not an export of spans as protobuf: {error}") from error
    return cast("Any", MessageToDict(request))


def _hex_id(value: Any) -> str:
    return str(value or "").lower()


def _base64_id(value: Any) -> str:
    try:
        return base64.b64decode(str(value or "")).hex()
    except binascii.Error as error:
        raise UnreadableExport(f"a span has the id {value!r}") from error


def _spans(export: Any, read_id: Any) -> list[TraceSpan]:
    found: list[TraceSpan] = []
    for resource in _listed(export, "resourceSpans"):
        for scope in _listed(resource, "scopeSpans"):
            found += [_span(span, read_id) for span in _listed(scope, "spans")]
    return found


def _span(span: Mapping[str, Any], read_id: Any) -> TraceSpan:
    trace_id, span_id = read_id(span.get("traceId")), read_id(span.get("spanId"))
    if len(trace_id) != 32 or len(span_id) != 16:
        raise UnreadableExport(f"the span {span.get('name')!r} has no trace id and span id of the right length")
    status: Mapping[str, Any] = span.get("status") or {}
    return TraceSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=read_id(span.get("parentSpanId")),
        name=str(span.get("name") or ""),
        start_ns=int(span.get("startTimeUnixNano") or 0),
        end_ns=int(span.get("endTimeUnixNano") or 0),
        attributes=_attributes(_listed(span, "attributes")),
        failed=status.get("code") in _ERROR,
        message=str(status.get("message") or ""),
        events=tuple(
            (str(event.get("name") or ""), _attributes(_listed(event, "attributes")))
            for event in _listed(span, "events")
        ),
    )


def _listed(value: Any, name: str) -> list[Mapping[str, Any]]:
    held = value.get(name)
    if held is None:
        return []
    if not isinstance(held, list):
        raise UnreadableExport(f"`{name}` is a {type(held).__name__}; expected a list")
    return cast("list[Mapping[str, Any]]", held)


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        return None
    kind, held = next(iter(cast("Mapping[str, Any]", value).items()))
    match kind:
        case "intValue":
            return int(held)
        case "doubleValue":
            return float(held)
        case "arrayValue":
            return [_value(each) for each in _listed(held, "values")]
        case "kvlistValue":
            return _attributes(_listed(held, "values"))
        case _:
            return held
