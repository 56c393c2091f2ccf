"""Command line over scenario over configuration over defaults, and what a path in a name is relative to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from steadyhand.compose.settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_OUT,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    restore_options,
    save_options,
)
from steadyhand.errors import SetupError
from steadyhand.ports.model import ModelFacts, model_facts
from steadyhand.records.config import RunOptions, Selection
from support.project import AGENT

EVERYTHING = """\
model = "openai/configured"
judge = "openai/configured-judge"
user_model = "openai/configured-user"
agent = "http:http://configured/"
out = "records"
concurrency = 3
seed = 11
timeout_s = 12.5
retries = 4
strict_judge = true
sandbox = true
allow_commands = true
"""
CHARACTER = AGENT + "character: {name: Ada, llm: {model: openai/of-the-scenario}}\n"


def test_without_anything_the_defaults_hold(project):
    scenario, settings = project.one(), project.settings()
    assert (settings.out, settings.concurrency, settings.seed) == (DEFAULT_OUT, DEFAULT_CONCURRENCY, None)
    assert (settings.timeout_s, settings.retries) == (DEFAULT_TIMEOUT_S, DEFAULT_RETRIES)
    assert (settings.model(scenario), settings.judge(scenario), settings.user_model(scenario)) == (None, None, None)
    assert settings.agent(scenario) == scenario.default_agent
    switches = (settings.strict_judge, settings.sandbox, settings.allow_commands)
    assert switches == (False, False, False)
    assert settings.votes == 1


def test_configuration_holds_where_nobody_says_otherwise(project):
    project.write("steadyhand.toml", EVERYTHING)
    scenario, settings = project.one(), project.settings()
    assert (settings.out, settings.concurrency, settings.seed) == (project.folder / "records", 3, 11)
    assert (settings.timeout_s, settings.retries) == (12.5, 4)
    assert settings.agent(scenario) == "http:http://configured/"
    assert settings.model(scenario).name == "openai/configured"
    assert settings.judge(scenario).name == "openai/configured-judge"
    assert settings.user_model(scenario).name == "openai/configured-user"
    assert settings.strict_judge
    assert settings.sandbox
    assert settings.allow_commands


def test_options_win_over_configuration_even_when_they_are_zero(project):
    project.write("steadyhand.toml", EVERYTHING)
    options = {"out": Path("here"), "concurrency": 5, "seed": 0, "timeout_s": 1.5, "retries": 0}
    names = {"model": "openai/m", "judge": "openai/j", "user_model": "openai/u", "agent": "model"}
    scenario, settings = project.one(), project.settings(**options, **names)
    assert (settings.out, settings.concurrency, settings.seed) == (Path("here"), 5, 0)
    assert (settings.timeout_s, settings.retries) == (1.5, 0)
    assert settings.agent(scenario) == "model"
    found = [settings.model(scenario), settings.judge(scenario), settings.user_model(scenario)]
    assert [ref.name for ref in found] == ["openai/m", "openai/j", "openai/u"]


def test_the_scenario_stands_between_the_two(project):
    project.write("steadyhand.toml", 'model = "openai/configured"\nagent = "model"\n')
    scenario = project.one(CHARACTER + "agent: runtime\n")
    assert project.settings().model(scenario).name == "openai/of-the-scenario"
    assert project.settings().agent(scenario) == "runtime"
    assert project.settings(model="openai/m").model(scenario).name == "openai/m"
    assert project.settings(agent="model").agent(scenario) == "model"


def test_an_axis_of_a_matrix_wins_over_everything(project):
    project.write("cells/one.scenario.yaml", CHARACTER)
    matrix = "name: M\nbase_scenario: one.scenario.yaml\nmatrix: [{parameter: model, values: [scripted/x.yaml]}]\n"
    project.write("cells/m.matrix.yaml", matrix)
    (scenario,) = project.load("cells/m.matrix.yaml")
    ref = project.settings(model="openai/m").model(scenario)
    assert (ref.name, ref.folder) == ("scripted/x.yaml", project.folder / "cells")


def test_the_user_is_played_by_the_model_under_test_unless_one_is_named(project):
    scenario = project.one()
    assert project.settings(model="openai/m").user_model(scenario).name == "openai/m"
    assert project.settings(model="openai/m", user_model="openai/u").user_model(scenario).name == "openai/u"


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
    assert (none.retries, none.notes(scenarios)) == (DEFAULT_RETRIES, [])


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


def test_a_path_in_a_name_is_relative_to_where_the_name_is_written(project):
    project.write("inner/steadyhand.toml", 'judge = "scripted/j.yaml"\n[models]\nTEXT_SMALL = "scripted/small.yaml"\n')
    scenario = project.one(
        AGENT + "character: {name: Ada, llm: {model: scripted/c.yaml}}\n", "inner/deep/one.scenario.yaml"
    )
    inner, settings = project.folder / "inner", project.settings(config=Path("inner/steadyhand.toml"))
    assert settings.model(scenario).folder == inner / "deep"
    assert settings.judge(scenario).folder == inner
    assert settings.named("TEXT_SMALL", scenario).folder == inner
    assert project.settings(model="scripted/o.yaml").model(scenario).folder == project.folder


def test_aliases_stand_for_models_and_an_unmapped_one_for_the_default(project):
    project.write("steadyhand.toml", '[models]\nTEXT_SMALL = "openai/small"\nmine = "openai/mine"\n')
    scenario, settings = project.one(), project.settings(model="mine")
    default = settings.model(scenario)
    assert default.name == "openai/mine"
    assert settings.of_type("TEXT_SMALL", default, scenario).name == "openai/small"
    assert settings.of_type("TEXT_LARGE", default, scenario) == default
    assert settings.of_type(None, default, scenario) == default
    assert settings.of_type("other/model", default, scenario).name == "other/model"


def test_a_name_without_a_provider_is_refused_with_the_aliases_there_are(project):
    project.write("steadyhand.toml", '[models]\nsmall = "openai/small"\n')
    with pytest.raises(SetupError, match=r"'gpt' has no provider; .* openai/gpt \(aliases here: small\)"):
        project.settings(model="gpt").model(project.one())


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
