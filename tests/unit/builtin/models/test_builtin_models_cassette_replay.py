"""What was recorded is replayed byte for byte, without the original model."""

import asyncio
import os
import time

import msgspec
import pytest

from steadyhand.builtin.models.cassette import (
    CASSETTE_FILE,
    CassetteWriter,
    RecordingModel,
    read_cassette,
    request_key,
)
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.builtin.models.replay import Cassette, ReplayedModel, ReplayProvider
from steadyhand.builtin.models.scripted import ScriptedModel
from steadyhand.errors import ModelError, SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message, ToolSpec
from steadyhand.redaction import Redactor
from steadyhand.testing import Answer, ModelServer

CANARY = "canary-Zq7f93kd02mmx81"


def asking(text: str, **more) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), **more)


def scripted(folder, rules: str) -> ScriptedModel:
    (folder / "rules.yaml").write_text(rules)
    return ScriptedModel(ModelSettings(name="rules.yaml", folder=folder))


async def attempt(model, request):
    return await model.attempt(request, zero=time.perf_counter())


def spans(response):
    """Everything in an answer except when it began."""
    began = response.attempt.started_ms
    moments = (response.attempt.sent_ms, response.attempt.first_token_ms, response.attempt.last_byte_ms)
    return [round(moment - began, 1) for moment in moments]


async def test_a_live_answer_comes_back_whole_and_marked_without_the_server(tmp_path):
    request = asking("What now?", temperature=0.0, seed=5)
    async with ModelServer(Answer(text="Stop the pump now.", piece_chars=4, piece_s=0.002)) as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": CANARY}
        cassette = CassetteWriter(tmp_path, Redactor([CANARY]))
        model = RecordingModel(OpenAIModel(ModelSettings(name="m", folder=tmp_path, variables=variables)), cassette)
        live = await attempt(model, request)
        await model.close()
        cassette.close()
    assert CANARY.encode() not in (tmp_path / CASSETTE_FILE).read_bytes()

    replayed = await attempt(ReplayedModel("openai/m", Cassette(tmp_path, Redactor())), request)
    assert (live.source, replayed.source) == ("live", "replayed")
    assert len(replayed.chunks) > 1
    assert spans(replayed) == pytest.approx(spans(live), abs=0.2)
    same = {"source": "live", "attempt": live.attempt}
    assert msgspec.structs.replace(replayed, **same) == live


async def test_zero_time_waits_for_nothing(tmp_path):
    an_hour = Attempt(started_ms=0.0, sent_ms=0.0, first_byte_ms=1.0, last_byte_ms=3_600_000.0)
    cassette = CassetteWriter(tmp_path, Redactor())
    answer = ChatResponse(text="at last", attempt=an_hour, chunks=((3_600_000.0, 7),))
    cassette.add(cassette.begin(), "some/model", asking("x"), response=answer)
    cassette.close()
    replayed = await attempt(ReplayedModel("some/model", Cassette(tmp_path, Redactor())), asking("x"))
    assert replayed.attempt.latency_ms == pytest.approx(3_600_000.0, abs=0.01)
    assert replayed.chunks == answer.chunks


async def test_original_time_is_waited_out(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    model = RecordingModel(scripted(tmp_path, "rules:\n  - {reply: hello, delay_ms: 50}\n"), cassette)
    for _ in range(2):
        await attempt(model, asking("x"))
    cassette.close()
    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor(), time="original"))
    began = time.perf_counter()
    await attempt(replayed, asking("x"))
    assert time.perf_counter() - began >= 0.05
    with pytest.raises(ModelError, match=r"no complete answer within 0.001 s") as error:
        await attempt(replayed, asking("x", timeout_s=0.001))
    assert (error.value.kind, error.value.retryable) == ("timeout", True)


async def test_failed_attempts_are_recorded_and_fail_again(tmp_path):
    rules = "rules:\n  - {reply: fine, fail: {kind: rate_limit, attempts: 1, retry_after_s: 7}}\n"
    cassette = CassetteWriter(tmp_path, Redactor())
    model = RecordingModel(scripted(tmp_path, rules), cassette)
    with pytest.raises(ModelError) as live:
        await attempt(model, asking("x"))
    await attempt(model, asking("x"))
    cassette.close()

    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    with pytest.raises(ModelError) as again:
        await attempt(replayed, asking("x"))
    found, expected = again.value, live.value
    assert (str(found), found.kind, found.retryable, found.status) == (str(expected), "rate_limit", True, 429)
    assert (expected.retry_after_s, found.retry_after_s) == (7, 0.0)
    assert found.attempt is not None
    assert found.attempt.error == str(expected)
    assert (await attempt(replayed, asking("x"))).text == "fine"


