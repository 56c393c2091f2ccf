"""A real model on this machine: `local/smollm2`, its process, and the same server used through `openai/`."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steadyhand.builtin.models import local_server
from steadyhand.builtin.models.local import LocalModel, LocalModelOptions, find_library, find_weights
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.children.process import IsolatedChild
from steadyhand.errors import ModelError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolSpec

pytestmark = pytest.mark.local
pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (make test-local installs it)")
QUESTION = "What is the capital of France?"
SCHEMA = {"type": "object", "properties": {"judgment": {"enum": ["yes", "no"]}}, "required": ["judgment"]}
SETTINGS = {
    "library": str(find_library("smollm2")),
    "weights": str(find_weights("smollm2", Path())),
    "context": 4096,
    "threads": 1,
    "temperature": 0.2,
    "key": "the-key",
}


STARTED_HERE: set[int] = set()


def asking(text: str, **fields) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), temperature=0.0, seed=1, **fields)


async def ask(model, request: ChatRequest) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


def build(name: str = "smollm2", folder: Path = Path(), **options) -> LocalModel:
    return LocalModel(ModelSettings(name=name, folder=folder, options=options))


def servers(parent: int) -> list[int]:
    """The model servers that this process has started and that are still running, by process ID."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    found = [int(row[0]) for row in rows if int(row[1]) == parent and "local_server.py" in row[2]]
    return [pid for pid in found if pid not in STARTED_HERE]


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def wait_until_gone(group: int) -> None:
    """Nothing is left of the process group once the system has had time to reap it."""
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    pytest.fail(f"the process group {group} is still there")


@pytest.fixture
async def model():
    built = build()
    yield built
    await built.close()
    assert servers(os.getpid()) == []


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The child on its own: its address."""
    child = IsolatedChild(Path(local_server.__file__))
    STARTED_HERE.add(child.pid)
    child.connection.sendall(json.dumps(SETTINGS).encode() + b"\n")
    yield child.connection.recv(200).decode().strip().removeprefix("http://")
    child.connection.close()
    assert child.how_it_ended(wait_s=60.0) == " by SIGKILL", "it ends with the connection that it was given"
    wait_until_gone(child.pid)
    child.bury()


def post(address: str, body: dict, *, key: str = "the-key") -> tuple[int, dict]:
    connection = http.client.HTTPConnection(address)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_the_server_is_ours_alone_and_keeps_nothing(server):
    assert server.startswith("127.0.0.1:")
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 2}
    assert post(server, body, key="another")[0] == 401
    for _ in range(2):
        status, answer = post(server, body)
        assert status == 200
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert answer["timings"]["prompt_n"] == answer["usage"]["prompt_tokens"], "the whole prompt is computed"


async def test_real_tokens_with_real_times(model, server):
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24, "temperature": 0}
    _, plain = post(server, body)
    response = await ask(model, asking(QUESTION, max_tokens=24))
    assert response.text == plain["choices"][0]["message"]["content"]
    assert response.usage.output_tokens == plain["usage"]["completion_tokens"] <= 24
    assert response.usage.input_tokens == plain["usage"]["prompt_tokens"]
    assert sum(characters for _, characters in response.chunks) == len(response.text)
    arrivals = [at for at, _ in response.chunks]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] < arrivals[-1], "tokens come one after another"
    attempt = response.attempt
    assert attempt.sent_ms <= attempt.first_token_ms < attempt.last_byte_ms
    assert (attempt.status, attempt.streamed) == (200, True)


async def test_the_seed_is_kept_and_the_limit_is_the_options(model):
    request = ChatRequest(messages=(Message(role="user", content="Tell me a word."),), temperature=1.5, seed=7)
    limited = build(max_tokens=6)
    first, second = await ask(limited, request), await ask(limited, request)
    assert first.text == second.text
    assert (first.finish_reason, first.usage.output_tokens) == ("length", 6)
    other = await ask(limited, ChatRequest(messages=request.messages, temperature=1.5, seed=8, max_tokens=7))
    assert other.text != first.text
    assert other.usage.output_tokens <= 7
    await limited.close()


async def test_models_of_the_same_weights_share_a_process(model, tmp_path):
    beside = build(folder=tmp_path, max_tokens=3)
    await ask(model, asking("hi", max_tokens=1))
    running = servers(os.getpid())
    await ask(beside, asking("hi"))
    assert len(running) == 1
    assert servers(os.getpid()) == running
    await beside.close()
    assert servers(os.getpid()) == running, "somebody still uses it"


async def test_calls_take_turns_and_do_not_count_the_wait(model):
    requests = [asking(f"Write {number} words.", max_tokens=10) for number in range(3)]
    zero = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.attempt(request, zero=zero)) for request in requests]
    attempts = sorted((task.result().attempt for task in tasks), key=lambda attempt: attempt.started_ms)
    for earlier, later in itertools.pairwise(attempts):
        assert later.started_ms >= earlier.last_byte_ms


async def test_an_answer_can_be_cut(model):
    await ask(model, asking("hi", max_tokens=1))
    cut = await ask(model, asking("Write a long story.", max_tokens=400, cut_after_ms=150.0))
    assert (cut.finish_reason, cut.cut) == ("deadline", True)


async def test_what_is_left_of_a_call_is_not_in_the_times_of_the_next(model):
    """The server goes on with a prompt for a while after all clients have gone."""
    await ask(model, asking("hi", max_tokens=1))
    with pytest.raises(ModelError, match="no complete answer"):
        await ask(model, asking("word " * 1000, timeout_s=0.1))
    attempt = (await ask(model, asking("hi", max_tokens=1))).attempt
    assert attempt.first_token_ms - attempt.sent_ms < attempt.started_ms, "the wait is before the call"


async def test_a_cancelled_call_leaves_the_loading_to_the_next(model):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ask(model, asking("hi", max_tokens=1))
    running = servers(os.getpid())
    assert (await ask(model, asking("hi", max_tokens=1))).text
    assert servers(os.getpid()) == running


async def test_closing_while_it_loads():
    model = build()
    call = asyncio.create_task(ask(model, asking("hi", max_tokens=1)))
    await asyncio.sleep(0.05)
    await model.close()
    with pytest.raises(ModelError):
        await call
    assert servers(os.getpid()) == []


async def test_what_it_cannot_do_is_refused(model):
    with pytest.raises(ModelError, match="cannot call tools") as caught:
        await ask(model, asking("hi", tools=(ToolSpec(name="look"),)))
    assert caught.value.kind == "refused"
    with pytest.raises(ModelError, match=r"exceeds the available context size \(4096 tokens\)") as caught:
        await ask(model, asking("word " * 5000))
    assert (caught.value.kind, caught.value.retryable) == ("refused", False)


async def test_a_process_that_dies_fails_the_call_and_says_so(model):
    await ask(model, asking("hi", max_tokens=1))
    (pid,) = servers(os.getpid())
    call = asyncio.create_task(ask(model, asking("Write a long story.", max_tokens=2000)))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"local/smollm2: its server process ended by SIGKILL") as caught:
        await call
    assert (caught.value.kind, caught.value.retryable) == ("server", False)
    assert caught.value.attempt.error == str(caught.value)
    wait_until_gone(pid)
    assert (await ask(model, asking("hi", max_tokens=1))).text, "the next call gets a new one"

    (pid,) = servers(os.getpid())
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(ModelError, match=r"its server process ended by SIGSEGV"):
        await ask(model, asking("hi", max_tokens=1))


@pytest.fixture
def half(tmp_path) -> LocalModel:
    (tmp_path / "half.gguf").write_bytes(Path(SETTINGS["weights"]).read_bytes()[:50_000])
    return build("half.gguf", tmp_path)


async def test_weights_that_cannot_be_loaded(half):
    for _ in range(2):
        with pytest.raises(
            ModelError, match=r"cannot load .*half\.gguf: .*exit code 1; (?s:.)*failed to load model"
        ) as caught:
            await ask(half, asking("hi"))
        assert (caught.value.kind, caught.value.retryable) == ("refused", False)
    await half.close()


async def less_context() -> None:
    small = build(context=512)
    try:
        with pytest.raises(ModelError, match=r"exceeds the available context size \(512 tokens\)"):
            await ask(small, asking("word " * 1000))
    finally:
        await small.close()


async def more_threads() -> None:
    """Every thread that computes is one of the server's, besides those that it has anyway."""
    if sys.platform != "linux":
        pytest.skip("there is no /proc to count threads in")
    counted = []
    for threads in (1, 4):
        model = build(threads=threads)
        try:
            await ask(model, asking("hi", max_tokens=2))
            (pid,) = servers(os.getpid())
            counted.append(threads_of(pid))
        finally:
            await model.close()
    assert counted[1] - counted[0] == 3


