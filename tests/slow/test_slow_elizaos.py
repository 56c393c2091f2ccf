"""Against the real ElizaOS server, with a model on loopback.

npm install --ignore-scripts @elizaos/cli@1.7.2 bun && (cd node_modules/bun && node install.js)
STEADYHAND_ELIZAOS=$PWD/node_modules/.bin pytest -m slow tests/slow/test_slow_elizaos.py
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web

from steadyhand.records.event import ActionTaken, Thought
from support.agents import a_trial, an_agent, turn

pytestmark = pytest.mark.slow
BIN = os.environ.get("STEADYHAND_ELIZAOS", "")
PLAN = (
    "<response><thought>I greet them.</thought><actions>REPLY,MUTE_ROOM</actions><providers></providers>"
    "<text>Hello from the loopback model.</text></response>"
)
CHARACTER = {
    "name": "Eliza",
    "username": "eliza",
    "bio": ["Greets people."],
    "system": "Greet people.",
    "plugins": ["@elizaos/plugin-sql", "@elizaos/plugin-openai", "@elizaos/plugin-bootstrap"],
    "topics": ["greetings"],
    "style": {"all": ["brief"], "chat": ["brief"]},
    "settings": {"secrets": {}},
}


async def _responses(request: web.Request) -> web.StreamResponse:
    part = {"type": "output_text", "text": PLAN, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}
    whole: dict[str, Any] = {
        "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [message],
        "usage": usage, "error": None, "incomplete_details": None,
    }  # fmt: skip
    if not (await request.json()).get("stream"):
        return web.json_response(whole)
    at = {"item_id": "m", "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
        {"type": "response.output_text.delta", **at, "delta": PLAN},
        {"type": "response.output_text.done", **at, "text": PLAN},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": whole},
    ]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number, event in enumerate(events):
        data = json.dumps({**event, "sequence_number": number})
        await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
    await response.write_eof()
    return response


async def _embeddings(request: web.Request) -> web.Response:
    asked = (await request.json())["input"]
    count = len(asked) if isinstance(asked, list) else 1
    data = [{"object": "embedding", "index": index, "embedding": [0.01] * 1536} for index in range(count)]
    return web.json_response({"object": "list", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/responses", _responses)
    app.router.add_post("/v1/embeddings", _embeddings)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


@pytest.fixture
async def eliza_url(model_url: str, tmp_path: Path) -> AsyncIterator[str]:
    if not BIN:
        pytest.skip("set STEADYHAND_ELIZAOS to the folder with the programs elizaos and bun")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    character = tmp_path / "character.json"
    character.write_text(json.dumps(CHARACTER))
    variables = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": model_url,
        "PGLITE_DATA_DIR": str(tmp_path / "pglite"),
        "SERVER_HOST": "127.0.0.1",
        "ELIZA_NO_PLUGIN_AUTO_INSTALL": "true",
        "ELIZA_SERVER_AUTH_TOKEN": "t-1",
    }
    with (tmp_path / "eliza.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            f"{BIN}/elizaos", "start", "-p", str(port), "--character", str(character),
            env=variables, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        async with ClientSession() as session:
            while not await _healthy(session, url):
                assert process.returncode is None, (tmp_path / "eliza.log").read_text()[-2000:]
                await asyncio.sleep(0.5)
        yield url
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def _healthy(session: ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/healthz") as response:
            return response.status == 200
    except ClientError:
        return False


async def test_a_conversation_with_its_actions(eliza_url, tmp_path):
    agent = an_agent(f"elizaos:{eliza_url}", tmp_path, variables={"ELIZA_SERVER_AUTH_TOKEN": "t-1"})
    trial = a_trial(tmp_path)
    try:
        await agent.open(trial)
        first = await agent.respond(turn("Hello there"))
        second = await agent.respond(turn("Hello there", first.text, "And again"))
    finally:
        await agent.close()
    assert first.text == second.text == "Hello from the loopback model."
    taken = [(event.name, event.status) for event in trial.events if isinstance(event, ActionTaken)]
    assert taken == [("REPLY", "success"), ("MUTE_ROOM", "success")] * 2
    assert [event.text for event in trial.events if isinstance(event, Thought)] == ["I greet them."] * 2
