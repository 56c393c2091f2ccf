"""A real MCP server behind the mocks, as a user runs it: every kind of agent, trust, keys and failures."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.warm_program import warm

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mcp"

SCENARIO = """\
name: A shop
description: A real shop behind a mock.
environment: {{type: local}}
setup:
  services:
    shop: {{mcp: {mcp}, timeout: {timeout}}}
  mocks:
    - {{service: shop, method: refund, response: mocked}}
run:
  - input: Ann wants her money back.
    timeout: 60000
    evaluations:
      - {{type: service_called, service: shop, method: {method}}}
      - {{type: string_contains, value: "{expected}"}}
judgment: {{strategy: all_pass}}
"""

# The same work, once with a `python:` agent's services, once over MCP, once over plain HTTP.
AGENTS = """\
import json, os, urllib.request

async def services(message, get_service):
    shop = get_service("shop")
    return await shop.greet(name="Ann") + " " + await shop.refund(number="A-1")

async def over_mcp(message, mcp_url):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    async with streamable_http_client(mcp_url) as (reading, writing, _), ClientSession(reading, writing) as shop:
        await shop.initialize()
        said = [await shop.call_tool("greet", {"name": "Ann"}), await shop.call_tool("refund", {"number": "A-1"})]
        return " ".join(each.content[0].text for each in said)

def over_http(message, mocks_url):
    def call(method, **named):
        request = urllib.request.Request(f"{mocks_url}/shop/{method}", json.dumps(named).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]
    return call("greet", name="Ann") + " " + call("refund", number="A-1")

async def careless(message, get_service):
    try:
        await get_service("shop").die()
    except Exception:
        pass
    return "Hello, Ann mocked"

async def dawdling(message, get_service):
    await get_service("shop").wait(seconds=60)
"""
LINES = """\
import json, sys
for line in sys.stdin:
    said = []
    for method, named in (("greet", {"name": "Ann"}), ("refund", {"number": "A-1"})):
        print(json.dumps({"type": "call", "service": "shop", "method": method, "params": named}), flush=True)
        said.append(json.loads(sys.stdin.readline())["result"])
    print(json.dumps({"type": "reply", "text": " ".join(said)}), flush=True)
"""
RUNTIME = """\
rules:
  - tool_results: true
    reply: Hello, Ann mocked
  - tool_calls:
      - {name: shop_greet, arguments: {name: Ann}}
      - {name: shop_refund, arguments: {number: A-1}}
