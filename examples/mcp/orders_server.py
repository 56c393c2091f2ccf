"""A small MCP server, made with the official package. It looks up orders, and would issue refunds if asked to."""

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # version 1 of the package
    from mcp.server.fastmcp import FastMCP as MCPServer

ORDERS = {
    "A-1042": {"state": "delivered", "total": 48},
    "B-7": {"state": "on its way", "total": 12},
}
server = MCPServer("orders", log_level="ERROR")


@server.tool()
def lookup_order(number: str) -> dict[str, str | int]:
    """The state of an order. Numbers look like A-1042."""
    if number not in ORDERS:
        raise ValueError(f"there is no order {number}")
    return {"number": number, **ORDERS[number]}


@server.tool()
def refund(number: str, amount: float) -> str:
    """Refund money."""
    raise RuntimeError("this example must never get here: the scenario mocks it")


if __name__ == "__main__":
    server.run()
