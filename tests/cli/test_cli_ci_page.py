"""The documentation's CI files and the action are valid for their services, and their commands run."""

import os
import re
import shutil
import subprocess
from pathlib import Path

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
    """The last step of the action, with its inputs as GitHub would set them."""
    inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | given
    step = ACTION["runs"]["steps"][-1]
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
    ended, outputs, summary = run_action(project, **step["with"])
    assert ended.returncode == 0, ended
    assert "12 trials: 12 passed" in ended.stdout
    assert outputs == {"exit-code": "0", "report": "steadyhand-report"}
    assert "passed" in summary
    (upload,) = (step for step in GITHUB["jobs"]["scenarios"]["steps"] if "upload-artifact" in step.get("uses", ""))
    written = sorted(file.name for file in (project.folder / upload["with"]["path"]).iterdir())
    assert written == ["junit.xml", "report.html", "report.json"]


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
