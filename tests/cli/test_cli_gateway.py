"""Agents that know nothing about Steadyhand, as a user runs them: they get the trial's models and tools."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from support.late import Late
from support.shell import Shell

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

mcp = Late("mcp")

EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway"
PYTHON = shlex.quote(sys.executable)

# Client and address are looked up once, at import, as most agents do.
DESK = """\
import asyncio
import json
import os

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI

MODEL = AsyncOpenAI(max_retries=0)
TOOLS = os.environ["SHOP_MCP_URL"]


async def answer(message):
    async with streamable_http_client(TOOLS) as (reading, writing, _), ClientSession(reading, writing) as shop:
        await shop.initialize()
        tools = (await shop.list_tools()).tools
        offered = [{"type": "function", "function": {"name": t.name, "parameters": t.inputSchema}} for t in tools]
        messages = [{"role": "user", "content": message}]
        while True:
            made = await MODEL.chat.completions.create(model="gpt-5-mini", messages=messages, tools=offered)
            said = made.choices[0].message
            messages.append(said)
            if not said.tool_calls:
                return said.content
            for call in said.tool_calls:
                result = await shop.call_tool(call.function.name, json.loads(call.function.arguments))
                content = result.content[0].text
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
"""

# The same without the clients, which take half a second to import.
PLAIN_DESK = """\
import json
import os
import urllib.request

MODEL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
TOOLS = os.environ["SHOP_MCP_URL"]


def post(url, value):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(value).encode(), headers)) as answer:
        return json.load(answer)


