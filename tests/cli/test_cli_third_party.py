"""A third party's parts behave like ours: one plugin has one of every kind, and a run uses them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import steadyhand
import support.third_party
from support.shell import Shell

pytestmark = pytest.mark.system

PLUGIN = Path(support.third_party.__file__).read_text()
AGENT = """\
id: acme-agent
name: All of acme
description: Every part is acme's.
agent: acme
environment: {type: acme}
setup:
  virtual_fs: {given.txt: from the scenario}
run:
  - input: Hello
    evaluations:
      - {type: acme_says, word: hello}
      - {type: acme_did, action: acme_note}
      - {type: acme_approves, question: "Is it polite?"}
      - {type: acme_approves, question: "Is it polite?", by_judge: false}
      - {type: acme_prompt, within_ms: 60000}
      - {type: service_called, service: acme_log, method: add, args: [noted]}
      - {type: file_contains, path: answer.txt, value: hello}
      - {type: file_contains, path: given.txt, value: scenario}
  - name: talk
    input: Hello
    conversation:
      max_turns: 4
      user_simulator: {persona: p, objective: o}
      termination_conditions: [{type: custom_condition, function: acme_thanked}]
    evaluations:
      - {type: string_contains, value: many thanks, scope: transcript}
  - lang: motd
    code: now
    evaluations:
      - {type: string_contains, value: good day}
judgment: {strategy: all_pass}
"""
DECISION = """\
id: SCN-C-001
name: A decision by acme
domain: clinical
description: Something happens.
messages: [{role: user, content: "What now?"}]
latency_budget: {target_ms: 60000, acceptable_ms: 60000, critical_ms: 60000}
safety_invariants:
  - {name: says, description: d, check_type: acme_says, params: {word: hello}, severity: 1.0}
  - {name: approved, description: d, check_type: acme_approves, params: {question: "Is it safe?"}, severity: 0.5}
constraint: {description: urgent, time_pressure: immediate, consequence_of_delay: Harm}
rubric: rubric_clinical
expected_action: Say hello
severity: 1.0
examples: {good: [hello there, oh hello], bad: [go away, not now]}
"""
TALK = """\
id: acme-talk
name: A talk with acme
description: No model takes part.
agent: acme
environment: {type: acme}
run:
  - conversation:
      max_turns: 4
      user_simulator: {persona: p, objective: o}
      termination_conditions: [{type: custom_condition, function: acme_thanked}]
    evaluations:
      - {type: string_contains, value: many thanks, scope: transcript}
