"""Answers that are passed on while they arrive: real clients, real servers, real trials."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from steadyhand.builtin.models.anthropic import AnthropicModel
from steadyhand.builtin.models.cassette import CassetteWriter, RecordingModel
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.builtin.models.replay import Cassette, ReplayedModel
from steadyhand.builtin.models.scripted import ScriptedModel
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.engine.trial import run_trial
from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import GatewayServer, TrialGateway
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import FinishReason
from steadyhand.records.event import ModelCalled
from steadyhand.records.run import TrialRecord
from steadyhand.redaction import Redactor
from steadyhand.testing import Answer, ModelServer, ScriptedAgent
from support.engine import asking, builder, check, scenario
from support.late import Late
from support.vendor_clients import anthropic_client, openai_client

anthropic = Late("anthropic")
openai = Late("openai")

KEY = "sk-the-users-own-key"
PIECES = ("Stop ", "the ", "pump.")
TEXT = "".join(PIECES)
SLOW = Answer(pieces=PIECES, piece_s=0.15)
SCRIPT = "rules: [{reply: Stop the pump., chunk_chars: 5, chunk_ms: 150, usage: {input_tokens: 7, output_tokens: 5}}]\n"
DONE = asking("hi", check("string_contains", value="heard"))
Agent = Callable[[dict[str, str], list[Any]], Awaitable[str]]


class Bench:
    """A gateway, and trials whose agent is a client of its trial's model."""

    def __init__(self, folder: Path) -> None:
        self.server: GatewayServer = run_gateway()
        self.folder = folder
        self._build = builder(folder)

    async def run(self, agent: Agent, model: ChatModel, *, retries: int = 0) -> TrialRecord:
        async def respond(_: Any, trial: Any) -> str:
            return await agent(trial.addresses.variables, trial.events)

        parts = self._build(scenario(DONE), gateway=TrialGateway(self.server, model))
        parts.agent = ScriptedAgent(respond)
        parts.retry = RetryPolicy(retries=retries, first_wait_s=0.01)
        return await run_trial(parts)

    def model(self, dialect: str, provider: ModelServer, key: str = KEY) -> ChatModel:
        if dialect == "messages":
            base_url, made = provider.base_url, AnthropicModel
            options: dict[str, Any] = {"base_url": base_url}
        else:
            made = OpenAIModel
            options = {"base_url": provider.base_url, "api": "responses" if dialect == "responses" else "chat"}
        variables = {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key}
        return made(ModelSettings(name="real", folder=self.folder, variables=variables, options=options))

    def scripted(self, rules: str) -> ChatModel:
        (self.folder / "rules.yaml").write_text(rules)
        return ScriptedModel(ModelSettings(name="rules.yaml", folder=self.folder))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.server.close()


async def _texts(dialect: str, told: dict[str, str]) -> AsyncIterator[str]:
    """The pieces of text of one streamed call, as the vendor's own client yields them."""
    if dialect == "messages":
        async with anthropic_client(told) as client:
            asked: Any = {"model": "x", "max_tokens": 90, "messages": [{"role": "user", "content": "Well?"}]}
            async with client.messages.stream(**asked) as stream:
                async for text in stream.text_stream:
                    yield text
                assert (await stream.get_final_message()).usage.input_tokens == 7
        return
    async with openai_client(told) as client:
        if dialect == "responses":
            async for event in await client.responses.create(model="x", input="Well?", stream=True):
                if event.type == "response.output_text.delta":
                    yield event.delta
            return
        made = await client.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "Well?"}], stream=True
        )
        async for chunk in made:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


def _listens(dialect: str, heard: list[tuple[str, int]], ended: Callable[[], int]) -> Agent:
    async def agent(told: dict[str, str], events: list[Any]) -> str:
        heard.extend([(text, ended()) async for text in _texts(dialect, told)])
        return "heard " + "".join(text for text, _ in heard)

    return agent


