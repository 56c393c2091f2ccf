"""Runs with a secret in every place that can hold one, and agents that reveal it in every form: no file of ours
contains it."""

from __future__ import annotations

import base64
import http.server
import json
import sqlite3
import sys
import tempfile
import threading
import zlib
from urllib.parse import quote, quote_plus

import pytest

from steadyhand.cli.main import tell_bug
from steadyhand.compose.run import Run
from steadyhand.records.config import RunOptions, Selection
from steadyhand.store.reader import RunReader
from support.shell import AGENT

pytestmark = pytest.mark.system

PLACES = {
    "variable": "hush/Variable+93kd02",
    "variable PAT": "hush-pat-Zq7f93kd02",
    "variable COOKIE": "hush-cookie-93kd02",
    "query of a URL variable": "hush-urlquery-81mm",
    "password of a URL variable": "hush-urlpass-81mm",
    "password of a proxy": "hush-proxy-81mm",
    "environment file": "hush-envfile-Zq7f",
    "provider header": "hush-header-Zq7f93",
    "provider query": "hush-query-Zq7f93",
    "provider option": "hush-option-Zq7f93",
    "agent's variable": "hush-agentenv-Zq7f",
    "agent's header": "hush-agentheader-Zq",
    "plugin of the project": "hush-projectplugin",
    "plugin of a scenario": "hush-plugin-config-Z",
    "command of a scenario": "hush-command-Zq7f93",
    "command of a matrix": "hush-matrix-Zq7f93k",
    "command line": "hush-firstagent-Zq",
    "command line, second": "hush-secondagent-Z",
    "database": "hush-database-Zq7f",
}
CONFIG = f"""\
env_file = "secret.env"
model = "mine/m"
plugins = [{{name = "./mine.py", config = {{api_key = "{PLACES["plugin of the project"]}"}}}}]
[providers.mine]
type = "openai"
base_url = "http://127.0.0.1:9/v1?code={PLACES["provider query"]}"
headers = {{X-Corp = "{PLACES["provider header"]}"}}
[providers.other]
type = "openai"
base_url = "http://127.0.0.1:9/v1"
headers = {{X-Corp-Key = "{PLACES["provider option"]}"}}
[agents.command]
env = {{API_TOKEN = "{PLACES["agent's variable"]}"}}
[agents.http]
headers = {{X-Corp = "{PLACES["agent's header"]}"}}
"""
VARIABLES = {
    "SHOP_API_KEY": PLACES["variable"],
    "GITLAB_PAT": PLACES["variable PAT"],
    "SHOP_COOKIE": PLACES["variable COOKIE"],
    "SHOP_URL": f"https://me:{PLACES['password of a URL variable']}@shop.example/?sig="
    + PLACES["query of a URL variable"],
    "HTTPS_PROXY": f"http://me:{PLACES['password of a proxy']}@127.0.0.1:9",
}
PLUGIN = """\
from steadyhand.plugin import Plugin, plugin_factory
@plugin_factory
def plugin(config):
    return Plugin(name="mine")
"""
LEAK = """\
import os, pathlib, sys
SAID = (pathlib.Path(__file__).parent / "said.txt").read_text()
async def agent(message, action, thought, environment):
    print(SAID)
    thought(SAID)
    action("LOOK", {"found": SAID, SAID[:60]: 1}, SAID)
    await environment.write("left.txt", SAID.encode())
    if "fail" in message:
        raise ValueError(SAID)
    return SAID
"""
COMMAND = """\
import json, pathlib, sys
said = (pathlib.Path(sys.argv[1]) / "said.txt").read_text()
print(said, file=sys.stderr)
for _ in sys.stdin:
    print(json.dumps({"type": "action", "name": "LOOK", "params": {"found": said}}))
    print(json.dumps({"type": "reply", "text": said}), flush=True)
"""


