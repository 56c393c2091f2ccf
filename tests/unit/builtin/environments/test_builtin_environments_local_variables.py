"""The variables of an --env-file are for models and services. Commands never get them."""

from __future__ import annotations

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.environments.sandbox import sandbox_available
from steadyhand.plugins.plugin import EnvironmentSettings


@pytest.mark.parametrize("sandbox", [False, True])
async def test_variables_of_the_settings_do_not_reach_commands(tmp_path, monkeypatch, sandbox):
    if sandbox and (refusal := sandbox_available()) is not None:
        pytest.skip(refusal)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-process")
    given = {"OPENAI_API_KEY": "sk-file", "MY_SETTING": "mine", "PATH": "/of/the/file"}
    settings = EnvironmentSettings(root=tmp_path, trial_id="t", variables=given, options={"sandbox": sandbox})
    environment = LocalEnvironment(settings)
    await environment.setup([])
    seen = (await environment.run("env")).stdout
    if sandbox:  # Without one, a command runs as the user, who may read our own process's environment.
        seen += (await environment.run("cat /proc/*/environ | tr '\\0' '\\n'")).stdout
    await environment.teardown()
    assert "PATH=" in seen
    assert not {word for word in ("sk-process", "sk-file", "mine", "/of/the/file") if word in seen}
