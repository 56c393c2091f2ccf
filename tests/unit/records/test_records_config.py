"""What options declare, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyhand.cli.main import cli
from steadyhand.records.config import HEADINGS, RunOptions, Selection, declared_by, default_of

SET = {
    "record": Path("tape"), "trials": 3, "shard": "1/2", "seed": 7, "workers": 2, "ray_env": ("KEY",), "model": "a/b",
    "trust": True, "env_file": Path(".env"), "out": Path("runs"), "judge_canaries": Path("labels.csv"),
}  # fmt: skip


def test_every_option_of_a_command_declares_what_it_needs():
    for record in (Selection, RunOptions):
        for name, option in declared_by(record).items():
            if option.flag and option.commands:
                assert option.help, name
                assert option.heading in HEADINGS, name
                assert all(cli.get_command(None, command) for command in option.commands), name
                assert set(option.elsewhere) <= set(option.commands), name


@pytest.mark.parametrize(
    ("repeating", "ended"),
    [
        ("rejudge", {"record", "trials", "shard", "workers", "ray_env", "judge_canaries", "trust"}),
        ("failed_of", {"record", "shard", "seed"}),
        ("copy", {"env_file", "workers", "ray_env", "judge_canaries", "out"}),
    ],
)
def test_what_is_repeated_goes_without_some_options(repeating, ended):
    kept = RunOptions(**SET).without(repeating).given()
    assert set(SET) - set(kept) == ended
    assert kept == {name: value for name, value in SET.items() if name not in ended}


def test_agents_are_the_users_one_or_several():
    assert RunOptions(agent="model").users_agents == ("model",)
    assert RunOptions(agents=("model", "runtime")).users_agents == ("model", "runtime")


def test_a_default_is_declared_once():
    assert [default_of(name) for name in ("concurrency", "retries", "timeout_s", "model")] == [8, 2, 60.0, None]
