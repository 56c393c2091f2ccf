"""An HTTP endpoint with its own interface: gives the answers it is told to, and keeps the requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Desk:
    """`asked` has (method, path, headers, body). An answer is JSON, a response, or None to keep the client waiting."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.answers: dict[tuple[str, str], Any] = {}
        self.url = ""
        self.closing = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.asked.append((request.method, request.path, dict(request.headers), json.loads(body) if body else None))
        answer = self.answers[request.method, request.path]
        if answer is None:
            await self.closing.wait()
        return answer if isinstance(answer, web.Response) else web.json_response(answer)


@asynccontextmanager
async def serving_desk() -> AsyncIterator[Desk]:
    desk = Desk()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", desk.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    desk.url = f"http://127.0.0.1:{port}"
    try:
        yield desk
    finally:
        desk.closing.set()
        await runner.cleanup()
