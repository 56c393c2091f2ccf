"""The documentation's CI files and the action are valid for their services, and their commands run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
GITHUB, SHARDED, GITLAB = (yaml.load(text, yaml.BaseLoader) for kind, text in BLOCKS if kind == "yaml")
(JENKINS,) = (text for kind, text in BLOCKS if kind == "groovy")
ACTION = yaml.load((ROOT / "action.yml").read_text(encoding="utf-8"), yaml.BaseLoader)


@pytest.fixture
def project(shell):
    """Four scenarios and a model that answers correctly, with `steadyhand` and `pip` on the path."""
    for number in range(4):
        shell.decision(f"scenarios/{number}.yaml", id=f"SCN-C-00{number}")
    shell.replies("rules: [{reply: I call for help now.}]\n")
    shell.program("bin/steadyhand")
    shell.write("bin/pip", "#!/bin/sh\n").chmod(0o755)
    return shell


def bash(project, script, **variables):
    path = f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**project.environment(**variables), "PATH": path, "CI": "true"}
    command = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=project.folder, env=environment, capture_output=True, text=True, check=False)


def script_of(step, **values):
    """The commands of a step, with GitHub's expressions replaced."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: values[found[1]], step["run"])


def test_gitlab(project):
    job = GITLAB["scenarios"]
    for line in job["script"]:
        ended = bash(project, line)
        assert ended.returncode == 0, ended
    for file in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (project.folder / file).is_file()


def test_jenkins(project):
    for command in re.findall(r"sh '(.*)'", JENKINS):
        ended = bash(project, command)
        assert ended.returncode == 0, ended
    for file in re.findall(r"(?:junit|archiveArtifacts) '(.*)'", JENKINS):
        assert (project.folder / file).is_file()
    assert JENKINS.count("{") == JENKINS.count("}")


def test_shards_on_github(project):
    shard, verdict = (SHARDED["jobs"][name]["steps"] for name in ("shard", "verdict"))
    for number in SHARDED["jobs"]["shard"]["strategy"]["matrix"]["shard"]:
        for step in shard:
            if "run" in step:
                ended = bash(project, script_of(step, **{"matrix.shard": number, "github.run_number": "12"}))
                assert ended.returncode == 0, ended
        (upload,) = (step["with"]["path"] for step in shard if "upload-artifact" in step.get("uses", ""))
        (download,) = (step["with"]["path"] for step in verdict if "download-artifact" in step.get("uses", ""))
        shutil.copytree(project.folder / upload, project.folder / download, dirs_exist_ok=True)
        shutil.rmtree(project.folder / upload)
    for step in verdict:
        if "run" in step:
            ended = bash(project, script_of(step))
            assert ended.returncode == 0, ended
    assert "4 trials: 4 passed" in ended.stdout
    assert (project.folder / "junit.xml").is_file()
    (project.folder / next((project.folder / "shards").glob("*.sqlite"))).unlink()
    assert bash(project, script_of(verdict[-1])).returncode == 3


def run_action(project, **given):
    """The step `Run` of the action, with its inputs as GitHub would set them."""
    inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | given
    (step,) = (step for step in ACTION["runs"]["steps"] if step.get("name") == "Run")
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    variables = {name: script_of({"run": value}, **values) for name, value in step["env"].items()}
    output = project.write("output", "")
    summary = project.write("summary.md", "")
    ended = bash(
        project,
        step["run"],
        GITHUB_ACTIONS="true",
        GITHUB_OUTPUT=str(output),
        GITHUB_STEP_SUMMARY=str(summary),
        **variables,
    )
    return ended, dict(line.split("=", 1) for line in output.read_text().splitlines()), summary.read_text()


def test_the_example_uses_the_action_as_it_is(project):
    (step,) = (step for step in GITHUB["jobs"]["scenarios"]["steps"] if "steadyhand" in step.get("uses", ""))
    assert set(step["with"]) <= set(ACTION["inputs"])
    run_action(project, scenarios="scenarios", arguments="--trials=3")
    assert bash(project, "steadyhand baseline last --out baseline.json").returncode == 0
    ended, outputs, summary = run_action(project, **step["with"])
    assert ended.returncode == 0, ended
    assert "12 trials: 12 passed" in ended.stdout
    assert outputs == {"exit-code": "0", "report": "steadyhand-report"}
    assert "passed" in summary
    written = sorted(file.name for file in (project.folder / outputs["report"]).iterdir())
    assert written == ["changes.md", "gate.md", "junit.xml", "report.html", "report.json", "summary.md"]