def spelt(secret: str) -> dict[str, str]:
    data = secret.encode()
    return {
        "as it is": secret,
        "base64": base64.b64encode(data).decode(),
        "basic": base64.b64encode(b"me:" + data).decode(),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "URL": quote(secret, safe=""),
        "form": quote_plus(secret),
        "JSON": json.dumps(secret)[1:-1],
    }


def leaks(files: dict[str, str]) -> list[tuple[str, str, str]]:
    found = []
    for place, secret in PLACES.items():
        for form, text in spelt(secret).items():
            # The first and last digits of base64 depend on what surrounds it.
            core = text[6:-4] if form in ("base64", "basic") else text
            found += [(file, place, form) for file, content in files.items() if core in content]
    return found


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps what is exported to it."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, 31)
        self.server.kept.append(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.kept = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def say(shell, known) -> None:
    """What agents will reveal: the secrets of the places that matter to this run, in all their forms."""
    told = [text for place, secret in PLACES.items() if known(place) for text in spelt(secret).values()]
    shell.write("said.txt", f"hello {' '.join(told)}")


def fill(shell) -> None:
    shell.write("steadyhand.toml", CONFIG)
    shell.write("secret.env", f"ENV_TOKEN={PLACES['environment file']}\n")
    shell.write("mine.py", PLUGIN)
    say(shell, lambda place: "command line" not in place)
    shell.write("leak.py", LEAK)
    shell.write("p.py", COMMAND)
    plugin = f"plugins: [{{name: ./mine.py, config: {{secret: {PLACES['plugin of a scenario']}}}}}]\n"
    shell.write("a.scenario.yaml", f"agent: python:./leak.py:agent\n{plugin}{AGENT}")
    shell.write("b.scenario.yaml", f"agent: python:./leak.py:agent\n{AGENT.replace('Hello', 'fail')}")
    line = f"TOKEN={PLACES['command of a scenario']} python3 ./p.py {shell.folder}"
    shell.write("c.scenario.yaml", f"agent: 'command:{line}'\n{AGENT}")
    database = f"postgresql://me:{PLACES['database']}@127.0.0.1:9/x"
    shell.write(
        "d.scenario.yaml", f"agent: python:./leak.py:agent\nsetup: {{database: {{url: '{database}'}}}}\n{AGENT}"
    )
    shell.write("e.scenario.yaml", AGENT)  # asks a model that no server provides
    in_matrix = f"command:python3 ./p.py {shell.folder} --api-token {PLACES['command of a matrix']}"
    matrix = f"base_scenario: c.scenario.yaml\nmatrix: [{{parameter: agent, values: ['{in_matrix}', runtime]}}]\n"
    shell.write("m.matrix.yaml", matrix)


def written(shell, *said: str) -> dict[str, str]:
    """All files except those that held the secrets before, unpacked, and everything that was printed."""
    ours = {"steadyhand.toml", "secret.env", "said.txt", "leak.py", "p.py", "mine.py"}
    found = {f"output {number}": text for number, text in enumerate(said)}
    for file in shell.folder.rglob("*"):
        if not file.is_file() or file.name in ours or file.name.endswith((".scenario.yaml", ".matrix.yaml", ".pyc")):
            continue
        found[str(file.relative_to(shell.folder))] = file.read_bytes().decode("latin-1")
        if file.suffix == ".sqlite":
            reader = RunReader.open(file)
            found[f"{file.name} read"] = repr(reader.header) + repr(list(reader.trials()))
            with sqlite3.connect(file) as connection:
                found[f"{file.name} rows"] = "".join(connection.iterdump())
            connection.close()
    return found


@pytest.mark.usefixtures("forked_agents")
def test_no_file_that_is_written_has_a_secret(shell, collector):
    fill(shell)
    out = []
    reports = ("--json", "r.json", "--junit", "r.xml", "--html", "r.html", "--transcript", "all", "--record", "tape")
    export = ("--otel", f"http://127.0.0.1:{collector.server_port}/v1/traces")
    temporary = shell.folder / "tmp"
    temporary.mkdir()
    variables = {**VARIABLES, "TMPDIR": str(temporary)}
    ended = shell("run", ".", *reports, *export, "--retries", "0", "--trials", "2", **variables)
    out += [ended.out, ended.err]
    assert (shell.folder / "r.json").exists(), ended.err
    assert "*" * 18 in (shell.folder / "r.json").read_text()
    say(shell, lambda place: not place.endswith(("scenario", "matrix", "database")))
    first = f"command:API_TOKEN={PLACES['command line']} python3 ./p.py {shell.folder}"
    second = f"command:python3 ./p.py {shell.folder} --password={PLACES['command line, second']}"
    ended = shell("run", "e.scenario.yaml", "--agent", first, "--agent", second, "--json", "r2.json", **variables)
    out += [ended.out, ended.err]
    for command in (
        ("report", "last", "--html", "again.html", "--markdown", "r.md"),
        ("show", "last", "--transcript", "all"),
        ("export", "last", "--format", "jsonl", "--out-dir", "tables"),
        ("export", "last", "--format", "csv", "--out-dir", "tables2"),
        ("export", "last", "--format", "inspect", "--out-dir", "tables3"),
        ("runs",),
        ("list", "."),
        ("validate", "."),
        ("run", ".", "--dry-run"),
        ("resume", "last"),
    ):
        ended = shell(*command, **variables)
        out += [ended.out, ended.err]
    assert (shell.folder / "r.md").exists()
    assert list((shell.folder / "tables").iterdir())
    assert collector.kept
    exported = {"traces": b"".join(collector.kept).decode("latin-1")}
    assert leaks({**written(shell, *out), **exported}) == []


@pytest.mark.parametrize("when", ["loading", "running"])
def test_no_traceback_has_a_secret(shell, when, monkeypatch):
    """An unexpected exception that says all it knows."""
    fill(shell)
    monkeypatch.chdir(shell.folder)
    monkeypatch.setattr(sys, "argv", ["steadyhand", "run", ".", "--agent", f"command:TOKEN={PLACES['command line']} x"])
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", str(shell.folder))
    known = [place for place in PLACES if "second" not in place]
    redactor = None
    if when == "loading":  # scenarios are not known yet
        known = [place for place in known if not place.endswith(("scenario", "matrix", "database"))]
    else:
        redactor = Run(Selection(paths=(".",)), RunOptions()).redactor
    told = " ".join(text for place in known for text in spelt(PLACES[place]).values())
    with pytest.raises(ZeroDivisionError) as raised:
        raise ZeroDivisionError(told)
    line = tell_bug(raised.value, redactor)
    (file,) = shell.folder.glob("steadyhand-traceback-*")
    text = file.read_text()
    assert "ZeroDivisionError: ***" in text
    assert leaks({"file": text, "line": line}) == []


@pytest.mark.parametrize(
    "agent",
    [
        f"command:TOKEN={PLACES['variable PAT']} x",
        f"comand:TOKEN={PLACES['variable PAT']} x",
        f"http:http://there.example/?sig={PLACES['variable PAT']}",
        f"command:x --api-token {PLACES['variable PAT']} 'unclosed",
    ],
)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_no_refusal_has_a_secret_of_the_file(shell, agent, where):
    project = shell.within(shell.folder / "project")
    project.write("steadyhand.toml", "")
    path = "a.scenario.yaml" if where == "inside" else "../dl/a.scenario.yaml"
    project.write(path, f"agent: {json.dumps(agent)}\n{AGENT}")
    for command in (("run", path), ("validate", path), ("lint", path), ("run", path, "--dry-run")):
        ended = project(*command)
        assert leaks({" ".join(command): ended.out + ended.err}) == []


def test_a_message_about_a_wrong_option_shows_no_secret(shell):
    ended = shell("run", "--trials", PLACES["variable PAT"], **VARIABLES)
    assert ended.code == 2
    assert leaks({"stderr": ended.err}) == []