def _call(record: TrialRecord) -> ModelCalled:
    (call,) = [event for event in record.events if isinstance(event, ModelCalled)]
    return call


HOSTILE_KEYS = [
    "x",
    "e",
    "call",
    "know",
    "index",
    "content",
    "delta",
    "choices",
    "data: ",
    "chat.completion.chunk",
    "{",
]


@pytest.mark.parametrize("key", HOSTILE_KEYS)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_reaches_the_agent_byte_for_byte_whatever_the_key_is(
    bench: Bench, key: str, streamed: bool
) -> None:
    """Keys that occur in the JSON itself, or in what the model says."""
    heard: list[bytes] = []

    async def agent(told: dict[str, str], events: list[Any]) -> str:
        body = {"model": "x", "stream": streamed, "messages": [{"role": "user", "content": "Do you know?"}]}
        url = f"{told['OPENAI_BASE_URL']}/chat/completions"
        async with aiohttp.ClientSession() as client, client.post(url, json=body) as answer:
            heard.append(await answer.read())
        return "heard"

    async with ModelServer(Answer(text="I do not know the call index.")) as provider:
        model = bench.model("chat", provider, key)
        record = await bench.run(agent, model)
        await model.close()
        async with aiohttp.ClientSession() as client:
            asked = {"model": "real", "stream": streamed, "messages": [{"role": "user", "content": "Do you know?"}]}
            async with client.post(f"{provider.base_url}/chat/completions", json=asked) as answer:
                direct = await answer.read()
    assert _stable(heard[0]) == _stable(direct)
    assert provider.log[0].body["messages"] == provider.log[1].body["messages"]
    assert _call(record).text == "I do not know the call index."


def _stable(body: bytes) -> bytes:
    """Without what differs from answer to answer."""
    return re.sub(rb'"(?:id|created)": ?(?:"[^"]*"|[0-9]+)', b"", body)


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_pieces_reach_the_client_before_the_server_has_ended(bench: Bench, dialect: str) -> None:
    heard: list[tuple[str, int]] = []
    async with ModelServer(SLOW) as provider:
        model = bench.model(dialect, provider)
        record = await bench.run(_listens(dialect, heard, lambda: len(provider.log)), model)
        await model.close()
    assert [text for text, _ in heard] == list(PIECES), record.phases
    assert heard[0][1] == 0, "the first piece was there while the server was still at it"
    call = _call(record)
    assert (call.text, call.error, call.relayed, len(call.timing.chunks)) == (TEXT, None, True, 3)
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 5)
    attempt = call.timing.attempts[-1]
    stamps = [attempt.sent_ms, attempt.first_byte_ms, attempt.first_token_ms, attempt.last_byte_ms]
    assert None not in stamps
    assert stamps == sorted(stamps)
    assert call.timing.chunks[-1][0] - call.timing.chunks[0][0] >= 250


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_a_scripted_model_streams_with_its_own_pauses(bench: Bench, dialect: str) -> None:
    heard: list[tuple[str, int]] = []
    ended: list[int] = []

    async def agent(told: dict[str, str], events: list[Any]) -> str:
        done = lambda: sum(isinstance(event, ModelCalled) for event in events)  # noqa: E731
        return await _listens(dialect, heard, done)(told, events)

    record = await bench.run(agent, bench.scripted(SCRIPT))
    assert [text for text, _ in heard] == ["Stop ", "the p", "ump."]
    assert [done for _, done in heard][:2] == [0, 0], ended
    assert _call(record).text == TEXT
    assert record.judged.verdict.value == "passed"


@pytest.mark.parametrize(("dialect", "model"), [("messages", "chat"), ("chat", "messages"), ("responses", "chat")])
async def test_the_text_of_another_dialect_is_passed_on_too(bench: Bench, dialect: str, model: str) -> None:
    heard: list[tuple[str, int]] = []
    async with ModelServer(SLOW) as provider:
        built = bench.model(model, provider)
        record = await bench.run(_listens(dialect, heard, lambda: len(provider.log)), built)
        await built.close()
    assert [text for text, _ in heard] == list(PIECES)
    assert heard[0][1] == 0
    assert _call(record).text == TEXT


