from __future__ import annotations

import asyncio

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.environment import OnThisMachine


async def test_the_folder_is_the_workspace_that_is_captured_and_removed(tmp_path):
    environment = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    assert isinstance(environment, OnThisMachine)
    folder = await environment.folder()
    (folder / "made.txt").write_text("by hand")
    assert (await environment.capture())["made.txt"].text() == "by hand"
    assert await environment.folder() == folder
    await environment.teardown()
    assert not folder.exists()


async def test_what_was_started_in_the_folder_is_ended_with_it(tmp_path):
    environment = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    process = await asyncio.create_subprocess_exec("sleep", "600", cwd=await environment.folder())
    await environment.teardown()
    assert await process.wait() == -9
