"""`pydantic-ai/PROVIDER:MODEL`, with the library's own stand-ins for a vendor."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steadyhand.builtin.models.pydantic_ai import INCLUDES, BridgedModel, CallClock, PydanticAIModel
from steadyhand.errors import ModelError, SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolCall, ToolSpec
from support.late import Late
from support.patience import with_enough_time

exceptions = Late("pydantic_ai.exceptions")
parts = Late("pydantic_ai.messages")
function = Late("pydantic_ai.models.function")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pydantic_ai") is None, reason="the extra [providers] is not installed"
)

ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))


async def ask(model: BridgedModel, request: ChatRequest = ASKED) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


def build(name: str, **options) -> PydanticAIModel:
    return PydanticAIModel(
        ModelSettings(name=name, folder=Path(), variables={"SOME_KEY": "very-secret"}, options=options)
    )


async def test_the_librarys_own_test_model():
    model = build("test")
    response = await ask(model)
    await model.close()
    assert model.name == "pydantic-ai/test"
    assert response.text == "success (no tool calls)"
    assert response.timing_includes == INCLUDES
    assert sum(characters for _, characters in response.chunks) == len(response.text)
    attempt = response.attempt
    assert attempt.streamed
    assert attempt.sent_ms <= attempt.first_token_ms <= attempt.last_byte_ms


async def test_pieces_have_their_times_and_calls_are_put_together():
    async def stream(messages, info):
        yield "Stop "
        await asyncio.sleep(0.02)
        yield "the pump"
        yield {1: function.DeltaToolCall(name="stop", json_args='{"now": ', tool_call_id="c1")}
        yield {1: function.DeltaToolCall(json_args="true}")}

    response = await ask(BridgedModel("pydantic-ai/f", function.FunctionModel(stream_function=stream)))
    assert response.text == "Stop the pump"
    assert response.tool_calls == (ToolCall(id="c1", name="stop", arguments={"now": True}),)
    assert [characters for _, characters in response.chunks] == [5, 8]
    assert response.chunks[1][0] - response.chunks[0][0] >= 19


async def test_what_is_asked_reaches_the_vendor():
    seen = []

    def answer(messages, info):
        seen.append((messages, info))
        return parts.ModelResponse(
            parts=[parts.TextPart(content="x"), parts.ToolCallPart(tool_name="t", args="{no", tool_call_id="c")]
        )

    request = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="hi"),
            Message(role="assistant", content="I look.", tool_calls=(ToolCall(id="c1", name="look", raw="{no"),)),
            Message(role="tool", content="on", tool_call_id="c1"),
            Message(role="user", content="and?"),
        ),
        tools=(ToolSpec(name="look", description="looks", parameters={"type": "object"}), ToolSpec(name="wait")),
        temperature=0.0,
        max_tokens=50,
        seed=3,
        json_schema={"type": "object", "properties": {"a": {"type": "string"}}},
    )
    model = BridgedModel("pydantic-ai/f", function.FunctionModel(answer), stream=False)
    response = await ask(model, request)
    assert (response.text, response.tool_calls) == ("x", (ToolCall(id="c", name="t", raw="{no"),))
    assert (response.attempt.streamed, response.attempt.first_token_ms) == (False, None)
    ((messages, info),) = seen
    asked, said, result = messages
    assert [part.content for part in asked.parts] == ["Be brief.", "hi"]
    assert [type(part) for part in said.parts] == [parts.TextPart, parts.ToolCallPart]
    returned, prompt = result.parts
    assert isinstance(returned, parts.ToolReturnPart)
    assert (returned.tool_name, returned.tool_call_id, returned.content) == ("look", "c1", "on")
    assert isinstance(prompt, parts.UserPromptPart)
    assert [tool.name for tool in info.function_tools] == ["look", "wait"]
    assert info.model_settings == {"max_retries": 0, "max_tokens": 50, "temperature": 0.0}
    assert info.model_request_parameters.output_mode == "native"
    await ask(
        BridgedModel("m", function.FunctionModel(answer), stream=False, send_seed=True, send_temperature=False), request
    )
    assert seen[-1][1].model_settings == {"max_retries": 0, "max_tokens": 50, "seed": 3}


@pytest.mark.parametrize(
    ("raised", "kind", "retryable"),
    [
        (
            lambda: exceptions.ModelHTTPError(429, "m", {"error": {"message": "slow, very-secret"}}),
            "rate_limit",
            True,
        ),
        (lambda: exceptions.ModelHTTPError(401, "m", "no key"), "auth", False),
        (lambda: exceptions.ModelHTTPError(503, "m", None), "server", True),
        (lambda: exceptions.ModelHTTPError(400, "m", {"message": "bad"}), "refused", False),
        (lambda: exceptions.ModelAPIError("m", "Connection error."), "connect", True),
        (lambda: exceptions.UserError("not so"), "refused", False),
        (lambda: exceptions.UnexpectedModelBehavior("what?"), "malformed", True),
        (lambda: ConnectionResetError("gone"), "server", True),
        (lambda: KeyError("bug"), "server", False),
    ],
)
async def test_failures_have_their_kind(raised, kind, retryable):
    def answer(messages, info):
        raise raised()

    model = BridgedModel("pydantic-ai/f", function.FunctionModel(answer), stream=False, secrets=("very-secret",))
    with pytest.raises(ModelError) as caught:
        await ask(model)
    error = caught.value
    assert (error.kind, error.retryable) == (kind, retryable)
    assert "pydantic-ai/f" in str(error)
    assert "very-secret" not in str(error)
    assert error.attempt.error == str(error)
    assert error.attempt.latency_ms is None


async def test_the_wait_that_the_vendor_asks_for():
    def answer(messages, info):
        raise exceptions.ModelHTTPError(429, "m", None, headers={"Retry-After": "7"})

    with pytest.raises(ModelError) as caught:
        await ask(BridgedModel("m", function.FunctionModel(answer), stream=False))
    assert caught.value.retry_after_s == 7.0


async def test_a_vendor_that_does_not_answer_in_time():
    async def stream(messages, info):
        yield "Stop"
        await asyncio.sleep(60)
        yield "never"

    model = BridgedModel("m", function.FunctionModel(stream_function=stream))
    with pytest.raises(ModelError) as caught:
        await ask(model, ChatRequest(messages=ASKED.messages, timeout_s=0.05))
    assert (caught.value.kind, caught.value.retryable) == ("timeout", True)
    assert caught.value.attempt.first_token_ms is not None


async def test_an_answer_can_be_taken_as_far_as_it_had_come():
    async def stream(messages, info):
        yield "Stop"
        await asyncio.get_running_loop().create_future()
        yield "never"

    async def cut_after(seconds):
        model = BridgedModel("m", function.FunctionModel(stream_function=stream))
        return await ask(model, ChatRequest(messages=ASKED.messages, cut_after_ms=seconds * 1000))

    response = await with_enough_time(cut_after, lambda response: bool(response.text))
    assert (response.text, response.finish_reason, response.cut) == ("Stop", "deadline", True)
    assert response.timing_includes == INCLUDES


async def test_an_error_in_the_middle_of_a_stream_leaves_no_answer():
    async def stream(messages, info):
        yield "Stop"
        raise exceptions.ModelHTTPError(529, "m", {"error": {"message": "Overloaded"}})

    with pytest.raises(ModelError) as caught:
        await ask(BridgedModel("m", function.FunctionModel(stream_function=stream)))
    assert (caught.value.kind, caught.value.status) == ("server", 529)


async def test_the_vendors_client_is_opened_once_and_closed():
    class Watched(function.FunctionModel):
        log: list[str] = []

        async def __aenter__(self):
            self.log.append("open")
            return await super().__aenter__()

        async def __aexit__(self, *exc_info):
            self.log.append("closed")
            return await super().__aexit__(*exc_info)

    model = BridgedModel(
        "m",
        Watched(lambda messages, info: parts.ModelResponse(parts=[parts.TextPart(content="x")])),
        stream=False,
    )
    await ask(model)
    await ask(model)
    await model.close()
    await model.close()
    assert Watched.log == ["open", "closed"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gemini", {}, "expected pydantic-ai/PROVIDER:MODEL"),
        ("nobody:some-model", {}, "cannot be set up: Unknown model"),
        ("test", {"base_url": "x"}, "unknown key `base_url`"),
    ],
)
def test_wrong_names_and_options(name, options, message):
    with pytest.raises(SetupError, match=message):
        build(name, **options)


@pytest.mark.skipif(importlib.util.find_spec("boto3") is not None, reason="the vendor's package is installed")
def test_a_missing_vendor_package_says_what_to_install():
    with pytest.raises(SetupError) as caught:
        build("bedrock:some-model")
    assert "pip install 'pydantic-ai-slim[bedrock]'" in str(caught.value)


def test_an_env_files_variables_are_lent_and_taken_back():
    with pytest.raises(SetupError):
        build("nobody:some-model")
    assert "SOME_KEY" not in os.environ


def test_without_the_library_the_message_says_how_to_get_it():
    program = (
        "import sys; sys.modules['pydantic_ai'] = None; from pathlib import Path\n"
        "from steadyhand.builtin.models.pydantic_ai import PydanticAIModel\n"
        "from steadyhand.plugins.plugin import ModelSettings\n"
        "from steadyhand.errors import SetupError\n"
        "try:\n    PydanticAIModel(ModelSettings(name='google:g', folder=Path()))\n"
        "except SetupError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'steadyhand[providers]'" in done.stdout


def test_a_request_is_what_the_library_calls_one():
    from steadyhand.builtin.models.pydantic_ai_messages import to_messages

    (only,) = to_messages((Message(role="user", content="a"), Message(role="user", content="b")))
    assert isinstance(only, parts.ModelRequest)
    assert [part.content for part in only.parts] == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "reason", "raw"),
    [
        ({"finish_reason": "stop"}, "stop", "stop"),
        ({"finish_reason": "length", "provider_details": {"finish_reason": "MAX_TOKENS"}}, "length", "MAX_TOKENS"),
        ({"finish_reason": "content_filter", "provider_details": {"finish_reason": "refusal"}}, "refusal", "refusal"),
        (
            {"finish_reason": "content_filter", "provider_details": {"refusal": "I will not."}},
            "refusal",
            "content_filter",
        ),
        (
            {"finish_reason": "content_filter", "provider_details": {"finish_reason": "SAFETY"}},
            "content_filter",
            "SAFETY",
        ),
        ({"finish_reason": "stop", "provider_details": {"finish_reason": "pause_turn"}}, "pause_turn", "pause_turn"),
        ({"state": "suspended"}, "pause_turn", None),
        ({"state": "interrupted"}, "error", "interrupted"),
        ({"finish_reason": "error", "provider_details": {"finish_reason": "a new word"}}, "error", "a new word"),
        ({"finish_reason": "tool_call"}, "tool_calls", "tool_call"),
        ({}, None, None),
    ],
)
async def test_how_an_answer_ended_is_the_vendors_word_before_the_librarys(fields, reason, raw):
    def answer(messages, info):
        return parts.ModelResponse(parts=[], **fields)

    model = BridgedModel("pydantic-ai/f", function.FunctionModel(answer), stream=False)
    response = await ask(model, ChatRequest(messages=ASKED.messages, max_tokens=9))
    assert (response.finish_reason, response.finish_raw, response.token_limit) == (reason, raw, 9)
    assert response.text == ("I will not." if "refusal" in fields.get("provider_details", {}) else "")


def test_the_clock_keeps_text_and_times_together():
    clock = CallClock(time.perf_counter())
    clock.begin()
    clock.arrived("ab")
    clock.arrived("", token=False)
    clock.arrived("c")
    response = clock.so_far()
    assert response.text == "abc"
    assert [characters for _, characters in response.chunks] == [2, 1]
    attempt = response.attempt
    assert attempt.sent_ms <= attempt.first_token_ms <= attempt.last_byte_ms
    assert clock.attempt(error="no").latency_ms is None
