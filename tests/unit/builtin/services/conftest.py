"""Environments for SQLite files to live in, and a real PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from steadyhand.builtin.environments.e2b import E2BEnvironment
from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.environments.sandbox import sandbox_available
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.environment import EnvironmentProvider
from support.e2b_server import E2BServer


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    made = LocalEnvironment(EnvironmentSettings(root=tmp_path / "root", trial_id="t"))
    await made.setup([])
    yield made
    await made.teardown()


@pytest.fixture(params=["local", "sandbox", "e2b"])
async def environment(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EnvironmentProvider]:
    async with AsyncExitStack() as stack:
        settings = EnvironmentSettings(root=tmp_path / "root", trial_id="t")
        if request.param == "e2b":
            pytest.importorskip("e2b", reason="the package e2b is not installed")
            server = await stack.enter_async_context(E2BServer())
            made = E2BEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t", variables=server.variables))
        elif request.param == "sandbox":
            if (refusal := sandbox_available()) is not None:
                pytest.skip(refusal)
            made = LocalEnvironment(EnvironmentSettings(root=settings.root, trial_id="t", options={"sandbox": True}))
        else:
            made = LocalEnvironment(settings)
        await made.setup([])
        yield made
        await made.teardown()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server that runs for these tests."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    pgserver = pytest.importorskip("pgserver", reason="the package pgserver is not installed")
    pytest.importorskip("asyncpg", reason="the package asyncpg is not installed")
    server = pgserver.get_server(str(tmp_path_factory.mktemp("postgres") / "data"))
    yield server.get_uri()
    server.cleanup()