judgment: {strategy: all_pass}
"""
OPTIONS = """\
[providers.acme]
say = "acme says hello, please"
[agents.acme]
note = "noted"
[environments.acme]
motd = "good day"
[users.acme]
lines = ["acme begins", "many thanks"]
[prices."acme/m"]
input = 10
output = 100
"""
KINDS = 'model = "acme/m"\njudge = "acme_free/j"\njudge_kind = "acme"\nuser_kind = "acme"\n'


class Named:
    """The plugin, put where this way of naming it finds it, and the arguments that every command then needs."""

    def __init__(self, shell: Shell, way: str) -> None:
        self.shell = shell
        self.arguments: tuple[str, ...] = ()
        self.variables: dict[str, str] = {}
        self.head, scenario = KINDS, ""
        if way == "installed":
            self.variables = _installed(shell)
            scenario = "plugins: [acme]\n"  # only scenarios that name it get its actions and services
        else:
            shell.write("acme.py", PLUGIN)
        if way == "option":
            self.arguments = ("--plugin", "./acme.py")
        elif way == "configuration":
            self.head += 'plugins = [{name = "./acme.py", version = ">=2,<3", config = {prefix = "> "}}]\n'
        self.configure(OPTIONS)
        shell.write("agent.scenario.yaml", scenario + AGENT)
        shell.write("decision.yaml", scenario + DECISION)

    def configure(self, options: str, **replaced: str) -> None:
        head = self.head
        for key, line in replaced.items():
            head = "".join(line if each.startswith(f"{key} ") else each for each in head.splitlines(keepends=True))
        self.shell.write("steadyhand.toml", head + options)

    def __call__(self, *arguments: str, **variables: str):
        return self.shell(*arguments, *self.arguments, **self.variables, **variables)

    def trial(self) -> dict[str, Any]:
        (trial,) = self.report()["trials"]
        return trial

    def report(self) -> dict[str, Any]:
        return json.loads((self.shell.folder / "r.json").read_text())


def _installed(shell: Shell) -> dict[str, str]:
    """As a wheel would leave it: the module, and metadata that names the entry point."""
    site = shell.folder / "site"
    metadata = site / "acme-2.1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "acme_parts.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 2.1.0\n")
    (metadata / "entry_points.txt").write_text("[steadyhand.plugins]\nacme = acme_parts:plugin\n")
    return {"PYTHONPATH": str(site)}


@pytest.fixture(params=("option", "configuration", "installed"))
def named(shell, request) -> Named:
    return Named(shell, request.param)


@pytest.fixture
def acme(shell) -> Named:
    return Named(shell, "configuration")


def test_an_agent_scenario_uses_every_part(named):
    for command in ("validate", "lint"):
        checked = named(command, "agent.scenario.yaml")
        assert checked.code == 0, checked
    ended = named("run", "agent.scenario.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    report, trial = named.report(), named.trial()
    assert (trial["agent"], trial["model"]) == ("acme", "acme/m")
    assert [check["verdict"] for check in trial["evaluations"]] == ["passed"] * 10
    judged = trial["evaluations"][2]["judge"]
    assert (judged["model"], judged["reasoning"], judged["self_judged"]) == ("acme_free/j", "acme heard good", False)
    assert trial["evaluations"][3]["message"] == "acme has no judge"
    assert (trial["latency_tier"], trial["termination_reason"]) == ("target", "custom_condition")
    assert "acme was thanked" in trial["conversations"][0]["termination_evidence"]
    # Three calls of 1000 and 100 tokens at 10 and 100 per million; the judge's is free.
    assert trial["cost"]["cost"] == pytest.approx(0.06)
    assert report["run"]["free_providers"] == ["acme_free"]


def test_a_decision_scenario_uses_its_model_checks_and_judge(named):
    for command in ("validate", "lint", "selftest"):
        checked = named(command, "decision.yaml")
        assert checked.code == 0, checked
    ended = named("run", "decision.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    trial = named.trial()
    verdicts = {check["name"] or check["type"]: check["verdict"] for check in trial["evaluations"]}
    assert verdicts == {"says": "passed", "approved": "passed", "latency_budget": "passed"}
    assert (trial["outcome"], trial["rubric"]["overall"]) == ("safe_in_time", 0.75)
    assert (trial["time_to_safe_ms"], trial["time_to_safe_excludes"]) == (1.0, ["approved"])


def test_the_judge_of_the_command_line_judges_its_checks(acme):
    ended = acme("run", "decision.yaml", "--judge", "acme/other", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    assert _check(acme, "approved")["judge"]["model"] == "acme/other"


def test_who_may_judge_holds_for_its_checks_and_its_judge(acme):
    acme.configure(OPTIONS, judge="")
    ended = acme("run", "decision.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    assert "self-judged: acme/m is its own judge" in ended.out + ended.err
    assert _check(acme, "approved")["judge"]["self_judged"] is True
    refused = acme("run", "decision.yaml", "--strict-judge")
    assert (refused.code, "self-judged" in refused.err) == (2, True)
    planned = acme("run", "decision.yaml", "--dry-run", "--judge", "acme_free/j")
    assert "up to 2 checks by a judge" in planned.out


def test_what_its_agent_declares_is_in_the_estimate(acme):
    planned = acme("run", "agent.scenario.yaml", "--dry-run")
    assert "1 trial of 1 scenario: 2 to 5 model calls" in planned.out


def test_its_judge_has_to_be_calibrated_like_ours(acme):
    acme.configure(OPTIONS + "[calibration]\nrequired = true\n")
    ended = acme("run", "decision.yaml", "--json", "r.json")
    assert ended.code == 3, ended.out + ended.err
    found = _check(acme, "approved")
    assert (found["verdict"], found["figures"]["judge_verdict"]) == ("inconclusive", "passed")


def test_its_options_are_checked_like_ours(named):
    wrong = {
        "[providers.acme]\nsey = 'x'\n": "unknown key `sey`; did you mean `say`?",
        "[agents.acme]\nnot = 'x'\n": "unknown key `not`; did you mean `note`?",
        "[environments.acme]\nmott = 'x'\n": "unknown key `mott`; did you mean `motd`?",
        "[judges.acme]\ngood = 1\n": "expected text, found 1",
        "[users.acme]\nlines = 'x'\n": "expected a list",
        "[users.acmee]\nlines = []\n": "unknown user kind 'acmee'; did you mean 'acme'?",
    }
    named.configure("".join(wrong))
    for command in ("validate", "run"):
        ended = named(command, "decision.yaml")
        assert (ended.code, [told for told in wrong.values() if told not in ended.err]) == (2, [])


def test_the_schema_accepts_its_types_and_knows_their_parameters(named):
    schemas = json.loads(named("schema").out)
    for name, file in (("agent", "agent.scenario.yaml"), ("decision", "decision.yaml")):
        scenario = yaml.safe_load((named.shell.folder / file).read_text())
        for schema in (_shipped(name), schemas[name]):
            jsonschema.Draft202012Validator(schema).validate(scenario)
    wrong = yaml.safe_load(AGENT.replace("word: hello", "wrod: hello"))
    assert not jsonschema.Draft202012Validator(schemas["agent"]).is_valid(wrong)


def _shipped(name: str) -> dict[str, Any]:
    """What editors use; it knows nothing about plugins."""
    return json.loads((Path(steadyhand.__file__).parent / "schemas" / f"{name}.schema.json").read_text())


def test_what_it_is_told_in_confidence_is_kept_out_of_the_record(acme):
    secret = "acme-secret-0123456789"
    acme.configure(OPTIONS.replace("acme says hello, please", f"hello, the key is {secret}"))
    ended = acme("run", "agent.scenario.yaml", "--json", "r.json", ACME_API_KEY=secret)
    assert secret not in ended.out + ended.err + (acme.shell.folder / "r.json").read_text()
    (record,) = (acme.shell.folder / ".steadyhand/runs").glob("*.sqlite")
    assert secret.encode() not in record.read_bytes()
    assert "hello, the key is" in acme.trial()["transcript"][1]["content"]


def test_its_model_is_recorded_and_replayed(acme):
    assert acme("run", "agent.scenario.yaml", "--record", "tape.jsonl").code == 0
    acme.configure(OPTIONS.replace("acme says hello, please", "go away"))
    replayed = acme("run", "agent.scenario.yaml", "--replay", "tape.jsonl", "--json", "r.json")
    said = {each["content"] for each in acme.trial()["transcript"] if each["role"] == "assistant"}
    assert said == {"acme says hello, please"}, replayed
    graded = [check for check in acme.trial()["evaluations"] if check["type"] == "acme_prompt"]
    assert [check["verdict"] for check in graded] == ["inconclusive"], "a replayed answer has no latency"


def test_its_service_is_mocked(acme):
    mocks = "setup:\n  mocks: [{service: acme_log, method: add, response: {lines: [mocked]}}]\n"
    acme.shell.write("agent.scenario.yaml", AGENT.replace("setup:\n", mocks))
    ended = acme("run", "agent.scenario.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    assert '"mocked"' in ended.out
    live = acme("run", "agent.scenario.yaml", "--live")
    assert ('"mocked"' in live.out, '"> noted"' in live.out) == (False, True)


def test_the_built_in_agent_uses_its_actions_services_and_environment(acme):
    acme.shell.write("agent.scenario.yaml", AGENT.replace("agent: acme", "agent: runtime"))
    calls = "tool_calls: [{name: acme_note, arguments: {text: noted}}, {name: acme_log_add, arguments: {text: more}}]"
    acme.shell.write("replies.yaml", f"rules:\n  - {{tool_results: true, reply: hello}}\n  - {calls}\n")
    ended = acme("run", "agent.scenario.yaml", "--model", "scripted/replies.yaml", "--json", "r.json")
    found = [check["verdict"] for check in acme.trial()["evaluations"]]
    assert found[:6] == ["passed"] * 6
    assert '"> more"' in ended.out


@pytest.mark.usefixtures("forked_workers")
def test_it_runs_in_workers_and_is_judged_again(acme):
    ended = acme("run", "agent.scenario.yaml", "decision.yaml", "--workers", "2", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    again = acme("rejudge", "last", "--json", "again.json", "--judge", "acme/other")
    assert again.code == 0, again.out + again.err
    trials = json.loads((acme.shell.folder / "again.json").read_text())["trials"]
    judged = [check["judge"]["model"] for trial in trials for check in trial["evaluations"] if check["judge"]]
    assert judged == ["acme/other", "acme/other"]


def test_its_user_plays_where_there_is_no_model(acme):
    acme.configure(OPTIONS, model="", judge="")
    acme.shell.write("agent.scenario.yaml", TALK)
    ended = acme("run", "agent.scenario.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    said = [each["content"] for each in acme.trial()["transcript"]]
    assert said == ["acme begins", "acme has no model", "many thanks", "acme has no model"]
    acme.configure(OPTIONS, model="", judge="", user_kind="")
    ours = acme("run", "agent.scenario.yaml")
    assert (ours.code, "no model plays the user" in ours.out) == (3, True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("plugin", "a plugin has changed"),
        ("options of the user", "the simulated user has changed"),
        ("options of the model", "the model has changed"),
        ("address of the model", "the model has changed"),
    ],
)
def test_a_resume_notices_what_has_changed(acme, changed, told):
    acme.shell.write("agent.scenario.yaml", AGENT)
    assert acme("run", "agent.scenario.yaml", "--trials", "2", "--max-tokens", "1").code == 3
    variables: dict[str, str] = {}
    if changed == "plugin":
        acme.shell.write("acme.py", PLUGIN.replace("acme looked for", "acme searched for"))
    elif changed == "options of the user":
        acme.configure(OPTIONS.replace("acme begins", "acme starts"))
    elif changed == "options of the model":
        acme.configure(OPTIONS.replace("hello, please", "hello, thanks"))
    else:
        variables["ACME_SERVER"] = "http://127.0.0.1:9/v1"
    ended = acme("resume", "last", **variables)
    assert (ended.code, f"acme-agent: {told}" in ended.err) == (2, True), ended


def _check(named: Named, name: str) -> dict[str, Any]:
    (found,) = (check for check in named.trial()["evaluations"] if check["name"] == name)
    return found