async def test_recorded_streams_are_replayed_piece_by_piece(bench: Bench, tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []
    async with ModelServer(SLOW) as provider:
        writer = CassetteWriter(tmp_path / "tape", Redactor())
        model = RecordingModel(bench.model("chat", provider), writer)
        await bench.run(_listens("chat", heard, lambda: len(provider.log)), model)
        await model.close()
        writer.close()
    tape = (tmp_path / "tape" / "cassette.jsonl").read_text()
    assert KEY not in tape
    assert "user-agent" not in tape.lower(), "what the client says of itself is not recorded"
    for time in ("zero", "original"):
        again: list[tuple[str, int]] = []
        replayed = ReplayedModel("openai/real", Cassette(tmp_path / "tape", Redactor(), time=time))
        record = await bench.run(_listens("chat", again, lambda: 0), replayed)
        assert [text for text, _ in again] == list(PIECES)
        assert _call(record).text == TEXT
        assert record.judged.verdict.value == "passed"


async def test_a_client_that_hangs_up_ends_the_call_upstream(bench: Bench) -> None:
    async with ModelServer(Answer(pieces=("Stop ", *["no "] * 2000), piece_s=0.05)) as provider:
        model = bench.model("chat", provider)

        async def agent(told: dict[str, str], events: list[Any]) -> str:
            async with contextlib.aclosing(_texts("chat", told)) as texts:
                return f"heard {await anext(texts)}"

        record = await bench.run(agent, model)
        await provider.until_disconnected()
        await model.close()
    call = _call(record)
    assert call.finish is not None
    assert (call.finish.reason, call.error, call.usage) == (FinishReason.HUNG_UP, None, None)
    assert (call.text or "").startswith("Stop ")
    assert call.timing.latency_ms is None
    assert record.judged.verdict.value == "passed", "the agent had heard enough"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", ["server", "script"])
async def test_an_agent_that_waits_in_vain_is_not_graded(bench: Bench, streamed: bool, kind: str) -> None:
    async with ModelServer(Answer(fault="hang")) as provider:
        hanging = bench.scripted("rules: [{fail: {kind: hang}}]\n")
        model = bench.model("chat", provider) if kind == "server" else hanging

        async def agent(told: dict[str, str], events: list[Any]) -> str:
            async with openai_client(told, timeout=0.3) as client:
                with pytest.raises(openai.APITimeoutError):
                    await client.chat.completions.create(
                        model="x", messages=[{"role": "user", "content": "Well?"}], stream=streamed
                    )
            return "heard nothing"

        record = await bench.run(agent, model)
        if kind == "server":
            await provider.until_disconnected()
        await model.close()
    assert record.judged.verdict.value == "error"
    assert "hung up before any of the answer arrived" in str(record.judged) + str(record.phases)


async def test_an_agent_that_drops_the_slower_of_two_answers_is_graded(bench: Bench) -> None:
    rules = "rules: [{match: slow, reply: Late., delay_ms: 60000}, {reply: Now., delay_ms: 1000}]\n"

    async def agent(told: dict[str, str], events: list[Any]) -> str:
        async with openai_client(told) as client:

            async def ask(text: str) -> str:
                made = await client.chat.completions.create(model="x", messages=[{"role": "user", "content": text}])
                return made.choices[0].message.content or ""

            first = asyncio.create_task(ask("quick"))
            second = asyncio.create_task(ask("slow"))
            said = await first
            second.cancel()
            await asyncio.wait([second])
        return f"heard {said}"

    record = await bench.run(agent, bench.scripted(rules))
    reasons = [event.finish.reason for event in record.events if isinstance(event, ModelCalled) and event.finish]
    assert reasons == [FinishReason.STOP, FinishReason.HUNG_UP]
    assert record.judged.verdict.value == "passed"


async def _raw(url: str, body: dict[str, Any]) -> tuple[bytes, bool]:
    """What comes back on the wire, and whether the body was ended as HTTP requires."""
    host, _, rest = url.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    reader, writer = await asyncio.open_connection(host, int(port))
    data = json.dumps(body).encode()
    writer.write(f"POST /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode())
    writer.write(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    came = await reader.read()
    writer.close()
    return came, came.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "said", "well"),
    [
        (Answer(pieces=PIECES, piece_s=0.05, stream_error="the model fell over"), "the model fell over", True),
        (Answer(pieces=PIECES, piece_s=0.05, cut_after=2), "the connection broke in the middle", False),
    ],
)
async def test_an_error_in_the_middle_is_passed_on_as_it_came(
    bench: Bench, answer: Answer, said: str, well: bool
) -> None:
    found: list[tuple[bytes, bool]] = []

    async def agent(told: dict[str, str], events: list[Any]) -> str:
        messages = [{"role": "user", "content": "Well?"}]
        url = told["OPENAI_BASE_URL"] + "/chat/completions"
        found.append(await _raw(url, {"messages": messages, "stream": True}))
        return "heard"

    async with ModelServer(answer) as provider:
        model = bench.model("chat", provider)
        record = await bench.run(agent, model, retries=3)
        await model.close()
    assert len(provider.log) == 1, "what has begun is not tried again"
    ((came, ended),) = found
    assert b"Stop " in came
    assert ended is well
    if well:
        assert b"the model fell over" in came
    call = _call(record)
    assert said in (call.error or "")
    assert record.judged.verdict.value == "error", "an outage"


async def test_a_call_that_failed_before_its_first_piece_is_retried(bench: Bench) -> None:
    heard: list[tuple[str, int]] = []
    async with ModelServer([Answer(status=503), SLOW]) as provider:
        model = bench.model("chat", provider)
        record = await bench.run(_listens("chat", heard, lambda: 0), model, retries=2)
        await model.close()
    assert [text for text, _ in heard] == list(PIECES)
    assert len(_call(record).timing.attempts) == 2


async def test_a_client_that_does_not_read_holds_the_server_up(bench: Bench) -> None:
    """Nothing piles up in the gateway: the server can send no more than the buffers in between can hold."""
    whole = 24 * 1024 * 1024
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        piece = (
            b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 65536}}]}).encode() + b"\n\n"
        )
        while sent < whole:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        writer.write(b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')
        await writer.drain()
        writer.close()

    upstream = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    variables = {"OPENAI_API_KEY": KEY}
    options = {"base_url": f"http://127.0.0.1:{port}/v1"}
    model = OpenAIModel(ModelSettings(name="real", folder=bench.folder, variables=variables, options=options))
    stalled: list[int] = []

    async def agent(told: dict[str, str], events: list[Any]) -> str:
        address = told["OPENAI_BASE_URL"].removeprefix("http://")
        host, _, path = address.partition("/")
        reader, writer = await asyncio.open_connection(*host.split(":"), limit=65536)
        body = json.dumps({"messages": [{"role": "user", "content": "Well?"}], "stream": True}).encode()
        head = f"POST /{path}/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while sent != before or not sent:  # until the server has come to a stop
            before = sent
            await asyncio.sleep(0.3)
        stalled.append(sent)
        total = 0
        while data := await reader.read(1 << 20):
            total += len(data)
        writer.close()
        return f"heard {total > whole}"

    record = await bench.run(agent, model)
    await model.close()
    upstream.close()
    assert stalled[0] < whole
    call = _call(record)
    assert len(call.text or "") > whole * 0.9
    assert any("waiting for the agent to read" in str(each) for each in call.timing.spoiled)
    assert record.judged.verdict.value == "passed"
