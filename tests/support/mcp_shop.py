"""A real MCP server, made with the official package, as a program: over stdio, or with `--http` at the URL it prints.

`--log FILE` gets a line for every tool call that reached it, and `FILE.headers` the headers of its requests. Tests use
tools to make things go wrong. `--run SCRIPT` runs another server instead, in a process that has imported the package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

try:
    from mcp.server.fastmcp import Context, FastMCP, Image
    from mcp.server.fastmcp.exceptions import ToolError
except ImportError:  # version 2 of the package
    from mcp.server.mcpserver import Context, Image
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.mcpserver.exceptions import ToolError

PIXEL = bytes.fromhex("89504e470d0a1a0a")


class Log:
    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __call__(self, tool: str, **given: Any) -> None:
        self._add("", {"tool": tool, **given})

    def headers(self, pairs: Any) -> None:
        self._add(".headers", {name.decode(): value.decode() for name, value in pairs})

    def _add(self, suffix: str, entry: dict[str, Any]) -> None:
        if self._file is not None:
            with Path(f"{self._file}{suffix}").open("a") as file:
                file.write(json.dumps(entry) + "\n")


def out(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def add_wares(server: FastMCP, note: Log) -> None:
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
        raise ToolError("the till is empty")

    @server.tool()
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool()
    def surroundings() -> dict[str, Any]:
        """What the program sees of its surroundings."""
        return {"folder": str(Path.cwd()), "env": dict(os.environ), "pid": os.getpid()}

    @server.tool()
    async def open_the_back_room(context: Context) -> str:
        """Adds a tool, and says so."""

        def secret() -> str:
            return "found"

        server.add_tool(secret)
        await context.session.send_tool_list_changed()
        return "open"


def add_trouble(server: FastMCP, note: Log) -> None:
    @server.tool()
    async def wait(seconds: float) -> str:
        note("wait", seconds=seconds)
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool()
    def die() -> str:
        note("die")
        sys.stderr.write("the shop burns\n")
        sys.stderr.flush()
        os._exit(7)

    @server.tool()
    def flood(mib: int) -> str:
        return "x" * (mib * 2**20)

    @server.tool()
    def say(line: str) -> str:
        """Writes a line to stdout, where only messages belong."""
        out(line)
        return "said"


async def _serve(server: FastMCP, note: Log) -> None:
    import uvicorn

    bound = socket.create_server(("127.0.0.1", 0))
    out(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp")
    app = server.streamable_http_app()

    async def with_headers(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            note.headers(scope["headers"])
        await app(scope, receive, send)

    await uvicorn.Server(uvicorn.Config(with_headers, log_level="error", ws="none")).serve(sockets=[bound])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--greet-first", action="store_true")
    parser.add_argument("--run")
    given = parser.parse_args()
    if given.run:
        runpy.run_path(given.run, run_name="__main__")
        return
    if given.greet_first:
        out("The shop is open.")
    note = Log(given.log)
    server = FastMCP("shop", log_level="ERROR")
    add_wares(server, note)
    add_trouble(server, note)
    if given.http:
        asyncio.run(_serve(server, note))
    else:
        server.run()


if __name__ == "__main__":
    main()
