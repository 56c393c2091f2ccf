"""The real clients of both vendors talk to the gateway, and the trial's model answers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steadyhand.builtin.models.anthropic import AnthropicModel
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.errors import ModelError
from steadyhand.gateway.server import GatewayServer
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason, ToolCall, Usage
from steadyhand.testing import Answer, ModelServer
from support.late import Late
from support.trial import TrialStandIn
from support.vendor_clients import anthropic_client, openai_client

anthropic = Late("anthropic")
openai = Late("openai")

KEY = "sk-the-users-own-key"
TOOL = {"name": "refund", "description": "Pays back.", "parameters": {"type": "object", "properties": {"n": {}}}}
CALL = ToolCall(id="c1", name="refund", arguments={"n": 7})


class Said:
    """A model of ours that is not behind any wire: it keeps its requests."""

    name = "own/one"

    def __init__(self, response: ChatResponse | Exception) -> None:
        self.response = response
        self.asked: list[ChatRequest] = []

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        self.asked.append(request)
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    async def close(self) -> None: ...


def says(text: str = "", *calls: ToolCall) -> ChatResponse:
    finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return ChatResponse(
        text=text, attempt=Attempt(started_ms=0.0), tool_calls=calls, chunks=((1.0, 3), (2.0, len(text) - 3)),
        usage=Usage(input_tokens=11, output_tokens=4), finish_reason=finish,
    )  # fmt: skip


async def _addresses(server: GatewayServer, folder: Path, model: ChatModel) -> dict[str, str]:
    endpoint = await server.open_endpoint(TrialStandIn(folder), model)
    return server.addresses(endpoint.address).variables


async def _openai(server: GatewayServer, folder: Path, model: ChatModel) -> Any:
    return openai_client(await _addresses(server, folder, model))


async def _anthropic(server: GatewayServer, folder: Path, model: ChatModel) -> Any:
    return anthropic_client(await _addresses(server, folder, model))


@pytest.mark.parametrize("streamed", [False, True])
async def test_chat_completions_are_answered_by_any_model(
    server: GatewayServer, tmp_path: Path, streamed: bool
) -> None:
    model = Said(says("Stop the pump.", CALL))
    async with await _openai(server, tmp_path, model) as client:
        asked: dict[str, Any] = {
            "model": "gpt-x",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": [{"type": "text", "text": "Pay "}, {"type": "text", "text": "back"}]},
                {"role": "assistant", "tool_calls": [
                    {"id": "c0", "type": "function", "function": {"name": "look", "arguments": '{"n": 7}'}}]},
                {"role": "tool", "tool_call_id": "c0", "content": "paid"},
            ],
            "tools": [{"type": "function", "function": TOOL}],
            "max_tokens": 50,
        }  # fmt: skip
        if streamed:
            text, arguments = "", ""
            async for chunk in await client.chat.completions.create(**asked, stream=True):
                delta = chunk.choices[0].delta
                text += delta.content or ""
                arguments += "".join(call.function.arguments for call in delta.tool_calls or [])
                reason = chunk.choices[0].finish_reason
        else:
            made = await client.chat.completions.create(**asked)
            (choice,) = made.choices
            text, reason = choice.message.content, choice.finish_reason
            arguments = choice.message.tool_calls[0].function.arguments
            assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (11, 4)
    assert (text, json.loads(arguments), reason) == ("Stop the pump.", {"n": 7}, "tool_calls")
    (request,) = model.asked
    assert [(each.role, each.content, each.name) for each in request.messages] == [
        ("system", "Be short.", None), ("user", "Pay back", None), ("assistant", "", None), ("tool", "paid", "look"),
    ]  # fmt: skip
    assert request.messages[2].tool_calls == (ToolCall(id="c0", name="look", arguments={"n": 7}),)
    assert (request.tools[0].name, request.max_tokens) == ("refund", 50)
    assert request.client is not None
    assert "model" not in request.client.fields


@pytest.mark.parametrize("streamed", [False, True])
async def test_responses_are_answered_by_any_model(server: GatewayServer, tmp_path: Path, streamed: bool) -> None:
    model = Said(says("Stop the pump.", CALL))
    async with await _openai(server, tmp_path, model) as client:
        asked: dict[str, Any] = {
            "model": "gpt-x",
            "instructions": "Be short.",
            "input": [
                {"role": "user", "content": "Pay back"},
                {"type": "function_call", "call_id": "c0", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c0", "output": "paid"},
            ],
            "tools": [{"type": "function", "strict": False, **TOOL}],
        }
        if streamed:
            async with client.responses.stream(**asked) as stream:
                texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]
                made = await stream.get_final_response()
            assert "".join(texts) == "Stop the pump."
        else:
            made = await client.responses.create(**asked)
    assert made.output_text == "Stop the pump."
    assert (made.output[1].name, json.loads(made.output[1].arguments)) == ("refund", {"n": 7})
    assert made.usage.total_tokens == 15
    roles = [(each.role, each.content) for each in model.asked[0].messages]
    assert roles == [("system", "Be short."), ("user", "Pay back"), ("assistant", ""), ("tool", "paid")]


@pytest.mark.parametrize("streamed", [False, True])
async def test_messages_are_answered_by_any_model(server: GatewayServer, tmp_path: Path, streamed: bool) -> None:
    model = Said(says("Stop the pump.", CALL))
    async with await _anthropic(server, tmp_path, model) as client:
        asked: dict[str, Any] = {
            "model": "claude-x",
            "max_tokens": 90,
            "system": "Be short.",
            "messages": [
                {"role": "user", "content": "Pay back"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c0", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c0", "content": "paid"}]},
            ],
            "tools": [{"name": "refund", "input_schema": TOOL["parameters"]}],
        }
        if streamed:
            async with client.messages.stream(**asked) as stream:
                texts = [text async for text in stream.text_stream]
                made = await stream.get_final_message()
            assert "".join(texts) == "Stop the pump."
        else:
            made = await client.messages.create(**asked)
    assert (made.content[0].text, made.content[1].input, made.stop_reason) == ("Stop the pump.", {"n": 7}, "tool_use")
    assert (made.usage.input_tokens, made.usage.output_tokens) == (11, 4)
    roles = [(each.role, each.content) for each in model.asked[0].messages]
    assert roles == [("system", "Be short."), ("user", "Pay back"), ("assistant", ""), ("tool", "paid")]


@pytest.mark.parametrize("streamed", [False, True])
async def test_fields_that_nobody_knows_reach_a_provider_of_the_same_interface(
    server: GatewayServer, tmp_path: Path, streamed: bool
) -> None:
    async with ModelServer(Answer(text="Yes.", reasoning="Hm.")) as provider:
        settings = ModelSettings(
            name="real", folder=tmp_path,
            variables={"OPENAI_API_KEY": KEY}, options={"base_url": provider.base_url},
        )  # fmt: skip
        model = OpenAIModel(settings)
        async with await _openai(server, tmp_path, model) as client:
            asked: Any = client.chat.completions.create(
                model="gpt-x", messages=[{"role": "user", "content": "Well?"}], stream=streamed,
                extra_body={"frobnicate": {"deep": [1]}}, logit_bias={"5": 1}, top_p=0.5,
            )  # fmt: skip
            made = await asked
            if streamed:
                deltas = [chunk.choices[0].delta async for chunk in made]  # every chunk has choices
                text = "".join(delta.content or "" for delta in deltas)
                thought = "".join(delta.model_extra.get("reasoning_content", "") for delta in deltas)
            else:
                text, thought = (
                    made.choices[0].message.content,
                    made.choices[0].message.model_extra["reasoning_content"],
                )
        await model.close()
    assert (text, thought) == ("Yes.", "Hm.")
    (served,) = provider.log
    assert served.body["frobnicate"] == {"deep": [1]}
    assert (served.body["model"], served.body["top_p"], served.body["logit_bias"]) == ("real", 0.5, {"5": 1})
    assert served.headers["authorization"] == f"Bearer {KEY}"


async def test_a_signed_thought_of_anthropics_comes_back_as_it_was(server: GatewayServer, tmp_path: Path) -> None:
    async with ModelServer(Answer(text="Yes.", reasoning="Hm.")) as provider:
        settings = ModelSettings(
            name="real", folder=tmp_path,
            variables={"ANTHROPIC_API_KEY": KEY}, options={"base_url": provider.base_url},
        )  # fmt: skip
        model = AnthropicModel(settings)
        async with await _anthropic(server, tmp_path, model) as client:
            made = await client.messages.create(
                model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "Well?"}],
                thinking={"type": "enabled", "budget_tokens": 1024},
            )  # fmt: skip
        await model.close()
    assert [block.type for block in made.content] == ["thinking", "text"]
    assert made.content[0].signature == "c2lnbmVk"
    assert provider.log[0].body["thinking"] == {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError("over", kind="rate_limit", status=429), 429),
        (ModelError("no such field", kind="refused", status=422), 422),
        (ModelError("gone", kind="connect"), 502),
    ],
)
async def test_a_failed_call_fails_at_the_client_too(
    server: GatewayServer, tmp_path: Path, error: ModelError, status: int
) -> None:
    async with await _openai(server, tmp_path, Said(error)) as client:
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert failed.value.status_code == status
    assert str(error) in failed.value.message


async def test_what_cannot_be_read_is_refused(server: GatewayServer, tmp_path: Path) -> None:
    model = Said(says("Hm."))
    async with await _openai(server, tmp_path, model) as client:
        for body in ({"messages": "Hi"}, {"messages": []}):
            with pytest.raises(openai.BadRequestError):
                await client.post("/chat/completions", body=body, cast_to=object)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await client.responses.create(model="m", input="Hi", previous_response_id="r1")
    assert model.asked == []


async def test_what_else_clients_ask_for_is_answered_or_refused_with_the_way_out(
    server: GatewayServer, tmp_path: Path
) -> None:
    model = Said(says("Hm."))
    async with await _openai(server, tmp_path, model) as client:
        assert [each.id async for each in client.models.list()] == ["own/one"]
        assert (await client.models.retrieve("gpt-x")).id == "gpt-x"
        with pytest.raises(openai.NotFoundError, match="provider's own address and key"):
            await client.embeddings.create(model="e", input="Hi")
    async with await _anthropic(server, tmp_path, model) as client:
        assert [each.id async for each in client.models.list()] == ["own/one"]
        with pytest.raises(anthropic.NotFoundError, match="count_tokens is not served"):
            await client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert model.asked == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_headers_are_passed_on_in_both_directions(server: GatewayServer, tmp_path: Path, streamed: bool) -> None:
    told = {"request-id": "r-1", "anthropic-ratelimit-requests-remaining": "41", "x-echo": KEY, "set-cookie": "s=1"}
    async with ModelServer(Answer(text="Yes.", headers=told)) as provider:
        settings = ModelSettings(
            name="real", folder=tmp_path, variables={"ANTHROPIC_API_KEY": KEY},
            options={"base_url": provider.base_url, "headers": {"X-Team": "ours"}},
        )  # fmt: skip
        model = AnthropicModel(settings)
        async with await _anthropic(server, tmp_path, model) as client:
            asked: Any = {"model": "x", "max_tokens": 9, "messages": [{"role": "user", "content": "Well?"}]}
            own = {"anthropic-beta": "thinking-9", "anthropic-version": "2099-01-01", "X-Team": "theirs", "X-Own": "1"}
            create = client.messages.with_raw_response.create
            answer = await create(**asked, stream=streamed, extra_headers={**own, "Connection": "x-hop", "X-Hop": "1"})
        await model.close()
    assert answer.headers["request-id"] == "r-1"
    assert answer.headers["anthropic-ratelimit-requests-remaining"] == "41"
    assert answer.headers["x-echo"] == "***", "the user's key is not for the agent"
    assert "set-cookie" not in answer.headers
    (served,) = provider.log
    sent = served.headers
    assert (sent["anthropic-beta"], sent["anthropic-version"], sent["x-own"]) == ("thinking-9", "2099-01-01", "1")
    assert (sent["x-team"], sent["x-api-key"]) == ("ours", KEY), "what the user has set wins"
    assert sent["user-agent"].startswith("AsyncAnthropic")
    assert sent["accept-encoding"] == "identity"
    assert "x-hop" not in sent
    assert "steadyhand-gateway" not in json.dumps(sent), "the placeholder key stays here"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [400, 413, 429, 529])
async def test_errors_come_back_as_they_were(
    server: GatewayServer, tmp_path: Path, status: int, streamed: bool
) -> None:
    body = b'{"type":"error","error":{"type":"odd","message":"no, %b"},"request_id":"r-1"}' % KEY.encode()
    headers = {"retry-after": "17", "x-request-id": "r-1"}
    async with ModelServer(
        Answer(status=status, body=body, content_type="application/json", headers=headers)
    ) as provider:
        settings = ModelSettings(
            name="real", folder=tmp_path,
            variables={"OPENAI_API_KEY": KEY}, options={"base_url": provider.base_url},
        )  # fmt: skip
        model = OpenAIModel(settings)
        async with await _openai(server, tmp_path, model) as client:
            with pytest.raises(openai.APIStatusError) as failed:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "Hi"}], stream=streamed
                )
        await model.close()
    assert failed.value.status_code == status
    assert failed.value.response.content == body.replace(KEY.encode(), b"***")
    assert failed.value.response.headers["retry-after"] == "17"
    assert failed.value.response.headers["x-request-id"] == "r-1"


async def test_without_a_model_an_agent_is_told_of_no_address_for_one(server: GatewayServer, tmp_path: Path) -> None:
    endpoint = await server.open_endpoint(TrialStandIn(tmp_path))
    told = server.addresses(endpoint.address)
    assert not {"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} & set(told.variables)
    assert {"STEADYHAND_MCP_URL", "STEADYHAND_MOCKS_URL"} <= set(told.variables)
    assert {"mcp_url", "mocks_url"} <= set(told.names)
    assert not [name for name in told.names if "base_url" in name]


async def test_a_response_can_be_continued_by_its_id(server: GatewayServer, tmp_path: Path) -> None:
    model = Said(says("", CALL))
    async with await _openai(server, tmp_path, model) as client:
        first = await client.responses.create(model="m", input="Pay back")
        result = {"type": "function_call_output", "call_id": "c1", "output": "paid"}
        second = await client.responses.create(model="m", input=[result], previous_response_id=first.id)
        third = await client.responses.create(model="m", input="And now?", previous_response_id=second.id)
        await client.responses.create(model="m", input="Really?", previous_response_id=third.id)
    assert [[each.role for each in request.messages] for request in model.asked] == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool", "assistant", "user"],
        ["user", "assistant", "tool", "assistant", "user", "assistant", "user"],
    ]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_item_can_be_referred_to_instead_of_being_sent_again(
    server: GatewayServer, tmp_path: Path, streamed: bool
) -> None:
    model = Said(says("One moment.", CALL))
    async with await _openai(server, tmp_path, model) as client:
        asked = {"role": "user", "content": "Pay back"}
        if streamed:
            events = [event async for event in await client.responses.create(model="m", input=[asked], stream=True)]
            items = [event.item for event in events if event.type == "response.output_item.done"]
        else:
            items = (await client.responses.create(model="m", input=[asked])).output
        referred = [{"type": "item_reference", "id": item.id} for item in items]
        result = {"type": "function_call_output", "call_id": CALL.id, "output": "paid"}
        await client.responses.create(model="m", input=[asked, *referred, result])
    said, called = model.asked[1].messages[1:3]
    assert (said.content, called.tool_calls) == ("One moment.", (CALL,))
    assert model.asked[1].messages[3].tool_call_id == CALL.id


async def test_what_no_response_of_the_trial_made_cannot_be_continued(server: GatewayServer, tmp_path: Path) -> None:
    async with await _openai(server, tmp_path, Said(says("Mine.", CALL))) as client:
        mine = await client.responses.create(model="m", input="Hi")
        unkept = await client.responses.create(model="m", input="Hello", store=False)
    model = Said(says("Yours."))
    async with await _openai(server, tmp_path, model) as client:
        for number in (mine.id, unkept.id, "resp_of_nobody"):
            with pytest.raises(openai.BadRequestError, match="no response of this trial"):
                await client.responses.create(model="m", input="And?", previous_response_id=number)
        reference = {"type": "item_reference", "id": mine.output[1].id}
        with pytest.raises(openai.BadRequestError, match="in no response of this trial"):
            await client.responses.create(model="m", input=[reference])
    assert model.asked == []


async def test_a_forwarded_response_can_be_continued_by_its_id(server: GatewayServer, tmp_path: Path) -> None:
    async with ModelServer(Answer(text="Paid.")) as upstream:
        settings = ModelSettings(
            name="real", folder=tmp_path, variables={"OPENAI_API_KEY": KEY},
            options={"base_url": upstream.base_url, "api": "responses"},
        )  # fmt: skip
        model = OpenAIModel(settings)
        async with await _openai(server, tmp_path, model) as client:
            async for event in await client.responses.create(model="m", input="Pay", stream=True):
                if event.type == "response.completed":
                    first = event.response
            await client.responses.create(model="m", input="And?", previous_response_id=first.id)
        await model.close()
        roles = [item.get("role") for item in upstream.log[1].body["input"]]
    assert roles == ["user", "assistant", "user"]
