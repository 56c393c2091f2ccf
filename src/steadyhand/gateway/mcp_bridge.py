"""Between an MCP client that starts its servers as programs and an MCP server at a URL: messages pass unchanged."""

from __future__ import annotations

import os
from typing import Any

import anyio
import httpx
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from steadyhand.errors import SetupError

_LAST_ANSWERS_S = 30.0


async def bridge(url: str) -> None:
    """Forward messages between our stdin and stdout and the server at `url`, until stdin closes and all are answered.
    Raises `SetupError` if `url` does not answer.
    """
    try:
        async with (
            # Copies, because whoever wraps a stream closes it when done, and ours are needed to the end.
            await anyio.open_file(os.dup(0), encoding="utf-8", errors="replace") as stdin,
            await anyio.open_file(os.dup(1), "w", encoding="utf-8") as stdout,
            stdio_server(stdin, stdout) as (from_client, to_client),
            to_client,
            streamable_http_client(url) as (from_server, to_server, _),
        ):
            await _Bridge(to_client, to_server).carry(from_client, from_server)
    except* httpx.TransportError as errors:
        raise SetupError(f"no answer from {url}: {_first(errors)}") from errors


class _Bridge:
    def __init__(self, to_client: Any, to_server: Any) -> None:
        self._to_client = to_client
        self._to_server = to_server
        self._asked: set[Any] = set()
        self._answered: anyio.Event = anyio.Event()

    async def carry(self, from_client: Any, from_server: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._back, from_server)
            async for message in from_client:
                if isinstance(message, Exception):
                    continue
                if isinstance(message.message.root, JSONRPCRequest):
                    self._asked.add(message.message.root.id)
                await self._to_server.send(message)
            with anyio.move_on_after(_LAST_ANSWERS_S):
                while self._asked:
                    self._answered = anyio.Event()
                    await self._answered.wait()
            group.cancel_scope.cancel()

    async def _back(self, from_server: Any) -> None:
        async for message in from_server:
            if isinstance(message, Exception):
                continue
            await self._to_client.send(message)
            if isinstance(message.message.root, JSONRPCResponse | JSONRPCError):
                self._asked.discard(message.message.root.id)
                self._answered.set()


def _first(errors: BaseException) -> BaseException:
    return _first(errors.exceptions[0]) if isinstance(errors, BaseExceptionGroup) else errors  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - narrowing forgets what the group holds