async def test_a_call_without_a_recording_is_named(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    model = RecordingModel(scripted(tmp_path, "rules:\n  - reply: hello\n"), cassette)
    for _ in range(2):
        await attempt(model, asking("known"))
    cassette.close()
    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    with pytest.raises(ModelError) as never:
        await attempt(replayed, asking("something else", purpose="judge"))
    assert str(never.value) == (
        f"the recording in {tmp_path} has no answer for a call of scripted/rules.yaml for the judge that ends with "
        "'something else'; the scenario, its options or an earlier answer has changed since; record it again"
    )
    assert (never.value.kind, never.value.retryable) == ("refused", False)
    for _ in range(2):
        await attempt(replayed, asking("known"))
    with pytest.raises(ModelError, match="it was recorded 2 times and is now needed once more"):
        await attempt(replayed, asking("known"))
    with pytest.raises(ModelError, match=r"a call of openai/x for .*; it holds scripted/rules.yaml; record"):
        await attempt(ReplayedModel("openai/x", Cassette(tmp_path, Redactor())), asking("known"))


async def test_identical_requests_get_their_own_answers_by_seed_and_else_in_order(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    model = RecordingModel(scripted(tmp_path, "rules:\n  - {replies: [a, b, c, d], pick: random}\n"), cassette)
    seeds = range(6)
    async with asyncio.TaskGroup() as group:
        live = [group.create_task(attempt(model, asking("x", seed=seed))) for seed in seeds]
    cassette.close()
    said = [task.result().text for task in live]
    assert len(set(said)) > 1
    same_seeds = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    assert [(await attempt(same_seeds, asking("x", seed=seed))).text for seed in reversed(seeds)] == said[::-1]
    other_seeds = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    assert [(await attempt(other_seeds, asking("x", seed=100 + seed))).text for seed in seeds] == said


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "judge"},
        {"temperature": 0.5},
        {"max_tokens": 5},
        {"json_mode": True},
        {"json_schema": {"type": "object"}},
        {"tools": (ToolSpec(name="look"),)},
        {"messages": (Message(role="user", content="y"),)},
    ],
)
def test_what_the_model_is_shown_makes_the_key(change):
    assert request_key(msgspec.structs.replace(asking("x"), **change)) != request_key(asking("x"))


def test_seed_and_time_limit_do_not_make_the_key():
    assert request_key(asking("x", seed=4, timeout_s=2.0)) == request_key(asking("x"))


