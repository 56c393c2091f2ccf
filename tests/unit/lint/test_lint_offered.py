"""Names that nobody offers, as `validate` and `lint` warn of them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from steadyhand.cli.lint import lint
from steadyhand.cli.validate import validate

SCENARIO = """\
name: s
description: d
environment: {type: local}
AGENT
setup:
  mocks:
    - {service: bank, method: transfer, response: ok}
    - {service: shop, method: transfer, response: ok}
    - {service: shop, method: refund, response: ok}
run:
  - input: hi
    evaluations:
      - CHECK
judgment: {strategy: all_pass}
"""
OFFERED = "(offered: bank.transfer, list_files, read_file, run_command, shop.refund, shop.transfer, write_file)"

AMBIGUOUS = "transfer could mean bank.transfer or shop.transfer, which is an error in the run; name it in full"


def problems(folder, check, agent=""):
    (folder / "steadyhand.toml").write_text("")
    (folder / "s.scenario.yaml").write_text(SCENARIO.replace("CHECK", check).replace("AGENT", agent))
    found = CliRunner().invoke(validate, [str(folder), "--config", str(folder / "steadyhand.toml"), "--format", "json"])
    assert found.exit_code == 0, found.output  # a file in the format always loads
    return json.loads(found.stdout)["problems"]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("{type: trajectory_contains_action, action: shop_refnd, max_count: 0}",
         f"trajectory_contains_action: the agent is offered no tool shop_refnd {OFFERED}; did you mean shop.refund?"),
        ("{type: trajectory_contains_action, action: refund, before: pay}",
         f"trajectory_contains_action: the agent is offered no tool pay {OFFERED}"),
        ("{type: sequence, rules: [{never: wipe}]}", f"sequence: the agent is offered no tool wipe {OFFERED}"),
        ("{type: sequence, rules: [{never_until: {action: refund, until: ask}}]}",
         f"sequence: the agent is offered no tool ask {OFFERED}"),
        ("{type: service_called, service: banc, max_count: 0}",
         f"service_called: the agent is offered no service banc {OFFERED}; did you mean bank?"),
        ("{type: service_called, service: bank, method: refund}",
         f"service_called: the agent is offered no method bank.refund {OFFERED}; did you mean shop.refund?"),
        ("{type: trajectory_contains_action, action: transfer}",
         f"trajectory_contains_action: {AMBIGUOUS}"),
    ],
)  # fmt: skip
def test_a_name_that_nobody_offers_is_a_warning(tmp_path, check, message):
    (found,) = problems(tmp_path, check)
    assert (found["level"], found["message"]) == ("warning", message)
    assert (found["line"], found["path"]) == (13, "run[0].evaluations[0]")


@pytest.mark.parametrize(
    "check",
    [
        "{type: trajectory_contains_action, action: shop_refund, before: WRITE-FILE}",
        "{type: trajectory_contains_action, action: transfer, max_count: 0}",
        "{type: trajectory_contains_action, action: mcp__shop__refund}",
        "{type: sequence, rules: [{never: refund}, {never: run_command}]}",
        "{type: service_called, method: transfer}",
        "{type: service_called, service: Bank}",
    ],
)
def test_what_is_offered_is_not(tmp_path, check):
    assert problems(tmp_path, check) == []


@pytest.mark.parametrize("agent", ["agent: python:./mine.py:reply", "agent: http:http://127.0.0.1:9"])
def test_an_agent_may_have_tools_of_its_own_but_not_services(tmp_path, agent):
    assert problems(tmp_path, "{type: trajectory_contains_action, action: wipe, max_count: 0}", agent) == []
    (found,) = problems(tmp_path, "{type: service_called, service: banc, max_count: 0}", agent)
    assert "no service banc" in found["message"]


def test_a_plugin_that_is_not_loaded_may_offer_anything(tmp_path):
    plugin = "plugins: [./mine.py]"
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    found = problems(tmp_path, "{type: trajectory_contains_action, action: wipe, max_count: 0}", plugin)
    assert [each["code"] for each in found if each["code"] in ("never-offered", "ambiguous-name")] == []


def test_lint_finds_it_too_unless_the_file_says_otherwise(tmp_path):
    check = "{type: trajectory_contains_action, action: wipe, max_count: 0}"
    problems(tmp_path, check)
    config = ["--config", str(tmp_path / "steadyhand.toml")]
    found = CliRunner().invoke(lint, [str(tmp_path), *config])
    assert found.exit_code == 1
    assert "the agent is offered no tool wipe" in found.stdout
    assert found.stdout.rstrip().endswith("[never-offered]")
    assert CliRunner().invoke(lint, [str(tmp_path), *config, "--ignore", "never-offered"]).exit_code == 0
    problems(tmp_path, check, "x-lint-ignore: never-offered")
    assert CliRunner().invoke(lint, [str(tmp_path), *config]).exit_code == 0
