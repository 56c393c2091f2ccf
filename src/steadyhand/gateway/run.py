"""The gateway of a run, with everything that is mounted on it."""

from __future__ import annotations

from steadyhand.gateway.mcp_mount import McpMount
from steadyhand.gateway.mocks import MocksMount
from steadyhand.gateway.models import anthropic_mount, openai_mount
from steadyhand.gateway.server import GatewayServer
from steadyhand.gateway.traces import MOUNT, TraceReceiver
from steadyhand.plugins.extras import missing_extra


def run_gateway(port: int = 0, *, otlp_port: int | None = None) -> GatewayServer:
    """Binds a port and serves once it is started; also on `otlp_port`, for programs that are already running. Raises
    `SetupError` if a port is not available.
    """
    server = GatewayServer(port)
    if otlp_port is not None:
        server.also_at(otlp_port)
    server.mount("openai", openai_mount())
    server.mount("anthropic", anthropic_mount())
    server.mount("mocks", MocksMount())
    server.mount(MOUNT, TraceReceiver(server))
    if missing_extra("mcp") is None:
        server.mount("mcp", McpMount())
    return server
