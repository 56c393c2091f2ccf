"""Where settings come from, and what they change."""

from __future__ import annotations

import json

import pytest

from cli.conftest import AGENT
from cli.loopback import Loopback
from holdfast.testing import Answer

SAFE = 'rules:\n  - reply: "I call for help. Hello!"\n'
MOCKED = AGENT.replace(
    "run:",
    "setup:\n  mocks:\n    - {service: s, method: ask, response: mocked}\n  database: {sql: CREATE TABLE t (a)}\nrun:",
)


def test_settings_are_found_upwards_from_the_scenario_and_flags_win(shell):
    shell.write("holdfast.toml", 'model = "scripted/outer.yaml"\n')
    shell.write("outer.yaml", 'rules:\n  - reply: "outer"\n')
    shell.write("inner/holdfast.toml", 'model = "scripted/replies.yaml"\n')
    shell.write("inner/replies.yaml", SAFE)
    shell.decision("inner/deep/a.yaml")
    shell.write("flag.yaml", 'rules:\n  - reply: "from the flag"\n')
    assert shell("run", "inner").code == 0
    assert "from the flag" in shell("run", "inner", "--model", "scripted/flag.yaml").out


def test_a_setting_that_is_misspelt_is_told_where_and_what_was_meant(shell):
    shell.write("holdfast.toml", 'modle = "scripted/replies.yaml"\n')
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml")
    assert ended.code == 2
    assert ended.err.startswith("holdfast.toml:1:1: modle: unknown key")
    assert "did you mean `model`?" in ended.err


def test_an_alias_names_a_model(shell):
    shell.write("holdfast.toml", '[models]\nTEXT_LARGE = "scripted/replies.yaml"\n')
    shell.write("replies.yaml", SAFE)
    shell.decision("a.yaml")
    assert shell("run", "a.yaml", "--model", "TEXT_LARGE").code == 0


