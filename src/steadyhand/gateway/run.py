"""The gateway of a run, with everything that is mounted on it."""

from __future__ import annotations

from steadyhand.gateway.mcp_server import McpMount
from steadyhand.gateway.mocks import MocksMount
from steadyhand.gateway.models import anthropic_mount, bedrock_mount, gemini_mount, openai_mount
from steadyhand.gateway.server import GatewayServer
from steadyhand.gateway.traces import MOUNT, TraceReceiver
from steadyhand.gateway.traffic import MOUNT as TRAFFIC
from steadyhand.gateway.traffic import TrafficMount


def run_gateway(port: int = 0, *, otlp_port: int | None = None) -> GatewayServer:
    """Binds a port and serves once it is started; also on `otlp_port`, for programs that are already running. Raises
    `SetupError` if a port is not available.
    """
    server = GatewayServer(port)
    if otlp_port is not None:
        server.also_at(otlp_port)
    server.mount("openai", openai_mount())
    server.mount("anthropic", anthropic_mount())
    server.mount("gemini", gemini_mount())
    server.mount("bedrock", bedrock_mount())
    server.mount(TRAFFIC, TrafficMount())  # its word comes before that of a trace
    server.mount("mocks", MocksMount())
    server.mount(MOUNT, TraceReceiver(server))
    server.mount("mcp", McpMount())
    return server
