"""Trials exported as traces, as a user does it: to a real collector, one that is down, and one that hangs."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from support.collector import collecting
from support.loopback import free_port

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

SCENARIO = """\
id: desk
name: Desk
description: It looks the order up.
agent: "python:./desk.py:answer"
environment: {type: local}
run:
  - input: Where is A-1?
    evaluations:
      - {type: string_contains, value: on its way}
      - {type: trajectory_contains_action, action: refund, max_count: 0}
judgment: {strategy: all_pass}
"""
DESK = """\
import json, os, urllib.request

def answer(message, action):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": message}]}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
    action("find_order", {"number": "A-1"}, {"state": "on its way"})
    return said
"""
RULES = "rules: [{reply: It is on its way., usage: {input_tokens: 11, output_tokens: 4}}]\n"
RUN = ("run", "desk.scenario.yaml", "--model", "scripted/rules.yaml", "--trials", "3", "--json", "out.json")
ONE_AGENT = (*RUN, "--concurrency", "1")
"""The trials share one process of the agent, which takes longer to start than to answer."""


@pytest.fixture
def desk(shell):
    shell.write("desk.scenario.yaml", SCENARIO)
    shell.write("desk.py", DESK)
    shell.write("rules.yaml", RULES)
    return shell


def test_trials_are_exported_with_calls_actions_and_results(desk):
    with collecting() as collector:
        ended = desk(*ONE_AGENT, "--otel", collector.url)
    assert ended.code == 0, ended.out + ended.err
    assert "--otel" not in ended.err
    traces = {span.trace_id for span in collector.spans}
    assert len(traces) == 3
    spans = [span for span in collector.spans if span.trace_id == min(traces)]
    root, chat, tool = sorted(spans, key=lambda span: (span.parent_id != "", span.name))
    assert {chat.parent_id, tool.parent_id} == {root.span_id}
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["steadyhand.verdict"] == "passed"
    assert root.attributes["gen_ai.agent.name"].startswith("python:")
    results = [told for name, told in root.events if name == "gen_ai.evaluation.result"]
    assert [(each["gen_ai.evaluation.name"], each["gen_ai.evaluation.score.label"]) for each in results] == [
        ("string_contains", "passed"), ("trajectory_contains_action", "passed"),
    ]  # fmt: skip
    assert all(each["gen_ai.evaluation.explanation"] for each in results)
    assert (chat.name, chat.attributes["gen_ai.operation.name"]) == ("chat scripted/rules.yaml", "chat")
    assert chat.attributes["gen_ai.request.model"] == "scripted/rules.yaml"
    assert chat.attributes["gen_ai.usage.input_tokens"] == 11
    assert chat.attributes["gen_ai.usage.output_tokens"] == 4
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert "It is on its way." in chat.attributes["gen_ai.output.messages"]
    assert tool.attributes["gen_ai.tool.name"] == "find_order"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"number": "A-1"}
    assert json.loads(tool.attributes["gen_ai.tool.call.result"]) == {"state": "on its way"}
    for span in spans:
        assert root.start_ns <= span.start_ns <= span.end_ns
    assert chat.end_ns <= tool.start_ns, "the answer was there before the order was looked up"


@pytest.mark.parametrize("by", ["environment", "file"])
def test_the_standard_variables_say_where_to(desk, by):
    with collecting() as collector:
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-team=desk%20one"}
        if by == "file":
            desk.write("vars.env", "".join(f"{name}={value}\n" for name, value in named.items()))
            ended = desk(*ONE_AGENT, "--env-file", "vars.env", "--otel")
        else:
            ended = desk(*ONE_AGENT, "--otel", **named)
    assert ended.code == 0, ended.out + ended.err
    assert {(path, headers["X-Team"]) for path, headers, _ in collector.exports} == {("/v1/traces", "desk one")}
    assert len(collector.spans) == 9


@pytest.mark.parametrize("how", ["down", "hangs"])
def test_a_collector_that_takes_nothing_costs_one_line_and_no_verdict(desk, how):
    with collecting(answers=False) as collector:
        url = collector.url if how == "hangs" else f"http://127.0.0.1:{free_port()}"
        ended = desk(*ONE_AGENT, "--otel", url, OTEL_EXPORTER_OTLP_TIMEOUT="300")
        collector.let_go()
    assert ended.code == 0, ended.out + ended.err
    (line,) = [line for line in ended.err.splitlines() if "--otel" in line]
    assert line.startswith(f"note: --otel: 3 trials were not exported to {url}/v1/traces: ")
    trials = json.loads((desk.folder / "out.json").read_text())["trials"]
    assert [trial["verdict"] for trial in trials] == ["passed"] * 3


def test_an_invalid_url_is_refused_before_anything_runs(desk):
    ended = desk(*RUN, "--otel", "collector:4318")
    assert ended.code == 2
    assert "--otel: 'collector:4318/v1/traces' is not a URL; expected http://HOST:PORT" in ended.err


class _Redirect(BaseHTTPRequestHandler):
    target = ""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(302)
        self.send_header("Location", self.target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class _Elsewhere(BaseHTTPRequestHandler):
    received: ClassVar[list[dict[str, str]]] = []

    def do_GET(self):
        self.received.append(dict(self.headers))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - as the library calls it

    def log_message(self, *_):
        pass


@contextmanager
def handled_by(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_redirect_is_not_followed_and_counts_as_lost(desk):
    """The key of the endpoint must not reach another host, and a redirected POST loses its body."""
    with handled_by(_Elsewhere) as elsewhere, handled_by(_Redirect) as first:
        _Redirect.target = f"{elsewhere}/v1/traces"
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": first,
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20s3cret",
        }
        ended = desk(*ONE_AGENT, "--otel", **variables)
    assert ended.code == 0, ended.out + ended.err
    assert _Elsewhere.received == []
    assert "--otel: 3 trials were not exported" in ended.err
    assert "it redirects (302) to" in ended.err
