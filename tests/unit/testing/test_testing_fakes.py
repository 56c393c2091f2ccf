"""The model that says what it is told, the settable clock, the sink that remembers, and the public names."""

from __future__ import annotations

import asyncio
import time

import pytest

import steadyhand.testing
from steadyhand.errors import ModelError
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message
from steadyhand.records.event import Noted, Thought
from steadyhand.testing import RecordingSink, ScriptedChatModel, SettableClock


def test_every_public_name_is_there():
    for name in steadyhand.testing.__all__:
        assert getattr(steadyhand.testing, name) is not None
    with pytest.raises(AttributeError):
        _ = steadyhand.testing.nothing


async def test_sleeping_moves_the_clock():
    clock = SettableClock(100.0)
    await clock.sleep(3600)
    await clock.sleep(0)
    assert clock.now() == 3700.0
    assert clock.slept == [3600, 0]


async def test_a_clock_that_is_not_advanced_keeps_sleepers_waiting_in_order():
    clock = SettableClock(auto_advance=False)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 10))
        group.create_task(sleeper("early", 5))
        gone = group.create_task(sleeper("gone", 1))
        await asyncio.sleep(0)
        assert clock.sleepers == 3
        gone.cancel()
        await asyncio.sleep(0)
        assert clock.sleepers == 2
        clock.advance(5)
        await asyncio.sleep(0)
        assert woken == ["early"]
        clock.set(10)
    assert woken == ["early", "late"]


def test_the_clock_does_not_go_back():
    clock = SettableClock(5.0)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.set(4.0)


def test_the_sink_keeps_events_in_order():
    sink = RecordingSink()
    first, second = Noted(at_ms=1, message="a"), Thought(at_ms=2, text="b")
    sink.emit(first)
    sink.emit(second)
    assert sink.events == [first, second]
    assert sink.of(Thought) == [second]


ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))


async def ask(model: ScriptedChatModel) -> ChatResponse:
    return await model.attempt(ASKED, zero=time.perf_counter())


async def test_a_model_gives_its_lines_in_turn_and_then_no_more():
    whole = ChatResponse(text="whole", attempt=Attempt(started_ms=1.0))
    model = ScriptedChatModel(
        ["one", whole, ModelError("down", kind="server"), lambda asked: asked.messages[0].content]
    )
    assert (await ask(model)).text == "one"
    assert await ask(model) is whole
    with pytest.raises(ModelError, match="down"):
        await ask(model)
    assert (await ask(model)).text == "hi"
    with pytest.raises(ModelError, match="the script has 4 answers, and this is attempt 5"):
        await ask(model)
    assert model.requests == [ASKED] * 5


async def test_a_models_last_line_is_repeated_when_asked_for():
    model = ScriptedChatModel(["one", "two"], repeat=True)
    assert [(await ask(model)).text for _ in range(4)] == ["one", "two", "two", "two"]


async def test_a_text_takes_as_long_as_its_function():
    clock = SettableClock()

    async def answer(request: ChatRequest) -> str:
        await clock.sleep(1)
        return "done"

    response = await ask(ScriptedChatModel(answer, name="openai/m"))
    assert response.text == "done"
    assert 0 <= response.attempt.sent_ms <= response.attempt.last_byte_ms
