"""Sixty-four agents at once, in processes of their own: no event ends up in another one's trial."""

from pathlib import Path

from support.gateway_load import wrong_trials


async def test_every_event_is_in_the_trial_of_its_agent(tmp_path: Path) -> None:
    assert await wrong_trials(tmp_path, trials=256) == []
