"""A `.env` is read only where the configuration or the command names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.shell import AGENT, Shell

CONFIG = 'model = "openai/some"\nretries = 0\n{more}\n'


@pytest.fixture
def keyed(shell: Shell) -> Shell:
    """A project whose key and address are only in `.env`. Nothing listens at that address."""
    shell.write("one.scenario.yaml", AGENT)
    shell.write(".env", "OPENAI_API_KEY=sk-from-the-file-0123456789\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\n")
    shell.write("steadyhand.toml", CONFIG.format(more=""))
    return shell


def test_a_file_that_nobody_names_is_not_read(keyed: Shell):
    ended = keyed("run", "one.scenario.yaml")
    assert ended.code == 2
    assert "OPENAI_API_KEY" in ended.err


def test_it_is_read_when_the_configuration_says_so(keyed: Shell):
    keyed.write("steadyhand.toml", CONFIG.format(more='env_file = ".env"'))
    ended = keyed("run", "one.scenario.yaml", "--no-progress")
    assert ended.code == 3, "it started, and found nobody at the address"
    assert "127.0.0.1:9: cannot connect" in ended.out
    assert "sk-from-the-file" not in ended.out + ended.err


def test_the_configurations_own_folder_counts_and_not_the_current_one(keyed: Shell, tmp_path: Path):
    keyed.write("steadyhand.toml", CONFIG.format(more='env_file = "keys.env"'))
    keyed.write("below/keys.env", "OPENAI_API_KEY=sk-below-0123456789\n")
    ended = keyed.within(tmp_path / "below")("run", "../one.scenario.yaml")
    assert ended.code == 2
    assert f"environment file {tmp_path / 'keys.env'}: no such file" in ended.err
