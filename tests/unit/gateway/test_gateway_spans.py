"""Exported spans: how they are read, and what they say about an agent."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from steadyhand.gateway.otlp import LARGEST_EXPORT, PROTOBUF, TraceSpan, UnreadableExport, read_export
from steadyhand.gateway.spans import read_spans
from steadyhand.records.event import ActionTaken, ModelCalled, Observed, Thought
from support.spans import a_span, a_tool, an_export

GEN_AI_136 = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "find_order",
    "gen_ai.tool.call.id": "c1",
    "tool_arguments": '{"number": "A-1"}',
    "tool_response": "on its way",
}
GEN_AI_NOW = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "find_order",
    "gen_ai.tool.call.id": "c1",
    "gen_ai.tool.call.arguments": {"number": "A-1"},
    "gen_ai.tool.call.result": "on its way",
}
OPEN_INFERENCE = {
    "openinference.span.kind": "TOOL",
    "tool.name": "find_order",
    "tool.parameters": '{"type": "object"}',
    "input.value": "{'number': 'A-1'}",
    "output.value": "on its way",
}


def _told(*spans: TraceSpan, **named: Any) -> list[Any]:
    return list(read_spans(spans, {span.span_id: span for span in spans}, at_ms=lambda ns: ns / 1e6, **named).events)


def _read(span: dict[str, Any]) -> TraceSpan:
    (found,) = read_export(an_export(span), "application/json")
    return found


@pytest.mark.parametrize("attributes", [GEN_AI_136, GEN_AI_NOW, OPEN_INFERENCE])
def test_a_tool_span_is_an_action_with_arguments_and_result(attributes):
    action, observed = _told(_read(a_span("execute_tool find_order", start_ms=5, end_ms=9, **attributes)))
    assert isinstance(action, ActionTaken)
    assert isinstance(observed, Observed)
    assert (action.name, action.params, action.status, action.at_ms, action.duration_ms, action.traced) == (
        "find_order", {"number": "A-1"}, "success", 5.0, 4.0, True,
    )  # fmt: skip
    assert (observed.action_id, observed.content) == (action.id, "on its way")


def test_a_span_that_failed_is_an_action_that_failed():
    span = a_span("t", **GEN_AI_NOW) | {"status": {"code": 2, "message": "no such order"}}
    del span["attributes"][-1]
    action, observed = _told(_read(span))
    assert (action.status, observed.content) == ("error", "no such order")


def test_a_tool_span_without_arguments_says_so():
    attributes = {name: value for name, value in GEN_AI_NOW.items() if "arguments" not in name}
    span = _read(a_span("t", **attributes))
    told = read_spans([span], {span.span_id: span}, at_ms=float)
    assert told.tools
    assert told.events[0].params == {"unreadable_arguments": ""}


@pytest.mark.parametrize(
    ("written", "only", "params"),
    [
        ('{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"account": "main"}}', None, {"account": "main"}),
        ('{"kwargs": {"account": "main"}}', None, {"account": "main"}),
        ('{"kwargs": {"a": 1}, "to": "ann"}', None, {"kwargs": {"a": 1}, "to": "ann"}),
        ("main", "account", {"account": "main"}),
        ("main", None, {"input": "main"}),
    ],
)
def test_arguments_are_taken_out_of_what_a_framework_wraps_them_in(written, only, params):
    span = _read(a_span("t", **{"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": written}))
    told = read_spans([span], {span.span_id: span}, at_ms=float, only_parameter=lambda _: only)
    assert told.events[0].params == params


def test_a_tool_call_of_the_vercel_sdk():
    held = {
        "ai.toolCall.name": "look",
        "ai.toolCall.id": "c1",
        "ai.toolCall.args": '{"a": 1}',
        "ai.toolCall.result": "7",
    }
    action, observed = _told(_read(a_span("ai.toolCall", **held)))
    assert (action.name, action.call_id, action.params, observed.content) == ("look", "c1", {"a": 1}, "7")


def test_an_mcp_client_within_the_tools_own_span_is_the_same_action():
    outer = _read(a_span("execute_tool find_order", number=1, **GEN_AI_NOW))
    inner = _read(
        a_span("tools/call find_order", number=2, parent=1, **{"gen_ai.tool.name": "find_order", "mcp.x": "tools/call"})
    )
    other = _read(a_span("execute_tool notify", number=3, parent=1, **{**GEN_AI_NOW, "gen_ai.tool.name": "notify"}))
    again = _read(a_span("execute_tool find_order", number=4, parent=1, **{**GEN_AI_NOW, "gen_ai.tool.call.id": "c2"}))
    names = [each.name for each in _told(outer, inner, other, again) if isinstance(each, ActionTaken)]
    assert names == ["find_order", "notify", "find_order"]


def test_actions_carry_the_name_of_the_agent_around_them():
    boss = _read(
        a_span("invoke_agent Desk", number=1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"})
    )
    helper = _read(a_span("agent", number=2, parent=1, **{"openinference.span.kind": "AGENT", "agent.name": "Refunds"}))
    tool = _read(a_span("t", number=3, parent=2, **GEN_AI_NOW))
    mine = _read(a_span("t", number=4, parent=1, **GEN_AI_NOW))
    assert [each.agent for each in _told(boss, helper, tool, mine) if isinstance(each, ActionTaken)] == [
        "Refunds",
        "Desk",
    ]


def test_a_chat_span_is_a_model_call_and_its_thoughts():
    output = [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Look it up."},
                {"type": "text", "content": "One moment."},
                {"type": "tool_call", "id": "c1", "name": "find_order", "arguments": '{"number": "A-1"}'},
            ],
        }
    ]
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-1", "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.finish_reasons": ["tool_calls"], "gen_ai.output.messages": json.dumps(output),
    }  # fmt: skip
    called, thought = _told(_read(a_span("chat gpt-x", start_ms=1, end_ms=8, **attributes)))
    assert isinstance(called, ModelCalled)
    assert thought == Thought(at_ms=8.0, text="Look it up.")
    assert (called.model, called.text, called.usage.input_tokens, called.finish.reason) == (
        "gpt-x-1", "One moment.", 12, "tool_calls",
    )  # fmt: skip
    assert called.tool_calls[0].arguments == {"number": "A-1"}
    assert called.timing.latency_ms == 7.0
    assert called.timing.spoiled, "a foreign clock is never graded"
    assert _told(_read(a_span("chat gpt-x", **attributes)), models=False) == [Thought(at_ms=1.0, text="Look it up.")]


def test_an_open_inference_llm_span_is_a_model_call():
    attributes = {
        "openinference.span.kind": "LLM", "llm.model_name": "gpt-x", "llm.token_count.prompt": 5,
        "llm.token_count.completion": 2, "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Hm.",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find_order",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"number": "A-1"}',
    }  # fmt: skip
    (called,) = _told(_read(a_span("ChatCompletion", **attributes)))
    assert (called.model, called.text, called.tool_calls[0].name, called.usage.output_tokens) == (
        "gpt-x", "Hm.", "find_order", 2,
    )  # fmt: skip


def test_spans_of_other_work_are_not_told():
    assert _told(_read(a_span("SELECT", **{"db.system": "sqlite"}))) == []


def test_spans_are_told_in_the_order_they_began():
    second = _read(a_span("b", number=2, start_ms=9, **{**GEN_AI_NOW, "gen_ai.tool.name": "second"}))
    first = _read(a_span("a", number=1, start_ms=3, **{**GEN_AI_NOW, "gen_ai.tool.name": "first"}))
    assert [each.name for each in _told(second, first) if isinstance(each, ActionTaken)] == ["first", "second"]


def test_gzip_and_protobuf_are_read_like_json():
    plain = an_export(a_span("t", number=7, parent=6, start_ms=5, **GEN_AI_NOW, n=3, f=0.5, b=True, a=["x", "y"]))
    expected = read_export(plain, "application/json; charset=utf-8")
    assert read_export(gzip.compress(plain), "application/json", "gzip") == expected
    service = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra `otel` is not installed"
    )
    from support.spans import as_protobuf

    assert read_export(as_protobuf(plain, service), PROTOBUF) == expected


@pytest.mark.parametrize(
    ("body", "kind", "status", "told"),
    [
        (b"{", "application/json", 400, "not an export of spans"),
        (b'{"resourceSpans": 3}', "application/json", 400, "is a int; expected a list"),
        (b"[1]", "application/json", 400, "not an export of spans"),
        (an_export({"traceId": "ab", "spanId": "cd", "name": "x"}), "application/json", 400, "of the right length"),
        (b"x", "text/plain", 415, "application/json"),
        (an_export(a_span("x")).replace(b'"0"', b"1e999"), "application/json", 400, "not an export of spans"),
        (an_export(a_span("x")).replace(b'"0"', b"Infinity"), "application/json", 400, "not an export of spans"),
        (b'{"resourceSpans": ' + b"[" * 200_000, "application/json", 400, "not an export of spans"),
        (b" " * (LARGEST_EXPORT + 1), "application/json", 413, "longer than"),
    ],
    ids=["cut", "number", "list", "ids", "text", "infinity", "no JSON", "nesting", "length"],
)
def test_an_invalid_export_is_refused(body, kind, status, told):
    with pytest.raises(UnreadableExport) as caught:
        read_export(body, kind)
    assert told in str(caught.value)
    assert caught.value.status == status


def test_what_opentelemetrys_own_sdk_makes_reads_the_same_as_protobuf_and_as_json():
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracer = provider.get_tracer("desk")
    with tracer.start_as_current_span("invoke_agent Desk"):
        attributes = {**GEN_AI_NOW, "gen_ai.tool.call.arguments": '{"number": "A-1"}', "n": 3, "x": 0.5, "ok": True}
        with tracer.start_as_current_span("execute_tool find_order", attributes=attributes) as span:
            span.add_event("gen_ai.choice", {"index": 0})
            span.set_status(StatusCode.ERROR, "no such order")
    request = encode_spans(exported.get_finished_spans())
    as_json = MessageToDict(request)
    for each in as_json["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # as OTLP requires, unlike protobuf
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:
                each[name] = base64.b64decode(each[name]).hex()
    protobuf = read_export(gzip.compress(request.SerializeToString()), PROTOBUF, "gzip")
    assert protobuf == read_export(json.dumps(as_json).encode(), "application/json")
    tool, root = protobuf
    assert tool.parent_id == root.span_id
    assert (tool.failed, tool.message, tool.attributes["n"], tool.events[0][0]) == (
        True, "no such order", 3, "gen_ai.choice",
    )  # fmt: skip


WITHOUT_THE_EXTRA = """\
import sys
sys.modules["opentelemetry"] = sys.modules["google"] = None
from steadyhand.gateway.otlp import PROTOBUF, UnreadableExport, protobuf_is_read, read_export
assert not protobuf_is_read()
print(read_export(sys.stdin.buffer.read(), "application/json")[0].name)
try:
    read_export(b"", PROTOBUF)
