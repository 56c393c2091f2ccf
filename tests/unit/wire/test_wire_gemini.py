"""Gemini's `generateContent`: what a client sends is read, and what it expects is written."""

from __future__ import annotations

import json

from steadyhand.records.chat import Attempt, ChatResponse, FinishReason, ToolCall, ToolSpec, Usage
from steadyhand.wire.dialect import events
from steadyhand.wire.gemini import Gemini

CALL = {"functionCall": {"name": "look", "args": {"n": 1}}}
SCHEMA = {"type": "OBJECT", "properties": {"n": {"type": "NUMBER"}}}
BODY = {
    "systemInstruction": {"parts": [{"text": "Be short."}], "role": "user"},
    "contents": [
        {"role": "user", "parts": [{"text": "Look "}, {"text": "twice."}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, CALL, CALL]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "look", "response": {"result": 7}}},
            {"functionResponse": {"name": "look", "response": {"error": "gone"}}},
        ]},
    ],
    "tools": [
        {"functionDeclarations": [{"name": "look", "parameters": SCHEMA}]},
        {"googleSearch": {}},
    ],
    "generationConfig": {"temperature": 0.5, "maxOutputTokens": 9},
}  # fmt: skip
ANSWER = ChatResponse(
    text="Well.", attempt=Attempt(started_ms=0.0), tool_calls=(ToolCall(id="c1", name="look", arguments={"n": 1}),),
    usage=Usage(input_tokens=3, output_tokens=2), finish_reason=FinishReason.TOOL_CALLS,
)  # fmt: skip


def test_a_request_is_read():
    request = Gemini().read(BODY)
    assert [(each.role, each.content, each.tool_call_id, each.failed) for each in request.messages] == [
        ("system", "Be short.", None, None),
        ("user", "Look twice.", None, None),
        ("assistant", "", None, None),
        ("tool", '{"result":7}', "look 1", None),
        ("tool", '{"error":"gone"}', "look 2", True),
    ]
    assert [call.id for call in request.messages[2].tool_calls] == ["look 1", "look 2"]
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    assert request.tools == (ToolSpec(name="look", parameters=schema),)
    assert (request.other_tools, request.temperature, request.max_tokens) == (("googleSearch",), 0.5, 9)


def test_an_answer_is_written_whole_and_streamed():
    call = {"functionCall": {"id": "c1", "name": "look", "args": {"n": 1}}}
    whole = Gemini().whole(ANSWER, {})
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "Well."}, call]
    assert whole["usageMetadata"]["totalTokenCount"] == 5
    lines = events(Gemini(), ANSWER, {}).decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [[{"text": "Well."}], [call]]
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks] == [None, "STOP"]
