"""Between an MCP client that starts its servers as programs and an MCP server at a URL: messages pass unchanged."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server


async def bridge(url: str) -> None:
    """Carry messages between our stdin and stdout and the server at `url`, until stdin ends."""
    async with (
        stdio_server() as (from_client, to_client),
        streamable_http_client(url) as (from_server, to_server, _),
        anyio.create_task_group() as group,
    ):

        async def back() -> None:
            await _carry(from_server, to_client)

        group.start_soon(back)
        await _carry(from_client, to_server)
        group.cancel_scope.cancel()


async def _carry(source: Any, target: Any) -> None:
    async for message in source:
        if not isinstance(message, Exception):
            await target.send(message)