"""


@pytest.fixture
def desk(shell):
    shell.write("agents.py", AGENTS)
    shell.write("lines.py", LINES)
    shell.write("rules.yaml", RUNTIME)
    return shell


def scenario(desk, mcp: str = "", *, method: str = "greet", expected: str = "Hello, Ann mocked", timeout=20_000) -> str:
    command = mcp or f"{warm('mcp_shop')} --log {desk.folder / 'log'}"
    text = SCENARIO.format(mcp=json.dumps(command), method=method, expected=expected, timeout=timeout)
    desk.write("shop.scenario.yaml", text)
    return "shop.scenario.yaml"


def trial(desk) -> dict:
    (found,) = json.loads((desk.folder / "out.json").read_text())["trials"]
    return found


KINDS = {
    "runtime": ("--model", "scripted/rules.yaml"),
    "python, services": ("--agent", "python:./agents.py:services"),
    "python, MCP": ("--agent", "python:./agents.py:over_mcp"),
    "python, HTTP": ("--agent", "python:./agents.py:over_http"),
    "command": ("--agent", f"command:{shlex.quote(sys.executable)} ./lines.py"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_agent_reaches_the_real_server_past_the_mocks(desk, kind):
    ended = desk("run", scenario(desk), *KINDS[kind], "--json", "out.json")
    assert ended.code == 0, ended.out + ended.err
    calls = [step for step in trial(desk)["trajectory"] if step["type"] == "service_call"]
    assert [(call["name"], call["content"], call["mock"] is not None) for call in calls] == [
        ("shop.greet", "Hello, Ann", False),
        ("shop.refund", "mocked", True),
    ]
    reached = [json.loads(line) for line in (desk.folder / "log").read_text().splitlines()]
    assert reached == [{"tool": "greet", "name": "Ann"}]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    command = [*shlex.split(warm("mcp_shop")), "--http", "--log", str(tmp_path / "log")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.kill()
    process.communicate()


def headers(desk) -> list[dict]:
    return [json.loads(line) for line in (desk.folder / "log.headers").read_text().splitlines()]


def test_a_server_at_a_url_gets_its_key_from_the_project_and_none_from_outside(desk, url, tmp_path_factory):
    desk.write("steadyhand.toml", '[services.shop]\napi_key_env = "SHOP_KEY"\nheaders = {X-Team = "desk-of-ours"}\n')
    ended = desk("run", scenario(desk, url), *KINDS["runtime"], SHOP_KEY="canary-1234567")
    assert ended.code == 0, ended.out + ended.err
    inside = len(headers(desk))
    assert {each["authorization"] for each in headers(desk)} == {"Bearer canary-1234567"}
    outside = tmp_path_factory.mktemp("outside") / "shop.scenario.yaml"
    shutil.copy(desk.folder / "shop.scenario.yaml", outside)
    ended = desk("run", str(outside), *KINDS["runtime"], SHOP_KEY="canary-1234567")
    assert ended.code == 0, ended.out + ended.err
    assert not [each for each in headers(desk)[inside:] if "authorization" in each or "x-team" in each]
    ended = desk("run", str(outside), *KINDS["runtime"], "--trust", SHOP_KEY="canary-1234567")
    assert headers(desk)[-1]["authorization"] == "Bearer canary-1234567"


def test_a_command_from_outside_needs_trust(desk, tmp_path_factory):
    scenario(desk, f"touch {desk.folder / 'PWNED'}")
    outside = tmp_path_factory.mktemp("outside") / "shop.scenario.yaml"
    shutil.move(desk.folder / "shop.scenario.yaml", outside)
    for command in (("run",), ("gateway", "--scenario")):
        ended = desk(*command, str(outside), *KINDS["runtime"])
        assert ended.code == 2
        assert "--trust is needed to use MCP server touch " in ended.err
    assert not (desk.folder / "PWNED").exists()


@pytest.mark.parametrize("command", [("validate",), ("lint",), ("list",), ("selftest",), ("run", "--dry-run")])
def test_checking_a_file_starts_nothing(desk, command):
    file = scenario(desk, f"touch {desk.folder / 'PWNED'}")
    assert "PWNED" not in desk(*command, file, *(KINDS["runtime"] if "run" in command else ())).err
    assert not (desk.folder / "PWNED").exists()


@pytest.mark.parametrize(
    ("mcp", "reason"),
    [
        ("ftp://shop", "expected a command line, or a URL that begins with http:// or https://"),
        ("http://", "expected a URL such as http://127.0.0.1:8000/mcp"),
        ("http://ann:pw@shop/mcp", "expected a URL without a user and password"),
        ("'", "bad quoting"),
        ("  ", "expected a command line or a URL"),
    ],
)
def test_what_is_neither_a_command_nor_a_url_is_reported_at_its_place(desk, mcp, reason):
    ended = desk("validate", scenario(desk, mcp))
    assert ended.code == 2
    assert f"shop.scenario.yaml:6:17: setup.services.shop.mcp: {reason}" in ended.out + ended.err


def test_two_services_of_one_name_are_refused(desk):
    text = (desk.folder / scenario(desk)).read_text().replace("    shop:", "    database:")
    desk.write("shop.scenario.yaml", text.replace("setup:", "setup:\n  database: {sql: CREATE TABLE t (x)}"))
    ended = desk("validate", "shop.scenario.yaml")
    assert (ended.code, "the name `database` is reserved for `setup.database`" in ended.out + ended.err) == (2, True)


def test_a_program_that_is_not_there_is_found_before_anything_runs(desk):
    ended = desk("run", scenario(desk, "no-such-server --now"), *KINDS["runtime"])
    assert ended.code == 2
    assert "shop.scenario.yaml:6:5: service shop: no-such-server --now: program not found" in ended.err


HIDDEN = """\
import sys
sys.modules["mcp"] = None
"""
"""`import mcp` fails, in our process and in those that it starts with our environment."""


@pytest.mark.parametrize("kind", ["runtime", "python, services", "python, HTTP", "command"])
def test_nothing_of_ours_needs_the_package(desk, kind):
    desk.write("hide/sitecustomize.py", HIDDEN)
    process = desk.start_from_nothing("run", scenario(desk), *KINDS[kind], PYTHONPATH=str(desk.folder / "hide"))
    _, told = process.communicate()
    assert process.returncode == 0, told


OTHER_CLIENT = """\
import asyncio, os, sys
from mcp import Client

async def main(kind):
    async with Client(os.environ["STEADYHAND_MCP_URL"], mode=kind) as shop:
        said = [await shop.call_tool("greet", {"name": "Ann"}), await shop.call_tool("refund", {"number": "A-1"})]
    print(" ".join(each.content[0].text for each in said))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif("STEADYHAND_MCP_PYTHON" not in os.environ, reason="run by make test-mcp")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_an_agent_with_the_other_major_of_the_package_is_given_its_address(desk, mode):
    desk.write("client.py", OTHER_CLIENT)
    desk.write("steadyhand.toml", '[agents.command]\nspeaks = "text"\n')
    python = os.environ["STEADYHAND_MCP_PYTHON"]
    ended = desk("run", scenario(desk), "--agent", f"command:{shlex.quote(python)} ./client.py {mode}")
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.parametrize(
    ("mcp", "agent", "told"),
    [
        ("", "careless", "exited with code 7; stderr: the shop burns"),
        ("", "dawdling", "did not answer 'wait' within 1 s"),
        (f"{sys.executable} -c 'raise SystemExit(\"closed today\")'", "services", "stderr: closed today"),
    ],
)
def test_a_server_that_fails_is_never_the_agents_failure(desk, mcp, agent, told):
    file = scenario(desk, mcp, method="die", timeout=1000 if agent == "dawdling" else 20_000)
    text = (desk.folder / file).read_text()
    desk.write(file, text.replace("timeout: 60000", "timeout: 500") if agent == "dawdling" else text)
    ended = desk("run", file, "--agent", f"python:./agents.py:{agent}", "--json", "out.json")
    assert ended.code == 3, ended.out + ended.err
    found = trial(desk)
    assert found["verdict"] == "error"
    assert told in json.dumps(found["errors"])


def test_the_example(shell):
    shutil.copytree(EXAMPLE, shell.folder / "mcp")
    shell.write("python", f'#!/bin/sh\nexec {warm("mcp_shop")} --run "$@"\n').chmod(0o755)
    path = f"{shell.folder}:{os.environ['PATH']}"
    within = shell.within(shell.folder / "mcp")
    for model, code in (("careful", 0), ("hasty", 1)):
        ended = within("run", ".", "--model", f"scripted/{model}.yaml", PATH=path)
        assert ended.code == code, ended.out + ended.err
