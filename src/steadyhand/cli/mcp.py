"""`steadyhand mcp`: serve a trial's tools to a client that starts its MCP servers as programs."""

from __future__ import annotations

import sys

import click

from steadyhand.errors import SetupError


@click.command()
@click.argument("url", envvar="STEADYHAND_MCP_URL")
def mcp(*, url: str) -> None:
    """Serve the MCP tools at URL over stdin and stdout.

    URL defaults to the value of STEADYHAND_MCP_URL.
    """
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"expected a URL such as http://127.0.0.1:4000/TOKEN/mcp, found {url!r}")
    from steadyhand.gateway.mcp_bridge import bridge

    bridge(url, sys.stdin.buffer, sys.stdout.buffer)
