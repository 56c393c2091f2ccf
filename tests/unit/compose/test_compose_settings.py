"""Command line over configuration over defaults."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from steadyhand.compose.settings import restore_options, save_options
from steadyhand.errors import SetupError
from steadyhand.ports.model import ModelFacts, model_facts
from steadyhand.records.config import RunOptions, Selection
from support.project import AGENT

EVERYTHING = """\
out = "records"
concurrency = 3
seed = 11
timeout_s = 12.5
retries = 4
strict_judge = true
sandbox = true
allow_commands = true
"""


def test_without_anything_the_defaults_hold(project):
    settings = project.settings()
    assert (settings.out, settings.concurrency, settings.seed) == (Path(".steadyhand/runs"), 8, None)
    assert (settings.timeout_s, settings.retries) == (60.0, 2)
    switches = (settings.strict_judge, settings.sandbox, settings.allow_commands)
    assert switches == (False, False, False)
    assert settings.votes == 1


def test_configuration_holds_where_nobody_says_otherwise(project):
    project.write("steadyhand.toml", EVERYTHING)
    settings = project.settings()
    assert (settings.out, settings.concurrency, settings.seed) == (project.folder / "records", 3, 11)
    assert (settings.timeout_s, settings.retries) == (12.5, 4)
    assert settings.strict_judge
    assert settings.sandbox
    assert settings.allow_commands


def test_options_win_over_configuration_even_when_they_are_zero(project):
    project.write("steadyhand.toml", EVERYTHING)
    options = {"out": Path("here"), "concurrency": 5, "seed": 0, "timeout_s": 1.5, "retries": 0}
    settings = project.settings(**options)
    assert (settings.out, settings.concurrency, settings.seed) == (Path("here"), 5, 0)
    assert (settings.timeout_s, settings.retries) == (1.5, 0)


def test_a_run_has_one_configuration_and_says_which_others_it_ignores(project):
    project.write("steadyhand.toml", "retries = 1\n")
    project.write("inner/steadyhand.toml", "retries = 7\n")
    scenarios = [project.one(), project.one(name="inner/one.scenario.yaml")]
    settings = project.settings()
    assert settings.retries == 1
    (note,) = settings.notes(scenarios)
    assert note == "inner/steadyhand.toml is ignored: this run uses steadyhand.toml; choose another with --config"
    assert project.settings(config=Path("inner/steadyhand.toml")).retries == 7
    none = project.settings(ignore_config=True)
    assert (none.retries, none.notes(scenarios)) == (2, [])


def test_options_of_a_service_that_no_scenario_has_are_noted(project):
    served = AGENT.replace("run:", "setup: {services: {shop: {mcp: ./shop}}}\nrun:", 1)
    scenarios = [project.one(served)]
    project.write("steadyhand.toml", "retries = 1\n[services.shpo]\nstart_timeout_s = 5\n")
    assert project.settings().notes(scenarios) == [
        "steadyhand.toml:2:1: no scenario has the service 'shpo', so its options are not used; did you mean 'shop'?"
    ]
    project.write("steadyhand.toml", "[services.orders]\nstart_timeout_s = 5\n")
    (note,) = project.settings().notes(scenarios)
    assert note.endswith("no scenario has the service 'orders', so its options are not used; without options: shop")
    assert project.settings().notes([project.one()]) == [], "those of other scenarios are not run now"
    project.write("steadyhand.toml", "[services.shop]\nstart_timeout_s = 5\n[services.orders]\n")
    assert project.settings().notes(scenarios) == []


def test_a_configuration_that_is_not_there_is_an_error(project):
    with pytest.raises(SetupError, match=r"configuration file nowhere\.toml: no such file"):
        project.settings(config=Path("nowhere.toml"))


def test_the_environment_file_goes_over_the_process_and_the_option_over_the_configured_one(project, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "of the process")
    monkeypatch.setenv("ONLY_HERE", "yes")
    project.write("inner/own.env", "SOME_KEY=configured\n")
    project.write("inner/steadyhand.toml", 'env_file = "own.env"\n')
    given = project.write("given.env", "SOME_KEY=given\n")
    config = Path("inner/steadyhand.toml")
    found = project.settings(config=config).variables
    assert (found["SOME_KEY"], found["ONLY_HERE"]) == ("configured", "yes")
    assert project.settings(config=config, env_file=given).variables["SOME_KEY"] == "given"
    with pytest.raises(SetupError, match=r"nowhere\.env: no such file"):
        _ = project.settings(env_file=Path("nowhere.env")).variables


def test_secrets_of_environment_files_and_of_named_variables_are_redacted(project):
    project.write("own.env", "PLAIN_NAME=canary-of-the-provider-1\nMY_API_KEY=canary-of-the-file-22\n")
    project.write("steadyhand.toml", 'env_file = "own.env"\n[providers.openai]\napi_key_env = "PLAIN_NAME"\n')
    redactor = project.settings().redactor()
    shown = redactor.text("canary-of-the-provider-1 and canary-of-the-file-22")
    assert "canary" not in shown


def test_self_hosted_servers_have_no_list_prices(project, monkeypatch):
    registry = project.registries.base
    used = {name: model_facts(registry.model(name)) for name in ("openai", "anthropic", "scripted")}
    used["acme"] = ModelFacts(base_url_variable="ACME_SERVER")  # a plugin's provider
    for facts in used.values():
        monkeypatch.delenv(facts.base_url_variable or "NONE", raising=False)
    project.write("steadyhand.toml", '[providers.mine]\nbase_url = "http://127.0.0.1:9/"\n')
    assert project.settings().own_servers(used) == ("mine",)
    for variable, name in (("OPENAI_BASE_URL", "openai"), ("ANTHROPIC_BASE_URL", "anthropic"), ("ACME_SERVER", "acme")):
        with monkeypatch.context() as only:
            only.setenv(variable, "http://127.0.0.1:9/")
            assert set(project.settings().own_servers(used)) == {"mine", name}


def test_options_come_back_from_the_record_as_they_went_in(project):
    selection = Selection(paths=("a", "b"), tags=("x",), expression="y", filters=("model=z",))
    options = RunOptions(model="openai/m", out=Path("out"), seed=3, replay=Path("tape"), pass_rate=0.5, live=True)
    saved = msgspec.json.decode(msgspec.json.encode(save_options(selection, options)))
    assert restore_options(saved) == (project.folder, selection, options)


def test_a_record_without_its_options_cannot_be_resumed():
    with pytest.raises(SetupError, match="did not store what a resume needs"):
        restore_options({"folder": "."})
