"""The gateway of a run, with everything that is mounted on it."""

from __future__ import annotations

import importlib.util

from steadyhand.gateway.mocks import MocksMount
from steadyhand.gateway.models import anthropic_mount, openai_mount
from steadyhand.gateway.server import GatewayServer
from steadyhand.gateway.traces import MOUNT, TraceReceiver


def run_gateway(port: int = 0) -> GatewayServer:
    """Takes a port and answers once it is started. Raises `SetupError` when the port is not to be had."""
    server = GatewayServer(port)
    server.mount("openai", openai_mount())
    server.mount("anthropic", anthropic_mount())
    server.mount("mocks", MocksMount())
    server.mount(MOUNT, TraceReceiver(server))
    if importlib.util.find_spec("mcp") is not None:
        from steadyhand.gateway.mcp_server import McpMount  # the extra `mcp`

        server.mount("mcp", McpMount())
    return server
