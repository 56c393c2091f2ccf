"""Planted canaries show up in nothing that the command writes: record, JSON, JUnit, terminal, stderr, recording."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from steadyhand.store.reader import RunReader
from support.shell import AGENT

KEY = "canary-Zq7f93kd02mmx81"
SHAPED = "sk-proj-shaped0123456789"


@pytest.fixture
def server(shell):
    """A model that gives away the key it was called with, and another one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand.testing.model_server", "--text", f"My key is {KEY}, his is {SHAPED}."],
        stdout=subprocess.PIPE,
        env=shell.environment(),
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["base_url"]
    process.kill()
    process.wait()
    process.stdout.close()


def outputs(shell, ended) -> dict[str, str]:
    """Everything that the command left behind, unpacked where necessary."""
    runs = [RunReader.open(file) for file in (shell.folder / ".steadyhand/runs").glob("*.sqlite")]
    assert runs
    return {
        "stdout": ended.out,
        "stderr": ended.err,
        "json": (shell.folder / "r.json").read_text(),
        "junit": (shell.folder / "r.xml").read_text(),
        "record": "".join(repr(reader.header) + repr(list(reader.trials())) for reader in runs),
        "files": "".join(reader.path.read_bytes().decode("latin-1") for reader in runs),
    }


def test_what_looks_like_a_key_is_in_no_report(shell):
    shell.replies(f"rules:\n  - reply: Take {SHAPED} and run.\n")
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--json", "r.json", "--junit", "r.xml")
    assert ended.code == 1
    found = outputs(shell, ended)
    assert [name for name, text in found.items() if SHAPED in text] == []
    assert "Take " + "*" * len(SHAPED) in found["json"]


@pytest.mark.parametrize("by", ["environment", "file"])
def test_the_key_a_model_gives_away_is_in_no_output(shell, server, by):
    shell.decision("a.yaml")
    shell.write("b.scenario.yaml", AGENT.replace('  - input: "Hello"', f"  - code: echo {KEY}; echo {KEY} >&2; exit 1"))
    shell.write("secret.env", f"OPENAI_API_KEY={KEY}\n")
    common = ("--model", "openai/m", "--json", "r.json", "--junit", "r.xml", "--record", "tape")
    given = {"OPENAI_BASE_URL": server}
    if by == "file":
        ended = shell("run", ".", *common, "--env-file", "secret.env", **given)
    else:
        ended = shell("run", ".", *common, **given, OPENAI_API_KEY=KEY)
    assert ended.code == 1, ended.err
    found = outputs(shell, ended)
    found["cassette"] = (shell.folder / "tape/cassette.jsonl").read_text()
    for secret in (KEY, SHAPED, KEY[:11], KEY[-11:]):
        assert [name for name, text in found.items() if secret in text] == []
    assert "My key is " + "*" * len(KEY) in found["json"]
    assert "My key is " + "*" * len(KEY) in found["cassette"]


def test_a_key_in_a_message_of_ours_is_redacted(shell):
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--model", f"scripted/{KEY}.yaml", SERVICE_TOKEN=KEY)
    assert ended.code == 2
    assert KEY not in ended.err
    assert "*" * len(KEY) in ended.err


class Echo(BaseHTTPRequestHandler):
    """Refuses every request and echoes all of it."""

    def do_POST(self):
        said = json.dumps({"error": {"message": f"no: {self.path} {dict(self.headers)}"}}).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@pytest.fixture
def echo():
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


PLAIN = "hush-9fQ2-hush"
REPORTS = ("--json", "r.json", "--junit", "r.xml", "--retries", "0")


def leaks(shell, ended, *secrets: str) -> list[tuple[str, str]]:
    found = outputs(shell, ended)
    return [(name, secret) for name, text in found.items() for secret in secrets if secret in text]


def test_a_providers_header_and_query_that_an_error_repeats_are_in_no_output(shell, echo):
    shell.decision("a.yaml")
    shell.write(
        "steadyhand.toml",
        f'model = "mine/m"\n[providers.mine]\nbase_url = "{echo}?code={PLAIN}-q&api-version=2024-02-15-preview"\n'
        f'headers = {{X-Corp = "{PLAIN}-h", X-Other = "Basic {PLAIN}-b"}}\n',
    )
    ended = shell("run", "a.yaml", *REPORTS)
    assert ended.code == 3, ended.err
    assert leaks(shell, ended, PLAIN) == []
    assert "2024-02-15-preview" in (shell.folder / "r.json").read_text(), "not a secret"


def test_a_query_in_a_base_url_of_the_environment_is_in_no_output(shell, echo):
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--model", "openai/m", *REPORTS, OPENAI_BASE_URL=f"{echo}?code={PLAIN}")
    assert ended.code == 3, ended.err
    assert leaks(shell, ended, PLAIN) == []


@pytest.mark.parametrize("by", ["scenario", "option", "configuration"])
def test_the_query_of_an_http_agent_is_in_no_output(shell, echo, by):
    line = f"http:{echo}?sig={PLAIN}%2Bx"
    shell.write("a.scenario.yaml", (f"agent: {line}\n" if by == "scenario" else "") + AGENT)
    shell.write("steadyhand.toml", f'agent = "{line}"\n' if by == "configuration" else "")
    ended = shell("run", ".", *REPORTS, *(("--agent", line) if by == "option" else ()))
    assert ended.code == 3, ended.err
    assert leaks(shell, ended, PLAIN) == []


def test_the_query_of_an_http_agent_is_in_no_refusal(shell):
    shell.write("a.scenario.yaml", AGENT)
    ended = shell("run", ".", "--agent", f"http:ftp://there/v1?sig={PLAIN}")
    assert (ended.code, PLAIN in ended.err) == (2, False), ended.err


AGENT_PROGRAM = """\
import json, os, sys
for _ in sys.stdin:
    print(json.dumps({"type": "reply", "text": os.environ.get("TOKEN", "") + " " + " ".join(sys.argv)}), flush=True)
"""


@pytest.mark.parametrize("by", ["scenario", "option"])
@pytest.mark.parametrize("line", [f"TOKEN={PLAIN} python3 ./p.py", f"python3 ./p.py --api-token {PLAIN}"])
def test_a_literal_on_a_command_line_is_in_no_output_and_no_resume_uses_what_is_left(shell, by, line):
    shell.write("p.py", AGENT_PROGRAM)
    shell.write("a.scenario.yaml", (f"agent: 'command:{line}'\n" if by == "scenario" else "") + AGENT)
    ended = shell("run", ".", *REPORTS, *(("--agent", f"command:{line}") if by == "option" else ()))
    assert ended.code == 1, ended.err
    assert leaks(shell, ended, PLAIN) == []
    assert "*" * len(PLAIN) in (shell.folder / "r.json").read_text()
    if by == "option":
        resumed = shell("resume", "last")
        assert (resumed.code, "records keep no secrets" in resumed.err) == (2, True), resumed.err


def test_a_literal_on_a_command_line_is_in_no_refusal(shell):
    shell.write("a.scenario.yaml", AGENT)
    for line in (f"TOKEN={PLAIN} nowhere", f"TOKEN={PLAIN} 'unclosed", f"nowhere --password={PLAIN}"):
        ended = shell("run", ".", "--agent", f"command:{line}")
        assert (ended.code, PLAIN in ended.err) == (2, False), ended.err
