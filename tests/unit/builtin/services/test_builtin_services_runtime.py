"""The database as a service of the agent's runtime: offered, called, recorded, and mocked like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyhand.builtin.services.database import make_database
from steadyhand.ports.services import ServiceFault
from steadyhand.records.event import ServiceCalled
from steadyhand.records.scenario import DatabaseSeed
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import TrialStandIn

SEED = DatabaseSeed(sql="CREATE TABLE t (a INTEGER)", records={"t": [{"a": 1}]})


@pytest.fixture
async def database(local):
    made = make_database(SEED, environment=local, folder=Path())
    await made.open()
    await made.seed(SEED)
    yield made
    await made.close()


@pytest.fixture
async def trial(tmp_path):
    return TrialStandIn(tmp_path)


async def test_an_agent_is_offered_its_methods_and_calls_are_events(database, trial):
    runtime = AgentRuntime(services={"database": database.service()})
    await runtime.open(trial)
    offered = {method.method: method for method in await runtime.offered()}
    assert set(offered) == {"query", "execute"}
    assert set(offered["query"].parameters["properties"]) == {"sql", "params", "args"}
    assert "rows" in offered["query"].description
    await runtime.call("database", "execute", [], {"sql": "INSERT INTO t VALUES (?)", "params": [2]})
    assert await runtime.call("database", "query", ["SELECT a FROM t"], {}) == [{"a": 1}, {"a": 2}]
    with pytest.raises(ServiceFault, match="no such table"):
        await runtime.get_service("database").query("SELECT * FROM gone")
    await database.rows("SELECT a FROM t", timeout_s=20)
    await runtime.close()
    events = [event for event in trial.events if isinstance(event, ServiceCalled)]
    assert [(event.method, bool(event.error)) for event in events] == [
        ("execute", False),
        ("query", False),
        ("query", True),
    ]
    assert await database.rows("SELECT count(*) AS c FROM t", timeout_s=20) == [{"c": 2}]
