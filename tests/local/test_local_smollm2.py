"""A real model on this machine: `local/smollm2`, and a server of the same weights that `openai/` talks to."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.builtin.models.local import LocalModel
from holdfast.builtin.models.openai import OpenAIModel
from holdfast.errors import ModelError, SetupError
from holdfast.plugins.factories import ModelSettings
from holdfast.records.message import Message, ToolSpec
from holdfast.records.model import ChatRequest, ChatResponse

pytestmark = pytest.mark.local
QUESTION = "What is the capital of France?"


def weights() -> Path:
    from holdfast.builtin.models.local_weights import find_weights

    return find_weights("smollm2", Path())


def missing() -> str | None:
    try:
        weights()
    except SetupError as error:
        return str(error)
    return None if importlib.util.find_spec("llama_cpp") else "llama-cpp-python is not installed"


if (reason := missing()) is not None:
    pytest.skip(reason, allow_module_level=True)


def library_says(text: str, *, max_tokens: int) -> str:
    """The answer of the library's own chat call, with no randomness in it."""
    import llama_cpp

    llama = llama_cpp.Llama(model_path=str(weights()), n_ctx=4096, verbose=False)
    messages = [{"role": "user", "content": text}]
    answer = llama.create_chat_completion(messages=messages, temperature=0.0, max_tokens=max_tokens)
    llama.close()
    return answer["choices"][0]["message"]["content"]


def asking(text: str, **fields) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), temperature=0.0, seed=1, **fields)


async def ask(model, request: ChatRequest) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


@pytest.fixture
async def model():
    built = LocalModel(ModelSettings(name="smollm2", folder=Path()))
    yield built
    await built.close()


async def test_real_tokens_with_real_times(model):
    response = await ask(model, asking(QUESTION, max_tokens=24))
    assert response.text == library_says(QUESTION, max_tokens=24)
    assert response.usage.output_tokens <= 24
    assert response.usage.input_tokens > len(QUESTION.split())
    assert sum(characters for _, characters in response.chunks) == len(response.text)
    arrivals = [at for at, _ in response.chunks]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] < arrivals[-1], "tokens come one after another"
    attempt = response.attempt
    assert attempt.sent_ms <= attempt.first_token_ms < attempt.last_byte_ms


async def test_the_same_call_again_is_computed_again(model):
    request = asking("Say: STOP THE PUMP.", max_tokens=8)
    first, second = await ask(model, request), await ask(model, request)
    assert first.text == second.text
    assert first.usage == second.usage


async def test_the_event_loop_goes_on_meanwhile(model):
    await ask(model, asking("hi", max_tokens=1))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    response = await ask(model, asking("Write about the sea.", max_tokens=30))
    ticking.cancel()
    assert response.usage.output_tokens > 5
    assert ticks > 5


async def test_calls_take_turns_and_do_not_count_the_wait(model):
    requests = [asking(f"Write {number} words.", max_tokens=10) for number in range(3)]
    zero = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.attempt(request, zero=zero)) for request in requests]
    attempts = sorted((task.result().attempt for task in tasks), key=lambda attempt: attempt.started_ms)
    for earlier, later in itertools.pairwise(attempts):
        assert later.started_ms >= earlier.last_byte_ms


async def test_structured_answers(model):
    schema = {"type": "object", "properties": {"judgment": {"enum": ["yes", "no"]}}, "required": ["judgment"]}
    response = await ask(model, asking("Is 2 an even number?", json_schema=schema, max_tokens=40))
    assert response.text.replace(" ", "") in ('{"judgment":"yes"}', '{"judgment":"no"}')


async def test_an_answer_can_be_cut_and_a_call_cancelled(model):
    await ask(model, asking("hi", max_tokens=1))
    cut = await ask(model, asking("Write a long story.", max_tokens=400, cut_after_ms=150.0))
    assert (cut.finish_reason, cut.cut) == ("deadline", True)
    with pytest.raises(ModelError, match="no complete answer"):
        await ask(model, asking("Write a long story.", max_tokens=400, timeout_s=0.1))
    assert (await ask(model, asking(QUESTION, max_tokens=24))).text == library_says(QUESTION, max_tokens=24)


async def test_what_it_cannot_do_is_refused(model):
    with pytest.raises(ModelError, match="cannot call tools") as caught:
        await ask(model, asking("hi", tools=(ToolSpec(name="look"),)))
    assert caught.value.kind == "refused"
    with pytest.raises(ModelError, match="the context holds 4096") as caught:
        await ask(model, asking("word " * 5000))
    assert (caught.value.kind, caught.value.retryable) == ("refused", False)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if importlib.util.find_spec("uvicorn") is None:
        pytest.skip("the server's packages are missing: pip install 'llama-cpp-python[server]'")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(weights()), "--port", str(port)]
    command += ["--n_ctx", "2048", "--n_threads", "1", "--verbose", "False"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    base_url = f"http://127.0.0.1:{port}/v1"
    try:
        while True:
            try:
                urllib.request.urlopen(f"{base_url}/models").close()
                break
            except OSError:
                if process.poll() is not None:
                    pytest.fail(f"the server did not start: {process.communicate()[1][-2000:]}")
                time.sleep(0.2)
        yield base_url
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
async def client(server):
    built = OpenAIModel(ModelSettings(name="smollm2", folder=Path(), options={"base_url": server}))
    yield built
    await built.close()


async def test_the_openai_client_against_a_server_it_was_not_written_for(client):
    response = await ask(client, asking(QUESTION, max_tokens=24))
    assert response.text.strip()
    assert (response.attempt.streamed, response.attempt.status) == (True, 200)
    assert len(response.chunks) > 1
    assert sum(characters for _, characters in response.chunks) == len(response.text)
    assert response.attempt.sent_ms < response.attempt.first_token_ms < response.attempt.last_byte_ms


async def test_structured_answers_and_json_mode_over_http(client):
    schema = {"type": "object", "properties": {"judgment": {"enum": ["yes", "no"]}}, "required": ["judgment"]}
    response = await ask(client, asking("Is 2 an even number?", json_mode=True, max_tokens=60))
    assert response.text.lstrip().startswith("{")
    # This server says 500 to a schema, and is asked once more without.
    response = await ask(client, asking("Is 2 even?", json_schema=schema, max_tokens=60))
    assert (response.text != "", response.attempt.status) == (True, 200)


async def test_more_than_fits_is_no_answer_over_http(client):
    """This server begins a stream and breaks it off, without a word of why."""
    with pytest.raises(ModelError) as caught:
        await ask(client, asking("word " * 3000))
    assert caught.value.kind in ("refused", "server", "stream")
