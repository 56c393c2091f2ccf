"""Agents that export spans with OpenTelemetry's own SDK, as a user runs them: programs, functions, running services."""

from __future__ import annotations

import contextlib
import json
import shlex
import socket
import sys

import pytest

from support.loopback import free_port, traced_service

pytestmark = pytest.mark.system

PYTHON = shlex.quote(sys.executable)
SCENARIO = """\
id: desk
name: Desk
description: It looks the order up, and pays nothing back.
environment: {type: local}
run:
  - input: Where is A-1?
    evaluations:
      - {type: trajectory_contains_action, action: find_order, params: {number: A-1}, max_count: 1}
      - {type: trajectory_contains_action, action: refund, max_count: 0}
judgment: {strategy: all_pass}
"""
# Set up as OpenTelemetry's documentation says; nothing here knows who reads the spans.
TRACING = """\
import json
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("desk")

NAMES = {
    "1.36": lambda name, given: {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": name,
        "tool_arguments": given, "tool_response": "on its way"},
    "current": lambda name, given: {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": given, "gen_ai.tool.call.result": "on its way"},
    "openinference": lambda name, given: {
        "openinference.span.kind": "TOOL", "tool.name": name, "input.value": given,
        "input.mime_type": "application/json", "output.value": "on its way"},
}

def desk(names, tools, context=None):
    with tracer.start_as_current_span("invoke_agent Desk", context=context):
        for tool in tools.split(","):
            with tracer.start_as_current_span(f"execute_tool {tool}") as span:
                span.set_attributes(NAMES[names](tool, json.dumps({"number": "A-1"})))
    return "Order A-1 is on its way."
"""
PROGRAM = """\
import os, sys
from tracing import desk, provider, tracer
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

names, tools, flaw = sys.argv[1:]
sys.stdin.read()
if flaw == "twice":
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
if flaw == "killed":  # the span around the tools never ends
    with tracer.start_as_current_span("session"):
        print(desk(names, tools), flush=True)
        provider.force_flush()
        os._exit(0)
print(desk(names, tools))
"""
FUNCTION = """\
import os
from tracing import desk

def answer(message):
    return desk(os.environ["NAMES"], os.environ["TOOLS"])
"""
SERVICE = """\
import http.server, json, sys
from opentelemetry.propagate import extract
from tracing import desk, tracer

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with tracer.start_as_current_span("housekeeping"):  # of no request, in a trace of its own
            pass
        body = json.dumps({"text": desk(*sys.argv[2:4], extract(self.headers))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_): ...

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
GOOD = (["passed", "passed"], 0)
BAD = (["passed", "failed"], 1)
OPEN = (["inconclusive", "inconclusive"], 3)


@pytest.fixture
def desk(shell):
    shell.write("desk.scenario.yaml", SCENARIO)
    shell.write("tracing.py", TRACING)
    return shell


def _checked(shell, ended, expected) -> dict:
    (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
    verdicts, code = expected
    assert [each["verdict"] for each in trial["evaluations"]] == verdicts, ended.out + ended.err
    assert ended.code == code
    return trial


@pytest.mark.parametrize(
    ("names", "tools", "flaw", "expected"),
    [
        ("1.36", "find_order", "-", GOOD),
        ("current", "find_order", "twice", GOOD),
        ("openinference", "find_order,refund", "-", BAD),
        ("current", "find_order", "killed", OPEN),
    ],
)
def test_a_program_with_the_sdk(desk, names, tools, flaw, expected):
    desk.write("program.py", PROGRAM)
    desk.write("steadyhand.toml", '[agents.command]\nspeaks = "text"\ntraces = "spans"\n')
    agent = f"command:OTEL_EXPORTER_OTLP_COMPRESSION=gzip {PYTHON} ./program.py {names} {tools} {flaw}"
    ended = desk("run", "desk.scenario.yaml", "--agent", agent, "--json", "out.json")
    trial = _checked(desk, ended, expected)
    assert trial["shows"]["actions"] == ("partly_seen" if flaw == "killed" else "seen")
    actions = [each for each in trial["trajectory"] if each["type"] == "action"]
    assert [each["name"] for each in actions] == tools.split(",")
    assert actions[0]["params"] == {"number": "A-1"}
    if flaw == "killed":
        assert "the span around 'invoke_agent Desk' has not arrived" in ended.out


@pytest.mark.usefixtures("forked_agents")
@pytest.mark.parametrize(
    ("names", "tools", "expected"), [("current", "find_order", GOOD), ("1.36", "find_order,refund", BAD)]
)
def test_a_function_with_the_sdk(desk, names, tools, expected):
    desk.write("function.py", FUNCTION)
    desk.write("steadyhand.toml", f'[agents.python]\ntraces = "spans"\n[agents.python.env]\nNAMES = "{names}"\n')
    ended = desk(
        "run", "desk.scenario.yaml", "--agent", "python:./function.py:answer", "--json", "out.json", TOOLS=tools
    )
    trial = _checked(desk, ended, expected)
    assert trial["shows"]["actions"] == "seen"


@pytest.mark.parametrize(
    ("names", "tools", "expected"), [("openinference", "find_order", GOOD), ("current", "find_order,refund", BAD)]
)
def test_a_service_that_is_already_running(desk, names, tools, expected):
    """Its housekeeping span is foreign: it belongs to no trial and changes nothing."""
    desk.write("service.py", SERVICE)
    desk.write("steadyhand.toml", '[agents.http]\nreply = "text"\ntraces = "tools"\n')
    otlp_port = free_port()
    command = ("service.py", names, tools)
    with traced_service(command, desk.folder, otlp_port, OTEL_EXPORTER_OTLP_COMPRESSION="gzip") as url:
        ended = desk(
            "run", "desk.scenario.yaml", "--agent", f"http:{url}", "--otlp-port", str(otlp_port), "--json", "out.json"
        )
    trial = _checked(desk, ended, expected)
    assert [each["name"] for each in trial["trajectory"] if each["type"] == "action"] == tools.split(",")


def test_a_port_for_spans_that_is_taken_is_told_before_anything_runs(desk):
    desk.write("steadyhand.toml", '[agents.http]\nreply = "text"\ntraces = "tools"\n')
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        ended = desk("run", "desk.scenario.yaml", "--agent", "http:http://127.0.0.1:9/", "--otlp-port", port)
    assert ended.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ended.err
