"""Bedrock's Converse: what a client sends is read, and what it expects is written."""

from __future__ import annotations

import json
import struct
import zlib

from steadyhand.records.chat import Attempt, ChatResponse, FinishReason, ToolCall, ToolSpec, Usage
from steadyhand.wire.bedrock_converse import BedrockConverse
from steadyhand.wire.dialect import events

USE = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"n": 1}}}
BODY = {
    "system": [{"text": "Be short."}],
    "messages": [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "gone"}]}},
        ]},
    ],
    "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]},
    "inferenceConfig": {"maxTokens": 9},
}  # fmt: skip
ANSWER = ChatResponse(
    text="Well.", attempt=Attempt(started_ms=0.0), tool_calls=(ToolCall(id="c1", name="look", arguments={"n": 1}),),
    usage=Usage(input_tokens=3, output_tokens=2), finish_reason=FinishReason.TOOL_CALLS,
)  # fmt: skip


def _frames(data: bytes):
    while data:
        size, headers, checksum = struct.unpack(">III", data[:12])
        assert checksum == zlib.crc32(data[:8])
        assert struct.unpack(">I", data[size - 4 : size])[0] == zlib.crc32(data[: size - 4])
        name = data[12 : 12 + headers].split(b":event-type\x07")[1]
        yield name[2 : 2 + name[1]].decode(), json.loads(data[12 + headers : size - 4])
        data = data[size:]


def test_a_request_is_read():
    request = BedrockConverse().read(BODY)
    assert [(each.role, each.content, each.tool_call_id, each.failed) for each in request.messages] == [
        ("system", "Be short.", None, None),
        ("user", "Look.", None, None),
        ("assistant", "", None, None),
        ("tool", "gone", "c1", True),
    ]
    assert request.messages[2].tool_calls == (ToolCall(id="c1", name="look", arguments={"n": 1}),)
    assert (request.tools, request.max_tokens) == ((ToolSpec(name="look", parameters={"type": "object"}),), 9)


def test_an_answer_is_written_whole_and_streamed():
    whole = BedrockConverse().whole(ANSWER, {})
    assert (whole["output"]["message"]["content"], whole["stopReason"]) == ([{"text": "Well."}, USE], "tool_use")
    assert [
        (name, held.get("delta") or held.get("start")) for name, held in _frames(events(BedrockConverse(), ANSWER, {}))
    ] == [
        ("messageStart", None),
        ("contentBlockDelta", {"text": "Well."}),
        ("contentBlockStop", None),
        ("contentBlockStart", {"toolUse": {"toolUseId": "c1", "name": "look"}}),
        ("contentBlockDelta", {"toolUse": {"input": '{"n":1}'}}),
        ("contentBlockStop", None),
        ("messageStop", None),
        ("metadata", None),
    ]
