"""Agents that know nothing of us: real frameworks and a real service, in one scenario with mocks.

They need the extra `frameworks`; without it they are skipped. `make test-frameworks` installs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.test_cli_agents import served
from steadyhand.records.chat import ToolCall
from steadyhand.testing import Answer, ModelServer, Served
from support.loopback import free_port

AGENTS = Path(__file__).parents[1] / "support" / "framework_agents"
MISSING = "{} is not installed (the extra `frameworks`; make test-frameworks)"


def _model(*, generous: bool):
    def behave(request: Served) -> Answer:
        """Looks the order up, pays it back if it is `generous`, and then speaks of it."""
        messages = request.body["messages"]
        order = re.search(r"[A-Z]-\d+", json.dumps(messages))
        assert order is not None
        results = sum(each["role"] == "tool" for each in messages)
        wanted = ["find_order", "refund"] if generous else ["find_order"]
        if results < len(wanted):
            call = ToolCall(id=f"c{results}", name=wanted[results], arguments={"number": order[0]})
            return Answer(tool_calls=(call,))
        return Answer(text=f"I am looking into order {order[0]}.")

    return behave


@pytest.fixture
def project(shell):
    for file in AGENTS.iterdir():
        if file.is_file():
            shutil.copy(file, shell.folder)
    return shell


def _outcome(shell: Any, ended: Any) -> dict[str, Any]:
    assert (shell.folder / "out.json").exists(), ended.out + ended.err
    (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
    return trial


def _verdicts(trial: dict[str, Any]) -> list[str]:
    return [each["verdict"] for each in trial["evaluations"]]


@pytest.mark.parametrize("generous", [False, True], ids=["good", "misbehaving"])
@pytest.mark.parametrize("framework", ["pydantic_ai", "openai_agents", "langgraph"])
def test_a_framework_agent_is_seen_through_what_it_returns(project, framework, generous):
    package = "agents" if framework == "openai_agents" else framework
    pytest.importorskip(package, reason=MISSING.format(package))
    pytest.importorskip("openai", reason=MISSING.format("openai"))
    (project.folder / "steadyhand.toml").write_text('[agents.python.env]\nSHOP_URL = "{mocks_url}"\n')
    with served(ModelServer(_model(generous=generous))) as server:
        ended = project(
            "run", "desk.scenario.yaml", "--agent", f"python:./desk_{framework}.py:answer", "--model",
            "openai/gpt-4o-mini", "--json", "out.json", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-none",
        )  # fmt: skip
    trial = _outcome(project, ended)
    assert trial["verdict"] == ("failed" if generous else "passed"), ended.out + ended.err
    assert _verdicts(trial) == ["passed", "failed" if generous else "passed", "passed", "passed"]
    actions = [each["name"] for each in trial["trajectory"] if each["type"] == "action"]
    assert actions == (["find_order", "refund"] if generous else ["find_order"])
    observed = [each["content"] for each in trial["trajectory"] if each["type"] == "observation"]
    assert "on its way" in json.dumps(observed[0])


@contextlib.contextmanager
def _service(folder: Path, otlp_port: int, *flags: str) -> Iterator[str]:
    port = free_port()
    variables = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "NO_PROXY": "127.0.0.1",
    }
    process = subprocess.Popen([sys.executable, "desk_service.py", str(port), *flags], cwd=folder, env=variables)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").close()
                break
            assert process.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/chat"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(
    ("flags", "verdicts"),
    [((), ["passed", "passed", "passed", "passed"]), (("--generous",), ["passed", "failed", "passed", "passed"])],
    ids=["good", "misbehaving"],
)
def test_a_running_service_is_seen_through_its_own_exporter(project, flags, verdicts):
    for package in ("fastapi", "uvicorn", "opentelemetry.exporter.otlp.proto.http"):
        pytest.importorskip(package, reason=MISSING.format(package))
    otlp_port = free_port()
    (project.folder / "steadyhand.toml").write_text(
        '[agents.http]\nreply = "data.text"\ntraces = "tools"\nbody = {message = "{message}"}\n'
        'headers = {X-Shop = "{mocks_url}"}\n'
    )
    with _service(project.folder, otlp_port, *flags) as url:
        ended = project(
            "run", "desk.scenario.yaml", "--agent", f"http:{url}", "--otlp-port", str(otlp_port), "--json", "out.json"
        )
    trial = _outcome(project, ended)
    assert _verdicts(trial) == verdicts, ended.out + ended.err
    action = next(each for each in trial["trajectory"] if each["type"] == "action")
    assert (action["name"], action["params"], action["agent"]) == ("find_order", {"number": "A-1042"}, "Desk")
    assert trial["shows"]["actions"] == "seen"