def test_with_a_baseline_the_gate_decides(project):
    run_action(project, scenarios="scenarios", arguments="--trials=12")
    assert bash(project, "steadyhand baseline last --out baseline.json").returncode == 0
    project.replies("rules: [{reply: I wait.}]\n")
    ended, outputs, _ = run_action(project, scenarios="scenarios", arguments="--trials=12", baseline="baseline.json")
    assert (ended.returncode, outputs["exit-code"]) == (1, "1")
    assert "the pass rate dropped" in (project.folder / outputs["report"] / "gate.md").read_text()


class PullRequest(BaseHTTPRequestHandler):
    """GitHub's comments on one pull request."""

    comments: ClassVar[list[dict]] = []
    refuses: ClassVar[bool] = False

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def do_GET(self):
        assert self.path.startswith("/repos/us/desk/issues/7/comments")
        self.answer(self.comments)

    def do_POST(self):
        text = self.body()
        if self.refuses:
            self.answer({"message": "Resource not accessible by integration"}, 403)
            return
        self.comments.append({"id": len(self.comments) + 1, "body": text})
        self.answer({})

    def do_PATCH(self):
        assert self.headers["Authorization"] == "Bearer t-1"
        self.comments[int(self.path.rpartition("/")[2]) - 1]["body"] = self.body()
        self.answer({})

    def log_message(self, *_):
        pass


@pytest.fixture
def pull_request():
    PullRequest.comments, PullRequest.refuses = [{"id": 1, "body": "Looks good to me."}], False
    with ThreadingHTTPServer(("127.0.0.1", 0), PullRequest) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_comment(project, api, code, name="steadyhand-report"):
    given = {"TOKEN": "t-1", "NAME": name, "PULL_REQUEST": "7", "REPORT": "out", "CODE": code}
    given |= {"ARTIFACT": "https://x.example/1", "GITHUB_API_URL": api, "GITHUB_REPOSITORY": "us/desk"}
    return bash(project, f"{shlex.quote(sys.executable)} {ROOT / 'tools/pull_request_comment.py'}", **given)


def test_the_comment_is_updated_in_place(project, pull_request):
    project.write("out/gate.md", "The gate: the pass rate dropped")
    project.write("out/summary.md", "| scenario |\n" * 20_000)
    assert write_comment(project, pull_request, "1").returncode == 0
    assert write_comment(project, pull_request, "1", name="another job").returncode == 0
    project.write("out/gate.md", "The gate: passed")
    assert write_comment(project, pull_request, "0").returncode == 0
    human, ours, other = (each["body"] for each in PullRequest.comments)
    assert human == "Looks good to me."
    assert ("### Steadyhand: passed" in ours, "The gate: passed" in ours, "dropped" in ours) == (True, True, False)
    assert ("[Reports](https://x.example/1)" in ours, len(ours) < 65_536) == (True, True)
    assert "### Steadyhand: failed" in other


def test_a_token_that_may_not_write_costs_only_the_comment(project, pull_request):
    PullRequest.refuses = True
    project.write("out/summary.md", "all passed")
    ended = write_comment(project, pull_request, "0")
    assert (ended.returncode, "may not write to pull requests" in ended.stdout) == (0, True)


def test_the_action_fails_with_the_run_and_takes_inputs_as_data(project):
    project.replies("rules: [{reply: I wait.}]\n")
    ended, outputs, summary = run_action(project, scenarios="scenarios/0.yaml\nscenarios/1.yaml")
    assert (ended.returncode, outputs["exit-code"]) == (1, "1")
    assert "2 trials: 2 failed" in ended.stdout
    assert "::error file=scenarios/0.yaml,line=" in ended.stderr
    assert "failed" in summary
    for name in ("scenarios", "arguments", "report"):
        hostile = {"scenarios": "scenarios", name: "$(touch gotcha); touch gotcha #"}
        assert run_action(project, **hostile)[0].returncode != 0
    assert not (project.folder / "gotcha").exists()


def test_no_expression_stands_in_a_script_of_the_action():
    assert not [step for step in ACTION["runs"]["steps"] if "${{" in step.get("run", "")]