async def test_a_call_that_was_given_up_is_one_on_replay_unless_it_was_answered_later(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    rules = "rules:\n  - {contains: slow, reply: late, delay_ms: 5000}\n  - reply: fine\n"
    model = RecordingModel(scripted(tmp_path, rules), cassette)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await attempt(model, asking("slow"))
    cassette.close()
    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    with pytest.raises(ModelError, match="was abandoned after") as error:
        await attempt(replayed, asking("slow"))
    assert (error.value.kind, error.value.retryable) == ("timeout", False)

    resumed = CassetteWriter(tmp_path, Redactor(), add=True)
    await attempt(RecordingModel(scripted(tmp_path, "rules:\n  - reply: at last\n"), resumed), asking("slow"))
    resumed.close()
    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    assert (await attempt(replayed, asking("slow"))).text == "at last"


async def test_secrets_in_questions_and_answers_are_redacted_and_still_found(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor([CANARY]))
    model = RecordingModel(scripted(tmp_path, "rules:\n  - echo: true\n"), cassette)
    first = await attempt(model, asking(f"my key is {CANARY}"))
    assert CANARY in first.text
    await attempt(model, asking(first.text + " again"))
    cassette.close()
    assert CANARY not in (tmp_path / CASSETTE_FILE).read_text()
    without = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    mask = "*" * len(CANARY)
    answer = await attempt(without, asking(f"my key is {mask}"))
    assert answer.text == f"my key is {mask}"
    assert sum(size for _, size in answer.chunks) == len(answer.text)
    assert (await attempt(without, asking(answer.text + " again"))).source == "replayed"
    with_secret = ReplayedModel(model.name, Cassette(tmp_path, Redactor([CANARY])))
    assert (await attempt(with_secret, asking(f"my key is {CANARY}"))).source == "replayed"


async def test_text_that_is_not_unicode_is_recorded(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    model = RecordingModel(scripted(tmp_path, "rules:\n  - reply: hello\n"), cassette)
    await attempt(model, asking("half \ud83d a pair"))
    cassette.close()
    replayed = ReplayedModel(model.name, Cassette(tmp_path, Redactor()))
    assert (await attempt(replayed, asking("half \ud83d a pair"))).text == "hello"


async def test_the_provider_answers_for_whichever_model_was_recorded(tmp_path):
    cassette = CassetteWriter(tmp_path / "tape", Redactor())
    await attempt(RecordingModel(scripted(tmp_path, "rules:\n  - reply: hello\n"), cassette), asking("x"))
    cassette.close()
    model = ReplayProvider(ModelSettings(name="tape", folder=tmp_path))
    assert model.name == "replay/tape"
    assert (await attempt(model, asking("x"))).text == "hello"
    with pytest.raises(SetupError, match="option time: expected one of the allowed values"):
        ReplayProvider(ModelSettings(name="tape", folder=tmp_path, options={"time": "fast"}))


async def test_half_a_line_at_the_end_is_passed_over_and_cut_off_by_the_next(tmp_path):
    cassette = CassetteWriter(tmp_path, Redactor())
    model = scripted(tmp_path, "rules:\n  - reply: hello\n")
    await attempt(RecordingModel(model, cassette), asking("one"))
    cassette.close()
    file = tmp_path / CASSETTE_FILE
    with file.open("ab") as stream:
        stream.write(b'{"number":2,"key":"ab')
    assert len(read_cassette(tmp_path)) == 1
    resumed = CassetteWriter(tmp_path, Redactor(), add=True)
    await attempt(RecordingModel(model, resumed), asking("two"))
    resumed.close()
    assert [exchange.number for exchange in read_cassette(tmp_path)] == [1, 2]


def test_a_recording_is_not_written_over(tmp_path):
    CassetteWriter(tmp_path, Redactor()).close()
    with pytest.raises(SetupError, match="the folder already has a recording; choose another"):
        CassetteWriter(tmp_path, Redactor())


def test_a_pipe_is_not_a_recording(tmp_path):
    os.mkfifo(tmp_path / "cassette.jsonl")
    with pytest.raises(SetupError, match="expected a file, found a folder, pipe or device"):
        read_cassette(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no recording: there is no .*cassette.jsonl; make one with --record"),
        (b"", "is not a Steadyhand recording"),
        (b"<html>\n", "is not a Steadyhand recording"),
        (b'{"cassette":99}\n', "has format 99, and this version of Steadyhand reads up to 2; upgrade"),
        (b'{"cassette":1,"steadyhand_version":"0","created_at":""}\n{"number":1}\n', r"cassette.jsonl:2 is damaged"),
    ],
)
def test_a_file_that_is_not_a_cassette_is_refused_with_a_reason(tmp_path, content, said):
    if content is not None:
        (tmp_path / CASSETTE_FILE).write_bytes(content)
    with pytest.raises(SetupError, match=said):
        Cassette(tmp_path, Redactor())


@pytest.mark.parametrize(
    ("word", "reason", "limit"),
    [("length", "length", 9), ("content_filter", "content_filter", 9), ("eos", "stop", 9), ("novel", "unknown", 9)],
)
async def test_a_cassette_of_the_first_format_says_how_its_answers_ended(tmp_path, word, reason, limit):
    """It has the word as written by the server or the first version, and the limit only in the request."""
    request = asking("hi", max_tokens=limit)
    header = b'{"cassette":1,"steadyhand_version":"0.1.0","created_at":""}'
    exchange = {
        "number": 1,
        "key": request_key(request),
        "model": "openai/m",
        "request": msgspec.to_builtins(request),
        "response": {"text": "Stop", "attempt": [0.0], "finish_reason": word},
    }
    (tmp_path / CASSETTE_FILE).write_bytes(header + b"\n" + msgspec.json.encode(exchange) + b"\n")
    response = await attempt(ReplayedModel("openai/m", Cassette(tmp_path, Redactor())), request)
    assert (response.finish_reason, response.token_limit) == (reason, limit)
