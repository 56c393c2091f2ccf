"""Every key of the configuration has an effect."""

from __future__ import annotations

import json

import pytest

from steadyhand.compose.scenarios import build_registry
from steadyhand.plugins.plugin import options_of
from steadyhand.ports.agent import agent_facts
from steadyhand.spec.config_shapes import ConfigShape
from support.shell import AGENT, Shell

JUDGED = AGENT.replace("string_contains, value: hello", "llm_judge, prompt: Ok?")
YES = 'rules:\n  - {purpose: judge, json: {judgment: "yes", confidence: 1, reasoning: fine}}\n  - reply: hello\n'
TALK = """\
name: Talk
description: d
environment: {type: local}
run:
  - input: Hello
    conversation: {max_turns: 2, user_simulator: {persona: p, objective: o}}
    evaluations: [{type: string_contains, value: hello}]
judgment: {strategy: all_pass}
"""
SERVED = AGENT.replace("run:", "setup: {services: {shop: {mcp: ./shop}}}\nrun:", 1)
MODEL = 'model = "scripted/replies.yaml"\n'


def reported(shell: Shell) -> tuple[dict, dict]:
    report = json.loads((shell.folder / "r.json").read_text())
    return report["run"], report["trials"][0]


def models_of(trial: dict) -> set[str]:
    return {call["model"] for call in trial["timing"]["calls"]}


SEEN = {
    # key: (configuration, scenario, what shows it)
    "model": (MODEL, AGENT, lambda run, trial, ended: models_of(trial) == {"scripted/replies.yaml"}),
    "judge": (MODEL + 'judge = "scripted/b.yaml"', JUDGED, lambda r, trial, e: "scripted/b.yaml" in models_of(trial)),
    "user_model": (MODEL + 'user_model = "scripted/b.yaml"', TALK,
                   lambda r, trial, e: "scripted/b.yaml" in models_of(trial)),
    "models": (MODEL.replace("scripted/replies.yaml", "M") + '[models]\nM = "scripted/b.yaml"', AGENT,
               lambda r, trial, e: models_of(trial) == {"scripted/b.yaml"}),
    "agent": (MODEL + 'agent = "model"', AGENT, lambda r, trial, e: trial["agent"].startswith("model:")),
    "out": (MODEL + 'out = "kept"', AGENT, lambda r, t, ended: "record: kept/" in ended.out or "/kept/" in ended.out),
    "defaults": (MODEL + "[defaults]\ntags = ['everyday']", AGENT,
                 lambda r, trial, e: trial["scenario"]["tags"] == ["everyday"]),
    "seed": (MODEL + "seed = 4711", AGENT, lambda run, t, e: run["seed"] == 4711),
    "votes": (MODEL + "votes = 3", JUDGED, lambda r, trial, e: len(trial["evaluations"][0]["judge"]["votes"]) == 3),
    "prices": (MODEL + '[prices."scripted/replies.yaml"]\ninput = 1e6\noutput = 1e6', AGENT,
               lambda r, t, ended: "cost 15.0" in ended.out),
    "retries": (MODEL.replace("replies", "failing") + "retries = 0", AGENT, lambda r, t, ended: ended.code == 3),
    "wait_limit_s": (MODEL.replace("replies", "limited") + "wait_limit_s = 0.2", AGENT,
                     lambda r, t, ended: "a trial may wait 0.2 s (--wait-limit)" in " ".join(ended.out.split())),
    "timeout_s": (MODEL.replace("replies", "hanging") + "timeout_s = 0.2\nretries = 0", AGENT,
                  lambda r, t, ended: ended.code == 3),
    "allow_commands": (MODEL.replace("replies", "command") + "allow_commands = true", AGENT,
                       lambda r, trial, e: "from-a-command-42" in json.dumps(trial)),
}  # fmt: skip
REFUSED = {
    # key: (configuration, scenario or none, what the refusal says)
    "environment": ('environment = "docker"', None, "unknown environment type 'docker'"),
    "env_file": ('env_file = "none.env"', AGENT, "none.env: no such file"),
    "strict_judge": ("strict_judge = true", JUDGED, "self-judged"),
    "judge_kind": ('judge_kind = "jury"', JUDGED, "unknown judge kind 'jury'"),
    "user_kind": ('user_kind = "actor"', TALK, "unknown user kind 'actor'"),
    "plugins": ('plugins = ["./none.py"]', AGENT, "none.py"),
    "rubrics": ('rubrics = "none"', None, "rubric 'mine' not found"),
    "providers": ("[providers.scripted]\nx = 1", AGENT, "unknown key `x`"),
    "agents": ("[agents.runtime]\nx = 1", AGENT, "unknown key `x`"),
    "environments": ("[environments.local]\nx = 1", AGENT, "unknown key `x`"),
    "calibration": ('[calibration]\nfile = "none.json"\nrequired = true\nmin_kappa = 2', JUDGED, "min_kappa"),
    "judges": ("[judges.llm]\nx = 1", AGENT, "unknown key `x`"),
    "agents.elizaos": ('[agents.elizaos]\ntraces = "tools"', AGENT, "unknown key `traces`"),
    "services": ("[services.shop]\nx = 1", SERVED, "option x"),
    "users": ("[users.llm]\nx = 1", AGENT, "unknown key `x`"),
}
OTHERWISE = {"agent_can_read", "concurrency", "isolation", "sandbox", "stall_limit_s"}