except UnreadableExport as error:
    print(error.status, error)
"""


def test_json_needs_no_extra():
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], input=an_export(a_span("a tool")), capture_output=True, check=True
    )
    name, refused = ended.stdout.decode().splitlines()
    assert name == "a tool"
    assert refused.startswith("415 reading spans as protobuf needs an extra: pip install 'steadyhand[otel]'")


def _wipe(number: int, parent: int) -> TraceSpan:
    return _read(a_tool("wipe", number=number, parent=parent))


def test_spans_inside_one_another_in_a_circle_hide_nothing():
    spans = [_wipe(1, 2), _wipe(2, 1)]
    told = read_spans(spans, {span.span_id: span for span in spans}, at_ms=float)
    assert [each.name for each in told.events if isinstance(each, ActionTaken)] == ["wipe", "wipe"]
    assert told.unordered == ("execute_tool wipe",)


def test_the_same_call_three_spans_deep_is_one_action():
    spans = [_wipe(1, 99), _wipe(2, 1), _wipe(3, 2), _wipe(4, 99)]
    told = read_spans(spans, {span.span_id: span for span in spans}, at_ms=float)
    assert [each.id for each in told.events if isinstance(each, ActionTaken)] == [f"span-{n:016x}" for n in (1, 4)]
    assert told.unordered == ()


@pytest.mark.no_cover
def test_a_chain_of_spans_is_walked_once():
    """Quadratic, this would take minutes."""
    spans = [_read(a_tool(f"t{number % 7}", number=number, parent=number - 1)) for number in range(1, 30_001)]
    told = read_spans(spans, {span.span_id: span for span in spans}, at_ms=float)
    assert len([each for each in told.events if isinstance(each, ActionTaken)]) == 7


@pytest.mark.no_cover
def test_long_arguments_that_are_no_json_count_as_unreadable():
    """Python's parser would take many seconds."""
    broken = "{" + "'a': [1, 2, 3], " * 500_000
    span = _read(a_span("t", **{**GEN_AI_NOW, "gen_ai.tool.call.arguments": broken}))
    assert _told(span)[0].params == {"unreadable_arguments": ""}


def test_a_numbered_attribute_with_thousands_of_digits_is_left_out():
    key = f"llm.output_messages.{'9' * 5_000}.message.content"
    span = _read(a_span("llm", **{"openinference.span.kind": "LLM", "llm.model_name": "m", key: "hidden"}))
    (called,) = _told(span)
    assert isinstance(called, ModelCalled)
    assert called.text is None
