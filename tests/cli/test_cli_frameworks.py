"""The examples that use other people's frameworks, where these are installed (the extra `frameworks`)."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil

import pytest

from cli.test_cli_agents import BROUGHT, GOOD, served
from steadyhand.records.chat import ToolCall
from steadyhand.testing import Answer, ModelServer, Served

pytestmark = pytest.mark.system


def _model(request: Served) -> Answer:
    """A model that looks up the order and then talks about it."""
    messages = request.body["messages"]
    last = messages[-1]
    said = [_text(each["content"]) for each in messages if each["role"] == "user"]
    order = re.search(r"[A-Z]-\d+", " ".join(said))
    assert order is not None
    if last["role"] == "user":
        return Answer(tool_calls=(ToolCall(id="c1", name="find_order", arguments={"number": order[0]}),))
    return Answer(text=GOOD["money back" in said[-1]].format(order[0]))


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)


@pytest.mark.parametrize(
    ("package", "target"),
    [
        ("pydantic_ai", "./with_pydantic_ai.py:Desk"),
        ("agents", "./with_openai_agents.py:answer"),
        ("langgraph", "./with_langgraph.py:answer"),
    ],
)
def test_the_example_passes_and_its_actions_are_seen(shell, package, target):
    for each in (package,) if package == "langgraph" else (package, "openai"):
        if importlib.util.find_spec(each) is None:  # importing it here would take as long as in the agent's process
            pytest.skip(f"{each} is not installed (the extra `frameworks`)")
    for file in BROUGHT.glob("*.*"):
        shutil.copy(file, shell.folder)
    with served(ModelServer(_model)) as server:
        ended = shell(
            "run", "help_desk.scenario.yaml", "--agent", f"python:{target}", "--json", "out.json",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-none",
        )  # fmt: skip
    assert ended.code == 0, ended.out + ended.err
    (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
    assert trial["verdict"] == "passed"
    assert "FIND_ORDER" in json.dumps(trial)