def shop(method, **params):
    return post(TOOLS, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["result"]


def answer(message):
    tools = shop("tools/list")["tools"]
    offered = [{"type": "function", "function": {"name": t["name"], "parameters": t["inputSchema"]}} for t in tools]
    messages = [{"role": "user", "content": message}]
    while True:
        made = post(MODEL, {"model": "gpt-5-mini", "messages": messages, "tools": offered})
        said = made["choices"][0]["message"]
        messages.append(said)
        if not said.get("tool_calls"):
            return said["content"]
        for call in said["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            content = shop("tools/call", name=name, arguments=arguments)["content"][0]["text"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
"""

# A different kind of program: it asks no model, and calls services over plain HTTP.
CALLER = """\
import json, os, sys, urllib.error, urllib.request

def call(path, **named):
    body = json.dumps(named).encode()
    request = urllib.request.Request(os.environ["SHOP_URL"] + path, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]

text = sys.stdin.read()
order = call("/orders/lookup_order", number="A-1042")
if "PAY" in sys.argv:
    call("/payments/refund", number="A-1042", amount=48)
print("Order A-1042 is", order["state"])
print("The rest:", call("/orders/lookup_order", number="B-1")["code"])
"""


def _folder(shell) -> None:
    for name in ("refund_desk.scenario.yaml", "careful.yaml", "hasty.yaml"):
        shutil.copy(EXAMPLE / name, shell.folder)


def _trials(shell) -> list[dict]:
    return json.loads((shell.folder / "out.json").read_text())["trials"]


# One process of an agent for each trial at a time; importing the clients in a second one would show nothing more.
@pytest.mark.parametrize(
    ("desk", "concurrency", "model", "code"), [(DESK, "1", "careful", 0), (PLAIN_DESK, "2", "hasty", 1)]
)
def test_an_agent_that_reads_its_addresses_when_it_is_imported(shell, desk, concurrency, model, code):
    _folder(shell)
    shell.write("desk.py", desk)
    shell.write("steadyhand.toml", '[agents.python.env]\nSHOP_MCP_URL = "{mcp_url}"\n')
    ended = shell(
        "run", "refund_desk.scenario.yaml", "--agent", "python:./desk.py:answer", "--model", f"scripted/{model}.yaml",
        "--trials", "5", "--concurrency", concurrency, "--json", "out.json",
    )  # fmt: skip
    assert ended.code == code, ended.out + ended.err
    assert len(_trials(shell)) == 5
    for trial in _trials(shell):
        assert trial["verdict"] == ("passed" if code == 0 else "failed")
        assert [call["model"] for call in trial["timing"]["calls"]] == [f"scripted/{model}.yaml"] * 2


@pytest.mark.parametrize(("argument", "code"), [("", 0), (" PAY", 1)])
def test_a_program_that_reads_a_text_and_prints_one(shell, argument, code):
    _folder(shell)
    shell.write("caller.py", CALLER)
    shell.write(
        "steadyhand.toml", '[agents.command]\nspeaks = "text"\n[agents.command.env]\nSHOP_URL = "{mocks_url}"\n'
    )
    scenario = (shell.folder / "refund_desk.scenario.yaml").read_text()
    head, _, rest = scenario.partition("      - type: trajectory_contains_action\n")
    kept = "".join(
        f"      - type: {part}" for part in rest.split("      - type: ") if part.startswith("service_called")
    )
    shell.write("refund_desk.scenario.yaml", f"{head}{kept}judgment: {{strategy: all_pass}}\n")
    ended = shell(
        "run", "refund_desk.scenario.yaml", "--agent", f"command:{PYTHON} ./caller.py{argument}", "--json", "out.json"
    )
    assert ended.code == code, ended.out + ended.err
    (trial,) = _trials(shell)
    replies = [each["content"] for each in trial["transcript"] if each["role"] == "assistant"]
    assert replies == ["Order A-1042 is delivered\nThe rest: SERVICE_NOT_FOUND"]


def test_what_a_stranger_does_elsewhere_proves_nothing(shell):
    """Without a mapping, nobody knows where the program gets its tools."""
    _folder(shell)
    shell.write("quiet.py", 'import sys; sys.stdin.read(); print("Order A-1042 is delivered")')
    shell.write("steadyhand.toml", '[agents.command]\nspeaks = "text"\n')
    ended = shell("run", "refund_desk.scenario.yaml", "--agent", f"command:{PYTHON} ./quiet.py")
    assert ended.code == 3, ended.out
    assert "mocks do not reach the agent" in ended.out + ended.err
    assert "{mcp_url}" in ended.out


def test_an_address_that_does_not_exist_is_reported_before_anything_runs(shell):
    _folder(shell)
    shell.write("quiet.py", 'print("Hm.")')
    shell.write("steadyhand.toml", '[agents.command.env]\nMY_LLM = "{openai_base_url}"\n')
    ended = shell("run", "refund_desk.scenario.yaml", "--agent", f"command:{PYTHON} ./quiet.py")
    assert ended.code == 2
    assert "unknown address {openai_base_url}" in ended.err
    assert "--model" in ended.err


def test_an_outage_of_the_model_is_not_the_agents_failure(shell):
    _folder(shell)
    shell.write("desk.py", PLAIN_DESK + _CALM)
    shell.write("steadyhand.toml", '[agents.python.env]\nSHOP_MCP_URL = "{mcp_url}"\n')
    shell.write("down.yaml", "rules: [{fail: {kind: server, status: 503}}]\n")
    ended = shell(
        "run", "refund_desk.scenario.yaml", "--agent", "python:./desk.py:calm", "--model", "scripted/down.yaml",
        "--retries", "0", "--json", "out.json",
    )  # fmt: skip
    assert ended.code == 3, ended.out + ended.err
    (trial,) = _trials(shell)
    assert trial["verdict"] == "error"
    assert "503" in json.dumps(trial)


_CALM = """

def calm(message):
    try:
        return answer(message)
    except BaseException:
        return "I am sorry, something went wrong."
"""


def test_calls_through_the_gateway_are_recorded_and_replayed(shell):
    _folder(shell)
    shell.write("desk.py", PLAIN_DESK)
    shell.write("steadyhand.toml", '[agents.python.env]\nSHOP_MCP_URL = "{mcp_url}"\n')
    run = ("run", "refund_desk.scenario.yaml", "--agent", "python:./desk.py:answer", "--model", "scripted/careful.yaml")
    assert shell(*run, "--record", "tape").code == 0
    (shell.folder / "careful.yaml").write_text("rules: [{reply: Never said.}]\n")
    ended = shell(*run, "--replay", "tape", "--json", "out.json")
    assert ended.code == 0, ended.out + ended.err
    (trial,) = _trials(shell)
    assert trial["verdict"] == "passed"


def test_calls_through_the_gateway_count_toward_the_budget(shell):
    _folder(shell)
    shell.write("desk.py", PLAIN_DESK)
    shell.write("steadyhand.toml", '[agents.python.env]\nSHOP_MCP_URL = "{mcp_url}"\n')
    ended = shell(
        "run", "refund_desk.scenario.yaml", "--agent", "python:./desk.py:answer", "--model", "scripted/careful.yaml",
        "--trials", "4", "--concurrency", "1", "--max-tokens", "200",
    )  # fmt: skip
    assert "no more trials were started" in ended.out + ended.err


def test_the_gateway_alone_and_the_bridge_to_its_tools(shell):
    """As seen by a client that starts its MCP servers as programs."""
    _folder(shell)
    process = shell.start("gateway", "--scenario", "refund_desk.scenario.yaml", "--model", "scripted/careful.yaml")
    try:
        told: dict[str, str] = {}
        while "STEADYHAND_MCP_URL" not in told:
            name, _, value = process.stdout.readline().removeprefix("export ").strip().partition("=")
            assert value, "the address of the tools was not told"
            told[name] = value
        assert {
            "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "STEADYHAND_MCP_URL",
            "STEADYHAND_MOCKS_URL", "OTEL_EXPORTER_OTLP_ENDPOINT",
        } <= set(told)  # fmt: skip
        seen = asyncio.run(_through_bridge(shell, told["STEADYHAND_MCP_URL"]))
        assert seen == ["lookup_order", "refund", "delivered"]
        asked = json.dumps({"model": "m", "input": "Order A-1042 is broken."}).encode()
        request = urllib.request.Request(f"{told['OPENAI_BASE_URL']}/responses", asked)
        request.add_header("Authorization", f"Bearer {told['OPENAI_API_KEY']}")
        with urllib.request.urlopen(request) as made:
            assert json.load(made)["output"][0]["name"] == "lookup_order"
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert 'service  orders.lookup_order(number=A-1042): {"number":"A-1042","state":"delivered","total":48}' in err
    assert "model    scripted/careful.yaml, 60+9 tokens: lookup_order" in err
    assert process.returncode == 130


async def _through_bridge(shell: Shell, url: str) -> list[str]:
    program = str(shell.program("steadyhand"))
    server = mcp.StdioServerParameters(command=program, args=["mcp", url], env=shell.environment())
    async with (
        mcp.stdio_client(server, errlog=sys.__stderr__) as (read, write),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        names = [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("lookup_order", {"number": "A-1042"})
        return [*names, found.structuredContent["state"]]
