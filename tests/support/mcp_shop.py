"""A real MCP server, made with the official package, as a program: over stdio, or with `--http` at a URL that it prints.

`--log FILE` has every tool call that reached it, a line each. What a test wants to go wrong, it asks a tool for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.fastmcp import Context, FastMCP, Image

PIXEL = bytes.fromhex("89504e470d0a1a0a")


def shop(log: Path | None) -> FastMCP:
    server = FastMCP("shop", log_level="ERROR")

    def note(tool: str, **given: Any) -> None:
        if log is not None:
            with log.open("a") as file:
                file.write(json.dumps({"tool": tool, **given}) + "\n")

    @server.tool()
    def lookup(number: str) -> dict[str, Any]:
        """The state of an order."""
        note("lookup", number=number)
        return {"number": number, "state": "sent"}

    @server.tool()
    def greet(name: str) -> str:
        """Says hello."""
        note("greet", name=name)
        return f"Hello, {name}"

    @server.tool()
    def words(args: list[str]) -> int:
        """A tool with a parameter that is called as our positional ones are."""
        note("words", args=args)
        return len(args)

    @server.tool()
    def refund(number: str) -> str:
        note("refund", number=number)
        raise ValueError("the till is empty")

    @server.tool()
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool()
    def surroundings() -> dict[str, Any]:
        """What the program sees of its surroundings."""
        return {"folder": str(Path.cwd()), "env": dict(os.environ), "pid": os.getpid()}

    @server.tool()
    async def wait(seconds: float) -> str:
        note("wait", seconds=seconds)
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool()
    def die() -> str:
        note("die")
        print("the shop burns", file=sys.stderr, flush=True)
        os._exit(7)

    @server.tool()
    def flood(mib: int) -> str:
        return "x" * (mib * 2**20)

    @server.tool()
    def say(line: str) -> str:
        """Writes a line to stdout, where only messages belong."""
        print(line, flush=True)
        return "said"

    @server.tool()
    async def open_the_back_room(context: Context[Any, Any, Any]) -> str:
        """Adds a tool, and says so."""

        def secret() -> str:
            return "found"

        server.add_tool(secret)
        await context.session.send_tool_list_changed()
        return "open"

    return server


async def _serve(server: FastMCP) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app()
    log = os.environ.get("SHOP_HEADERS")

    async def with_headers(scope: Any, receive: Any, send: Any) -> None:
        if log and scope["type"] == "http":
            with Path(log).open("a") as file:
                file.write(json.dumps({name.decode(): value.decode() for name, value in scope["headers"]}) + "\n")
        await app(scope, receive, send)

    await uvicorn.Server(uvicorn.Config(with_headers, log_level="error", ws="none")).serve(sockets=[bound])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--greet-first", action="store_true")
    given = parser.parse_args()
    if given.greet_first:
        print("The shop is open.", flush=True)
    server = shop(given.log)
    if given.http:
        asyncio.run(_serve(server))
    else:
        server.run()


if __name__ == "__main__":
    main()
