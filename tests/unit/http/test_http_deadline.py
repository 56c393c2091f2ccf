"""Cutting an answer off at a deadline: real servers, real waiting."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.builtin.models.scripted import ScriptedModel
from steadyhand.errors import ModelError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import cut_short
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message, ToolCall, Usage
from steadyhand.testing import Answer, ModelServer

FOREVER_S = 60.0
CUT_MS = 300.0


def asking(cut_after_ms=CUT_MS, **fields):
    return ChatRequest(messages=(Message(role="user", content="hi"),), cut_after_ms=cut_after_ms, **fields)


@contextlib.asynccontextmanager
async def serving(answer, **options):
    async with ModelServer(answer) as server:
        model = OpenAIModel(
            ModelSettings(
                name="gpt",
                folder=Path(),
                variables={"OPENAI_API_KEY": "k"},
                options={"base_url": server.base_url, **options},
            )
        )
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model, request):
    return await model.attempt(request, zero=time.perf_counter())


def assert_cut(response: ChatResponse, text: str) -> None:
    assert (response.text, response.finish_reason, response.cut) == (text, "deadline", True)
    assert response.attempt.latency_ms == pytest.approx(CUT_MS)
    assert sum(characters for _, characters in response.chunks) == len(text)
    assert all(at_ms <= CUT_MS for at_ms, _ in response.chunks)


async def test_what_had_arrived_is_the_answer():
    async with serving(Answer(pieces=("STOP", " now"), piece_s=FOREVER_S)) as (server, model):
        response = await ask(model, asking())
        await server.until_disconnected()
    assert_cut(response, "STOP")
    attempt = response.attempt
    assert attempt.first_token_ms == pytest.approx(attempt.last_byte_ms, abs=0.002)  # each rounded separately
    assert attempt.last_byte_ms < attempt.cut_ms


@pytest.mark.parametrize(
    "answer",
    [Answer(text="STOP", delay_s=FOREVER_S), Answer(text="STOP", first_token_s=FOREVER_S), Answer(fault="hang")],
    ids=["before the headers", "after the headers", "never"],
)
async def test_nothing_had_arrived(answer):
    async with serving(answer) as (_, model):
        response = await ask(model, asking())
    assert_cut(response, "")
    assert (response.attempt.first_token_ms, response.attempt.last_byte_ms) == (None, None)


async def test_an_answer_in_one_piece_has_nothing_to_show_before_its_end():
    async with serving(Answer(text="STOP", delay_s=FOREVER_S, streaming="ignored"), stream=False) as (_, model):
        assert_cut(await ask(model, asking()), "")


async def test_an_answer_in_time_is_whole():
    async with serving(Answer(text="STOP")) as (_, model):
        response = await ask(model, asking(cut_after_ms=30_000))
    assert (response.text, response.finish_reason, response.cut) == ("STOP", "stop", False)
    assert response.attempt.cut_ms is None


async def test_the_clock_starts_anew_when_the_request_is_put_in_other_words():
    answer = Answer(pieces=("STOP", " now"), piece_s=FOREVER_S, streaming="options_refused")
    async with serving(answer) as (server, model):
        assert_cut(await ask(model, asking()), "STOP")
        assert server.received == 2


async def test_a_failing_server_is_not_a_late_answer():
    async with serving(Answer(status=500)) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, asking())
    assert caught.value.kind == "server"


async def test_the_time_limit_of_the_call_still_holds():
    async with serving(Answer(text="STOP", delay_s=FOREVER_S)) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, asking(cut_after_ms=30_000, timeout_s=0.2))
    assert caught.value.kind == "timeout"


async def test_a_scripted_model_is_cut_alike(tmp_path):
    rules = "rules:\n  - reply: STOP now\n    chunk_chars: 4\n    chunk_ms: 60000\n"
    (tmp_path / "rules.yaml").write_text(rules)
    model = ScriptedModel(ModelSettings(name="rules.yaml", folder=tmp_path))
    assert_cut(await ask(model, asking()), "STOP")
    (tmp_path / "rules.yaml").write_text("rules:\n  - reply: STOP now\n    delay_ms: 60000\n")
    model = ScriptedModel(ModelSettings(name="rules.yaml", folder=tmp_path))
    assert_cut(await ask(model, asking()), "")


def test_an_answer_that_was_read_too_late_is_cut_to_what_was_there():
    """The reader may be faster than the timer: what arrived after the deadline still does not count."""
    response = ChatResponse(
        text="STOP now",
        attempt=Attempt(started_ms=0, sent_ms=5, first_byte_ms=100, first_token_ms=100, last_byte_ms=320),
        chunks=((95.0, 4), (300.0, 2), (300.001, 2)),
        tool_calls=(ToolCall(id="1", name="x"),),
        usage=Usage(input_tokens=1, output_tokens=1),
        finish_reason="stop",
    )
    found = cut_short(response, 300.0)
    assert_cut(found, "STOP n")
    assert (found.attempt.last_byte_ms, found.attempt.cut_ms) == (305.0, 305.0)
    assert (found.tool_calls, found.usage) == ((), None)