async def fewer_tokens() -> None:
    limited = build(max_tokens=3)
    try:
        response = await ask(limited, asking("Write a long story."))
    finally:
        await limited.close()
    assert (response.finish_reason, response.usage.output_tokens) == ("length", 3)


async def less_time_to_load() -> None:
    slow = build(load_timeout_s=0.001)
    with pytest.raises(ModelError, match=r"was not loaded within 0\.001 s; see the option load_timeout_s"):
        await ask(slow, asking("hi"))
    assert servers(os.getpid()) == []
    await slow.close()


SHOWN_BY = {
    "context": less_context,
    "threads": more_threads,
    "max_tokens": fewer_tokens,
    "load_timeout_s": less_time_to_load,
}


@pytest.mark.parametrize("option", LocalModelOptions.model_fields)
async def test_every_option_has_an_effect(option):
    """As `tests/unit/compose/test_compose_every_option.py` shows for the options of other parts."""
    await SHOWN_BY[option]()


def test_the_process_dies_with_a_run_that_is_killed(tmp_path):
    scenario = Path(__file__).parents[2] / "examples" / "local" / "dry_pump.yaml"
    command = [sys.executable, "-m", "steadyhand", "run", str(scenario), "--model", "local/smollm2", "--trials", "1000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            assert any("SCN-P-912" in line for line in run.stdout), "one trial is done, so the server is up"
            (pid,) = servers(run.pid)
        finally:
            run.kill()
    wait_until_gone(pid)


@pytest.fixture
async def client(server):
    options = {"base_url": f"http://{server}/v1", "api_key_env": "LOCAL_KEY"}
    settings = ModelSettings(name="any", folder=Path(), options=options, variables={"LOCAL_KEY": "the-key"})
    built = OpenAIModel(settings)
    yield built
    await built.close()


async def test_the_openai_client_against_a_server_it_was_not_written_for(client):
    response = await ask(client, asking(QUESTION, max_tokens=24))
    assert response.text.strip()
    assert (response.attempt.streamed, response.attempt.status) == (True, 200)
    assert len(response.chunks) > 1
    assert sum(characters for _, characters in response.chunks) == len(response.text)
    assert response.attempt.sent_ms < response.attempt.first_token_ms < response.attempt.last_byte_ms


async def test_structured_answers_and_json_mode(client):
    response = await ask(client, asking("Is 2 an even number?", json_mode=True, max_tokens=60))
    assert response.text.lstrip().startswith("{")
    response = await ask(client, asking("Is 2 even?", json_schema=SCHEMA, max_tokens=60))
    assert json.loads(response.text) in ({"judgment": "yes"}, {"judgment": "no"})
