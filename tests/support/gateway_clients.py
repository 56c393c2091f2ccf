"""Light agents in their own processes: each makes calls through the addresses of one trial and logs what it did.

Reads jobs as JSON lines on stdin (`{"trial": 1, "openai": URL, "mocks": URL, "otlp": URL, "calls": 3}`), many at a
time, and writes a log for each when it is done: what it sent and what it received. Every other model call is streamed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from typing import Any
from urllib.parse import urlsplit

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _post(connection: Connection, url: str, value: Any) -> bytes:
    reader, writer = connection
    body = json.dumps(value).encode()
    head = f"POST {urlsplit(url).path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    told = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in told:
        return await _chunks(reader)
    length = next(int(line.split(b":")[1]) for line in told.split(b"\r\n") if line.startswith(b"content-length"))
    return await reader.readexactly(length)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while size := int(await reader.readline(), 16):
        found += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return found


async def _ask(connection: Connection, url: str, said: str, *, streamed: bool) -> str:
    asked = {"model": "m", "stream": streamed, "messages": [{"role": "user", "content": said}]}
    answer = await _post(connection, url + "/chat/completions", asked)
    if not streamed:
        return json.loads(answer)["choices"][0]["message"]["content"]
    events = [line.removeprefix(b"data: ") for line in answer.splitlines() if line.startswith(b"data: {")]
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events]
    return "".join(delta.get("content") or "" for delta in deltas)


def _span(said: str) -> dict[str, Any]:
    now = str(time.time_ns())
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": said, "gen_ai.tool.call.arguments": "{}"}
    span = {
        "traceId": secrets.token_hex(16), "spanId": secrets.token_hex(8), "name": said,
        "startTimeUnixNano": now, "endTimeUnixNano": now,
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


async def _work(job: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(job["openai"])
    connection = await asyncio.open_connection(parts.hostname, parts.port)
    log: list[list[str]] = []
    for number in range(job["calls"]):
        said = f"{job['trial']}:{number}"
        log.append(["model", said, await _ask(connection, job["openai"], said, streamed=bool(number % 2))])
        answer = json.loads(await _post(connection, job["mocks"] + "/shop/say", {"text": said}))
        log.append(["service", said, answer["result"]])
        await _post(connection, job["otlp"] + "/v1/traces", _span(said))
        log.append(["span", said, ""])
    connection[1].close()
    return {"trial": job["trial"], "log": log}


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def do(line: bytes) -> None:
        sys.stdout.write(json.dumps(await _work(json.loads(line))) + "\n")
        sys.stdout.flush()

    async with asyncio.TaskGroup() as group:
        while line := await reader.readline():
            group.create_task(do(line))


if __name__ == "__main__":
    asyncio.run(_main())
