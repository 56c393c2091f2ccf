"""Light agents in processes of their own: each makes calls through the addresses of one trial and logs what it did.

Reads jobs as JSON lines on stdin (`{"trial": 1, "openai": URL, "mocks": URL, "calls": 3}`), many at a time, and writes
a log for each when it is done: what it said and what it was told.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit


async def _post(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], url: str, value: Any) -> Any:
    reader, writer = connection
    body = json.dumps(value).encode()
    path = urlsplit(url).path
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return json.loads(await reader.readexactly(length))


async def _work(job: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(job["openai"])
    connection = await asyncio.open_connection(parts.hostname, parts.port)
    log: list[list[str]] = []
    for number in range(job["calls"]):
        said = f"{job['trial']}:{number}"
        answer = await _post(
            connection,
            job["openai"] + "/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": said}]},
        )
        log.append(["model", said, answer["choices"][0]["message"]["content"]])
        answer = await _post(connection, job["mocks"] + "/shop/say", {"text": said})
        log.append(["service", said, answer["result"]])
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
