from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import GatewayServer


@pytest.fixture
async def server() -> AsyncIterator[GatewayServer]:
    server = run_gateway()
    yield server
    await server.close()