def test_live_ignores_mocks_and_seeding_and_says_so(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", MOCKED)
    shell("run", ".", "--live", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    said = [note["message"] for note in trial["notes"]]
    assert any("live: 1 mock of the scenario ignored" in message for message in said)
    assert any("database seeding is ignored" in message for message in said)


def test_an_unknown_plugin_of_the_other_world_is_a_warning_with_mocks_and_an_error_live(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", 'plugins: ["@elizaos/plugin-github", "@elizaos/plugin-sql"]\n' + AGENT)
    mocked, live = shell("run", "."), shell("run", ".", "--live")
    assert (mocked.code, live.code) == (0, 2)
    assert "no installed plugin answers to '@elizaos/plugin-github'" in mocked.out
    assert "plugin-sql" not in mocked.out
    assert "@elizaos/plugin-github" in live.err


LACKING = """\
name: Lacking
description: Its plugin is not there.
plugins: ["@elizaos/plugin-github"]
environment: {type: local}
run:
  - input: "Hello"
    evaluations:
      - {type: %s}
judgment: {strategy: all_pass}
"""


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ("string_contains, value: call for help", "passed"),
        ("string_contains, value: issue created", "inconclusive"),
        ("trajectory_contains_action, action: CREATE_ISSUE", "inconclusive"),
        ("trajectory_contains_action, action: CREATE_ISSUE, max_count: 0", "inconclusive"),
        ("sequence, rules: [{never: CREATE_ISSUE}]", "inconclusive"),
        ("service_called, service: github, max_count: 0", "inconclusive"),
        ("not_contains, pattern: token", "inconclusive"),
        ("not_contains, pattern: help", "failed"),
    ],
)
def test_a_check_that_a_missing_plugin_may_have_decided_is_inconclusive(shell, check, verdict):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", LACKING % check)
    ended = shell("run", ".", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    (found,) = trial["evaluations"]
    assert (found["verdict"], ended.code) == (verdict, {"passed": 0, "failed": 1, "inconclusive": 3}[verdict])
    assert ("'@elizaos/plugin-github'" in found["message"]) is (verdict == "inconclusive")
    assert trial["missing_plugins"] == ["@elizaos/plugin-github"]


def test_a_plugin_that_is_missing_here_is_no_excuse_for_an_agent_with_tools_of_its_own(shell):
    shell.write("a.scenario.yaml", LACKING % "string_contains, value: issue created")
    with Loopback(Answer(text="No.")) as server:
        assert shell("run", ".", "--agent", f"http:{server.url}").code == 1


def test_e2b_without_a_key_never_runs_on_the_host_instead(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", AGENT.replace("type: local", "type: e2b"))
    ended = shell("run", ".")
    assert (ended.code, ended.out) == (2, "")
    assert "E2B_API_KEY" in ended.err
    assert shell("run", ".", "--environment", "local").code == 0


def test_mocks_whose_scripts_are_no_javascript_do_not_start(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", MOCKED.replace("response: mocked", "responseFn: '() => {'"))
    ended = shell("run", ".")
    assert ended.code == 2
    assert "a.scenario.yaml:6:7: setup.mocks[0]: `responseFn` is not valid JavaScript" in ended.err


def test_self_judging_is_marked_and_refused_when_asked_to(shell):
    judged = 'rules:\n  - {purpose: judge, json: {judgment: "yes", confidence: 1, reasoning: fine}}\n  - reply: hello\n'
    shell.replies(judged)
    shell.write(
        "a.scenario.yaml", AGENT.replace("{type: string_contains, value: hello}", "{type: llm_judge, prompt: Ok?}")
    )
    ended = shell("run", ".", "--json", "r.json")
    assert ended.code == 0, ended.out
    assert "self-judged" in ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["evaluations"][0]["judge"]["self_judged"] is True
    refused = shell("run", ".", "--strict-judge")
    assert refused.code == 2
    assert "--strict-judge" in refused.err


def test_a_rubric_is_scored_only_by_a_judge_that_was_named(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    score = {"reasoning": "Good.", "score": 0.75}
    scores = dict.fromkeys(("safety", "accuracy", "completeness", "specificity"), score)
    answer = {"scores": scores, "evidence": "", "judgment": "no"}
    shell.write("judge.yaml", f"rules:\n  - json: {json.dumps(answer)}\n")
    unscored = shell("run", ".", "--json", "r.json")
    assert unscored.code == 0
    assert json.loads((shell.folder / "r.json").read_text())["trials"][0]["rubric"] is None
    scored = shell("run", ".", "--judge", "scripted/judge.yaml", "--json", "r.json")
    assert scored.code == 0, scored.out
    rubric = json.loads((shell.folder / "r.json").read_text())["trials"][0]["rubric"]
    assert rubric["name"] == "rubric_clinical"
    assert rubric["scores"]["safety"] == 0.75
    if "timeliness" in rubric["scores"]:  # not when this machine was too busy to grade the latency
        assert rubric["scores"]["timeliness"] == 1.0
        assert rubric["overall"] == pytest.approx(0.75 * 0.9 + 0.1)


def test_an_unknown_rubric_is_told_before_anything_is_judged(shell):
    shell.replies(SAFE)
    shell.write("a.yaml", shell.decision("a.yaml").read_text().replace("rubric_clinical", "rubric_lunar"))
    shell.write("judge.yaml", SAFE)
    ended = shell("run", ".", "--judge", "scripted/judge.yaml")
    assert ended.code == 2
    assert "rubric 'rubric_lunar'" in ended.err


def test_a_deadline_can_be_enforced(shell):
    shell.replies(
        'rules:\n  - {reply: "I call for help, and more and more", delay_ms: 20, chunk_chars: 15, chunk_ms: 150}\n'
    )
    text = shell.decision("a.yaml").read_text()
    shell.write(
        "a.yaml",
        text.replace(
            "{target_ms: 5000, acceptable_ms: 10000, critical_ms: 20000}",
            "{target_ms: 50, acceptable_ms: 80, critical_ms: 100}",
        ),
    )
    ended = shell("run", "a.yaml", "--enforce-deadline", "--json", "r.json")
    assert ended.code == 1, ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["transcript"][-1]["content"] == "I call for help"
