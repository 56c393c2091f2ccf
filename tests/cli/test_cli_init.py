"""`steadyhand init`: what it writes is valid as it is, runs at once, and replaces nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from steadyhand.cli.main import _COMMANDS
from support.shell import Shell

pytestmark = pytest.mark.system

SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)|#:schema (\S+)")
CI = Path(".github/workflows/steadyhand.yml")


@pytest.fixture
def started(shell: Shell, tmp_path: Path) -> Shell:
    """In a freshly written project."""
    ended = shell("init", "my project")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "next: cd 'my project' && steadyhand run scenarios"
    return shell.within(tmp_path / "my project")


def test_it_validates_lints_and_runs_with_the_scripted_model(started: Shell):
    checked = started("validate", "scenarios")
    assert (checked.code, checked.out) == (0, "")
    assert "3 scenarios, 0 matrices, 0 rubrics: 0 errors, 0 warnings" in checked.err
    assert started("lint", "scenarios").code == 0
    assert started("selftest", "scenarios").code == 0
    ran = started("run", "scenarios", "--no-progress", "--json", "report.json")
    assert ran.code == 0, ran.out + ran.err
    trials = json.loads((started.folder / "report.json").read_text())["trials"]
    assert [trial["verdict"] for trial in trials] == ["passed"] * 3


def test_every_file_that_an_editor_completes_points_to_a_schema_it_satisfies(started: Shell):
    files = [*started.folder.glob("scenarios/*.yaml"), started.folder / "steadyhand.toml"]
    assert len(files) == 4
    for file in files:
        text = file.read_text()
        found = SCHEMA_LINE.match(text)
        assert found, file
        schema = json.loads((file.parent / (found[1] or found[2])).read_text())
        data = yaml.safe_load(text) if file.suffix == ".yaml" else tomllib.loads(text)
        jsonschema.Draft202012Validator(schema).validate(data)


def test_its_test_and_its_scenarios_pass_under_pytest(started: Shell):
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--steadyhand", "-q"],
        cwd=started.folder,
        env=started.environment(PYTEST_ADDOPTS="-p no:asyncio -p no:hypothesispytest -p no:langsmith_plugin"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_its_ci_file_runs_commands_that_exist(started: Shell):
    job = yaml.safe_load((started.folder / CI).read_text())["jobs"]["scenarios"]
    commands = [step["run"].split() for step in job["steps"] if "run" in step]
    assert commands[0][0] == "echo", "the command that installs Steadyhand is the user's to give"
    ours = [words[1:] for words in commands if words[0] == "steadyhand"]
    assert [words[0] for words in ours] == ["validate", "run"]
    assert {words[0] for words in ours} <= set(_COMMANDS)
    for words in ours:
        assert started(*words).code == 0
    assert (started.folder / "scenarios.xml").exists()


def install_step(folder: Path) -> str:
    steps = yaml.safe_load((folder / CI).read_text())["jobs"]["scenarios"]["steps"]
    return next(step["run"] for step in steps if "run" in step)


def test_the_install_step_fails_with_what_to_put_there(started: Shell):
    ran = subprocess.run(
        ["bash", "-e", "-c", install_step(started.folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "put the command that installs it into .github/workflows/steadyhand.yml" in ran.stdout
    assert "on no package index" in (started.folder / CI).read_text()


@pytest.mark.parametrize(
    "command",
    [
        "pip install ./steadyhand.whl",
        "pip install 'steadyhand @ git+https://a.b/s' # ü: \\1 ${{ x }}",
        "a\nb",
    ],
)
def test_the_users_own_install_command_is_written_as_it_is(shell: Shell, command: str):
    ended = shell("init", "p", "--install", command)
    assert ended.code == 0
    assert "to do" not in ended.out
    assert install_step(shell.folder / "p") == command
    assert "package index" not in (shell.folder / "p" / CI).read_text()


def test_a_blank_install_command_is_refused(shell: Shell):
    ended = shell("init", "p", "--install", " ")
    assert (ended.code, "--install needs a command" in ended.err) == (2, True)
    assert not (shell.folder / "p").exists()


def test_run_records_are_kept_out_of_git(started: Shell):
    assert ".steadyhand/" in (started.folder / ".gitignore").read_text().splitlines()


def test_an_existing_gitignore_stays_as_it_is(shell: Shell):
    mine = shell.write(".gitignore", "mine\n")
    ended = shell("init")
    assert ended.code == 0, ended.err
    assert mine.read_text() == "mine\n"
    assert "add a line `.steadyhand/`" in ended.out


@pytest.mark.parametrize("name", ["steadyhand.toml", "agent.py", CI.as_posix(), "schemas/agent.schema.json"])
def test_it_overwrites_nothing_and_writes_nothing_then(shell: Shell, name: str):
    mine = shell.write(name, "mine\n")
    ended = shell("init")
    assert ended.code == 2
    assert ended.err == f"steadyhand: {name} in . would be overwritten; nothing was written. Choose another folder\n"
    assert mine.read_text() == "mine\n"
    assert [file for file in shell.folder.rglob("*") if file.is_file()] == [mine]


@pytest.mark.parametrize("name", ["scenarios", ".github", ".github/workflows"])
def test_it_does_not_write_through_a_link(shell: Shell, name: str, tmp_path_factory: pytest.TempPathFactory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (shell.folder / name).parent.mkdir(exist_ok=True)
    (shell.folder / name).symlink_to(elsewhere)
    ended = shell("init")
    assert ended.code == 2
    assert f"{name} in . is a link to another folder; nothing was written" in ended.err
    assert list(elsewhere.iterdir()) == []
    assert not (shell.folder / "steadyhand.toml").exists()


def test_it_lives_beside_other_files(shell: Shell):
    shell.write("README.md", "Mine.\n")
    shell.write("scenarios/mine.scenario.yaml", "")
    ended = shell("init")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "next: steadyhand run scenarios")


def test_a_folder_that_cannot_be_written_is_named(shell: Shell):
    shell.write("taken", "a file")
    ended = shell("init", "taken/project")
    assert ended.code == 2
    assert "cannot write" in ended.err
    assert "taken" in ended.err
