"""Sixty-four agents at once, in their own processes: no event ends up in another agent's trial."""

import gc
import weakref
from pathlib import Path

from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import TrialGateway
from support.gateway_load import wrong_trials
from support.trial import TrialStandIn


async def test_every_event_is_in_the_trial_of_its_agent(tmp_path: Path) -> None:
    assert await wrong_trials(tmp_path, trials=300) == []


async def test_nothing_is_left_of_a_trial_that_has_ended(tmp_path: Path) -> None:
    server = run_gateway()
    trial = TrialStandIn(tmp_path)
    gateway = TrialGateway(server)
    await gateway.open(trial)
    await gateway.settle()
    await gateway.close()
    left = weakref.ref(trial)
    del trial, gateway
    gc.collect()
    assert left() is None
    await server.close()
