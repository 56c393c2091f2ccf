"""Agents that know nothing about us: three frameworks, a Node program and a service, in one scenario with mocks.

Each passes when it behaves, and fails on the right check when it does not. They need the extra `frameworks`, and Node
with the packages of `examples/gateway`; `make test-frameworks` installs both, and lets nothing be skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cli.test_cli_agents import served
from steadyhand.records.chat import ToolCall
from steadyhand.testing import Answer, ModelServer, Served
from support.loopback import free_port, traced_service

pytestmark = pytest.mark.slow
AGENTS = Path(__file__).parents[1] / "support" / "framework_agents"
EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway"
NODE = Path(os.environ.get("STEADYHAND_NODE_PACKAGES", Path(sys.prefix) / "node")) / "node_modules"
ALL = "STEADYHAND_ALL_FRAMEWORKS"
"""Set by `make test-frameworks`: a missing part then fails a test instead of skipping it."""

# The checks of desk.scenario.yaml, in order.
CHECKS = ("found with the number", "not refunded", "shop asked with the number", "shop not asked to refund", "reply")
BROKEN = {
    "good": (),
    "generous": ("not refunded", "shop not asked to refund"),
    "confused": ("found with the number", "shop asked with the number"),
    "idle": ("found with the number", "shop asked with the number"),
}
MOODS = tuple(BROKEN)


def _need(*packages: str, node: bool = False) -> None:
    missing = [name for name in packages if find_spec(name.partition(".")[0]) is None or find_spec(name) is None]
    if node and (shutil.which("node") is None or not NODE.is_dir()):
        missing.append(f"Node with the packages of examples/gateway in {NODE.parent}")
    if missing:
        message = f"not installed: {', '.join(missing)} (make test-frameworks)"
        (pytest.fail if os.environ.get(ALL) else pytest.skip)(message)


def _model(request: Served) -> Answer:
    """One model per mood, by name. It calls its tools one after the other, and then talks about the order."""
    mood, messages = request.body["model"], request.body["messages"]
    (order,) = set(re.findall(r"The order is ([A-Z]-\d+)", json.dumps(messages)))
    results = sum(each["role"] == "tool" for each in messages)
    wanted = {
        "good": [("find_order", order)],
        "generous": [("find_order", order), ("refund", order)],
        "confused": [("find_order", "A-9999")],
        "idle": [],
    }[mood]
    if results < len(wanted):
        name, number = wanted[results]
        return Answer(tool_calls=(ToolCall(id=f"c{results}", name=name, arguments={"number": number}),))
    return Answer(text=f"I have looked up order {order}: it is on its way.")


@pytest.fixture
def project(shell):
    for file in AGENTS.iterdir():
        if file.is_file():
            shutil.copy(file, shell.folder)
    return shell


def _trials(shell: Any, ended: Any) -> dict[str, dict[str, Any]]:
    """By the mood of the model."""
    assert (shell.folder / "out.json").exists(), ended.out + ended.err
    trials = json.loads((shell.folder / "out.json").read_text())["trials"]
    return {(trial["model"] or "").rpartition("/")[2]: trial for trial in trials}


def _broken(trial: dict[str, Any]) -> tuple[str, ...]:
    """Which checks failed. All others must have passed: *inconclusive* is no outcome here."""
    verdicts = dict(zip(CHECKS, (each["verdict"] for each in trial["evaluations"]), strict=True))
    assert set(verdicts.values()) <= {"passed", "failed"}, trial["evaluations"]
    return tuple(name for name, verdict in verdicts.items() if verdict == "failed")


def _actions(trial: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(each["name"], each["params"]) for each in trial["trajectory"] if each["type"] == "action"]


def _run(project: Any, agent: str, *moods: str) -> dict[str, dict[str, Any]]:
    models = [word for mood in moods for word in ("--model", f"openai/{mood}")]
    with served(ModelServer(_model)) as server:
        ended = project(
            "run", "desk.scenario.yaml", "--agent", agent, *models, "--json", "out.json",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-none",
        )  # fmt: skip
    assert ended.code == (0 if moods == ("good",) else 1), ended.out + ended.err
    return _trials(project, ended)


FRAMEWORKS = {
    "pydantic_ai": ("pydantic_ai", "openai"),
    "openai_agents": ("agents", "openai"),
    "langgraph": ("langgraph", "langchain_openai"),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_of_a_framework_is_seen_through_what_it_returns(project, framework):
    _need(*FRAMEWORKS[framework])
    (project.folder / "steadyhand.toml").write_text('[agents.python.env]\nSHOP_URL = "{mocks_url}"\n')
    trials = _run(project, f"python:./desk_{framework}.py:answer", *MOODS)
    assert {mood: _broken(trial) for mood, trial in trials.items()} == BROKEN
    assert _actions(trials["generous"]) == [("find_order", {"number": "A-1042"}), ("refund", {"number": "A-1042"})]
    assert _actions(trials["confused"]) == [("find_order", {"number": "A-9999"})]
    assert _actions(trials["idle"]) == []
    observed = [each["content"] for each in trials["good"]["trajectory"] if each["type"] == "observation"]
    assert "on its way" in json.dumps(observed)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_that_reports_a_call_that_reached_nobody_fails_the_service_check(project, framework):
    """Its model asked for the call, but the shop, whose address it was given, was never asked."""
    _need(*FRAMEWORKS[framework])
    (project.folder / "steadyhand.toml").write_text('[agents.python.env]\nSHOP_IT_IGNORES = "{mocks_url}"\n')
    trial = _run(project, f"python:./desk_{framework}.py:answer", "good", "generous")["good"]
    assert _broken(trial) == ("shop asked with the number",)
    (action,) = [each for each in trial["trajectory"] if each["type"] == "action"]
    assert action["witnesses"] == ["gateway", "agent"]


def _node_project(project: Any) -> str:
    _need(node=True)
    shutil.copy(EXAMPLE / "desk.mjs", project.folder)
    (project.folder / "node_modules").symlink_to(NODE, target_is_directory=True)
    shutil.copy(EXAMPLE / "steadyhand.toml", project.folder)
    return "command:node ./desk.mjs"


def test_a_node_program_is_seen_through_the_mcp_server_it_is_given(project):
    """We see its tools ourselves, so what it says about them does not count."""
    trials = _run(project, _node_project(project), *MOODS)
    assert {mood: _broken(trial) for mood, trial in trials.items()} == BROKEN
    assert _actions(trials["generous"]) == [("find_order", {"number": "A-1042"}), ("refund", {"number": "A-1042"})]
    assert "I have looked up order" in json.dumps(trials["idle"])
    assert {trial["shows"]["actions"] for trial in trials.values()} == {"seen"}
    assert all(not each.get("self_reported") for trial in trials.values() for each in trial["evaluations"])


@pytest.mark.parametrize(("model", "code"), [("careful", 0), ("hasty", 1)])
def test_the_example_with_a_node_program(shell, model, code):
    _need(node=True)
    for file in EXAMPLE.glob("*.*"):
        shutil.copy(file, shell.folder)
    (shell.folder / "node_modules").symlink_to(NODE, target_is_directory=True)
    ended = shell("run", "refund_desk.scenario.yaml", "--model", f"scripted/{model}.yaml")
    assert ended.code == code, ended.out + ended.err


OFFLINE = {"offline": ("found with the number", "shop asked with the number")}


@pytest.mark.parametrize(("mood", "broken"), {**BROKEN, **OFFLINE}.items())
def test_a_running_service_is_seen_through_its_own_exporter(project, mood, broken):
    """An offline one exports the span of a tool that called nobody: what is served here is seen only here."""
    _need("fastapi", "uvicorn", "opentelemetry.exporter.otlp.proto.http")
    otlp_port = free_port()
    (project.folder / "steadyhand.toml").write_text(
        '[agents.http]\nreply = "data.text"\ntraces = "tools"\nbody = {message = "{message}"}\n'
        'headers = {X-Shop = "{mocks_url}"}\n'
    )
    command = ("desk_service.py", f"--{mood}")
    with traced_service(command, project.folder, otlp_port, ready="ready", NO_PROXY="127.0.0.1") as url:
        door = ("--agent", f"http:{url}chat", "--otlp-port", str(otlp_port))
        ended = project("run", "desk.scenario.yaml", *door, "--json", "out.json")
    (trial,) = _trials(project, ended).values()
    assert ended.code == bool(broken), ended.out + ended.err
    assert _broken(trial) == broken
    assert trial["shows"]["actions"] == "seen"
    if mood != "idle":
        action = next(each for each in trial["trajectory"] if each["type"] == "action")
        assert action["agent"] == "Desk"
