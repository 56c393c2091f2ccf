"""Mounts the MCP server of `gateway.mcp_server`, which takes as long to import as everything else together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadyhand.gateway.connection import GatewayRequest, GatewayResponse
from steadyhand.gateway.server import Address, TrialEndpoint
from steadyhand.plugins.extras import missing_extra
from steadyhand.ports.agent import Addresses

if TYPE_CHECKING:
    from steadyhand.gateway.mcp_server import McpServer


class McpMount:
    """A `Mount`. An agent is given its address even if there are no tools."""

    def __init__(self, name: str = "mcp") -> None:
        self._name = name
        self._server: McpServer | None = None

    def addresses(self, address: Address) -> Addresses:
        url = address.url(self._name)
        return Addresses(names={"mcp_url": url}, variables={"STEADYHAND_MCP_URL": url})

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if self._server is None:
            # Not in a thread: the event loop lags meanwhile, so no latency that includes this wait is graded.
            from steadyhand.gateway.mcp_server import McpServer  # the extra `mcp`

            self._server = McpServer()
        return await self._server.serve(request, endpoint)

    async def settle(self, endpoint: TrialEndpoint) -> None:
        """Nothing to wait for: an agent waits for its own calls."""

    async def leave(self, endpoint: TrialEndpoint) -> None:
        """Nothing is kept."""


def import_mcp_server() -> None:
    """Called before trials that have tools, so that no agent waits for it. Does nothing without the extra `mcp`."""
    if missing_extra("mcp") is None:
        import steadyhand.gateway.mcp_server  # noqa: F401 # pyright: ignore[reportUnusedImport] - for later