@pytest.fixture
def ready(shell: Shell) -> Shell:
    usage = "{reply: hello, usage: {input_tokens: 10, output_tokens: 5}}"
    shell.write("replies.yaml", YES.replace("reply: hello", usage))
    shell.write("b.yaml", YES)
    shell.write("failing.yaml", "rules:\n  - {reply: hello, fail: {kind: server, attempts: 1}}\n")
    shell.write("limited.yaml", "rules:\n  - {reply: hello, fail: {kind: rate_limit, attempts: 50}}\n")
    shell.write("hanging.yaml", "rules:\n  - {reply: hello, fail: {kind: hang}}\n")
    call = "{name: run_command, arguments: {command: echo from-a-command-$((40+2))}}"
    shell.write("command.yaml", f"rules:\n  - {{tool_results: true, reply: hello}}\n  - tool_calls: [{call}]\n")
    return shell


def test_no_key_is_left_out():
    assert {key.partition(".")[0] for key in (*SEEN, *REFUSED, *OTHERWISE)} == set(ConfigShape.model_fields)


def test_only_agents_whose_spans_reach_us_take_traces():
    registry = build_registry()
    taken = {}
    for kind in registry.names("agents"):
        options = options_of(registry.part("agents", kind))
        taken[kind] = options is not None and "traces" in options.model_fields
    assert {kind for kind, takes in taken.items() if takes} == {"a2a", "command", "http", "python"}
    assert all(agent_facts(registry.part("agents", kind)).uses_gateway for kind, takes in taken.items() if takes)


@pytest.mark.parametrize("key", SEEN)
def test_a_setting_shows_in_the_run(ready, key):
    config, scenario, shown = SEEN[key]
    ready.write("steadyhand.toml", config + "\n")
    ready.write("a.scenario.yaml", scenario)
    ended = ready("run", "a.scenario.yaml", "--json", "r.json")
    assert ended.code in (0, 3), ended.out + ended.err
    assert shown(*reported(ready), ended)


@pytest.mark.parametrize("key", REFUSED)
def test_a_setting_is_looked_at(ready, key):
    config, scenario, told = REFUSED[key]
    ready.write("steadyhand.toml", f"{MODEL}{config}\n")
    if scenario is None:
        text = ready.decision("a.yaml").read_text()
        ready.write("a.yaml", text.replace("rubric_clinical", "mine") if key == "rubrics" else text)
    else:
        ready.write("a.scenario.yaml", scenario)
    ended = ready("run", "a.yaml" if scenario is None else "a.scenario.yaml")
    assert ended.code == 2
    assert told in ended.err


def test_rubrics_are_found_in_their_folder(ready):
    text = ready.decision("a.yaml").read_text()
    ready.write("a.yaml", text.replace("rubric_clinical", "mine"))
    ready.write("mine_here/mine.yaml", "name: mine\ndimensions: [{name: a, weight: 1.0, description: d}]\n")
    ready.write("steadyhand.toml", f'{MODEL}rubrics = "mine_here"\n')
    assert ready("validate", "a.yaml").code == 0


def test_isolation_and_what_agents_can_read(ready):
    ready.write("a.scenario.yaml", AGENT)
    ready.write("agent.py", "def agent(message): return open('a.scenario.yaml').read()[-1:] + 'hello'\n")
    for settings, word in (("isolation = 'none'", "none"), ("agent_can_read = ['a.scenario.yaml']", "room")):
        ready.write("steadyhand.toml", f"agent = 'python:agent.py:agent'\n{settings}\n")
        ended = ready("run", "a.scenario.yaml", "--json", "r.json")
        assert ended.code == 0, ended.out + ended.err
        assert f"isolation: {word}" in ended.out
        assert (
            "a.scenario.yaml" in str(json.loads((ready.folder / "r.json").read_text())["run"]["agent_can_read"])
        ) is (word == "room")


def test_concurrency_and_sandbox(ready):
    ready.write("steadyhand.toml", f"{MODEL}concurrency = 3\n")
    ready.write("a.scenario.yaml", AGENT)
    assert "up to 3 trials at once" in ready("run", "a.scenario.yaml", "--dry-run").out
    ready.write("steadyhand.toml", f"{MODEL}sandbox = true\n")
    ended = ready("run", "a.scenario.yaml", PATH="/nowhere")
    assert (ended.code, "commands cannot be sandboxed" in ended.err) == (2, True)
