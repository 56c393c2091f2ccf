"""The answer key of a run: what is in it, and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import steadyhand
from steadyhand.compose.answer_key import answer_key
from steadyhand.compose.run import Run
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.isolation import AnswerKey
from steadyhand.spec.config import SHIPPED
from support.shell import AGENT


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path.resolve() / "project"
    (top / "scenarios").mkdir(parents=True)
    (top / "scenarios/a.scenario.yaml").write_text(AGENT)
    (top / "scenarios/agent.py").write_text("def agent(message): return message\n")
    (top / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.chdir(top)
    return top


def key(project: Path, *paths: str, **options: object) -> AnswerKey:
    given = RunOptions(agent="python:agent.py:agent", **options)  # pyright: ignore[reportArgumentType]
    run = Run(Selection(paths=paths or ("scenarios",)), given)
    return answer_key(run.casts.all(run.scenarios), run.settings, project.parent / "workspaces")


def shown(project: Path, paths: tuple[str, ...]) -> set[str]:
    return {os.path.relpath(path, project) for path in paths if Path(path).is_relative_to(project)}


def test_scenarios_and_records_are_in_it_and_the_agents_code_is_not(project: Path) -> None:
    found = key(project)
    assert shown(project, found.files) == {"scenarios/a.scenario.yaml"}
    assert shown(project, found.folders) == {".steadyhand"}
    assert os.path.realpath(SHIPPED) in found.folders


def test_what_a_closed_folder_holds_is_not_listed_again(project: Path) -> None:
    """A mask cannot be put on a file of a folder that is masked: from the second run on there are records."""
    (project / "rules.yaml").write_text("rules:\n  - reply: hello\n")
    steadyhand.run("scenarios", agent="model", model="scripted/rules.yaml")
    assert list((project / ".steadyhand/runs").glob("*.sqlite"))
    found = key(project)
    assert shown(project, found.files) == {"scenarios/a.scenario.yaml"}
    assert shown(project, found.folders) == {".steadyhand"}


def test_every_file_that_a_scenario_is_made_of_is_in_it(project: Path) -> None:
    (project / "shared.yaml").write_text("evaluations: {a: {type: string_contains, value: hello}}\n")
    (project / "base.yaml").write_text(AGENT.replace("- {type", "- use: shared.yaml#a\n      - {type", 1))
    (project / "rows.csv").write_text("id\na\n")
    (project / "texts.yaml").write_text("- {variant: told, text: Say hello, signed: me, scenario: 'own[a]'}\n")
    (project / "own.yaml").write_text(
        "extends: base.yaml\ncases: {file: rows.csv}\ndescription: '{{ id }}'\n"
        "variants: {same: [{name: told, file: texts.yaml}]}\n"
    )
    assert "use:" in (project / "base.yaml").read_text()
    assert shown(project, key(project, "own.yaml").files) == {
        "own.yaml", "base.yaml", "shared.yaml", "rows.csv", "texts.yaml",
    }  # fmt: skip


def test_copies_and_what_we_wrote_are_in_it(project: Path) -> None:
    (project / "notes").mkdir()
    (project / "notes/copy.bak").write_text(AGENT)
    (project / "notes/report.json").write_text('{"format":3,\n"run":{"id":"x"}}')
    (project / "notes/labels.jsonl").write_text('{"run":"r","scenario":"s","trial":0,"check":"c","label":"pass"}\n')
    (project / "notes/own.json").write_text('{"format": "mine", "run": 1}')
    (project / "notes/own.csv").write_text("run,speed\n")
    found = key(project)
    assert shown(project, found.files) == {
        "scenarios/a.scenario.yaml", "notes/copy.bak", "notes/report.json", "notes/labels.jsonl",
    }  # fmt: skip


def test_version_control_and_other_checkouts_are_in_it(project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.email=a@example.com", "-c", "user.name=a"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(project.parent / "other")], check=True, capture_output=True)
    found = key(project)
    assert str(project / ".git") in found.folders
    assert str(project.parent / "other/scenarios/a.scenario.yaml") in found.files
    inside = key(project, str(project.parent / "other/scenarios"), trust=True)
    assert str(project / ".git") in inside.folders


def test_what_a_repository_was_cloned_from_is_in_it(project: Path) -> None:
    top = project.parent
    for name in ("lender", "lenders-lender", "origin"):
        subprocess.run(["git", "init", "-q", str(top / name)], check=True)
    (top / "lender/.git/objects/info/alternates").write_text("../../../lenders-lender/.git/objects\n")
    (top / "origin/scenarios").mkdir()
    (top / "origin/scenarios/a.scenario.yaml").write_text("an older version\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / ".git/objects/info/alternates").write_text(f"{top}/lender/.git/objects\n")
    subprocess.run(["git", "-C", str(project), "remote", "add", "origin", f"file://{top}/origin"], check=True)
    subprocess.run(["git", "-C", str(project), "remote", "add", "far", "git@example.com:a/b.git"], check=True)
    found = key(project)
    expected = {"lender/.git/objects", "lenders-lender/.git/objects", "origin/.git", "project/.git"}
    assert {os.path.relpath(path, top) for path in found.folders} >= expected
    assert str(top / "origin/scenarios/a.scenario.yaml") in found.files


def test_what_judges_can_be_read_and_not_changed(project: Path) -> None:
    (project / "steadyhand.toml").touch()
    fixed = key(project).fixed
    package = str(Path(steadyhand.__file__).parent)
    assert any(package == path or package.startswith(f"{path}/") for path in fixed)
    program = os.path.realpath(sys.executable)
    for own in (os.path.realpath(os.__file__), *([program] if os.access(Path(program).parent, os.W_OK) else [])):
        assert any(own == path or own.startswith(f"{path}/") for path in fixed), own
    assert str(project / "steadyhand.toml") in fixed
    (project / "steadyhand.toml").unlink()
    (project / "pyproject.toml").write_text("[tool.steadyhand]\nconcurrency = 1\n")
    assert str(project / "pyproject.toml") not in key(project).fixed


def test_what_the_user_allows_is_not_in_it(project: Path) -> None:
    (project / ".git/objects").mkdir(parents=True)
    (project / ".git/config").write_text("x")
    found = key(project, agent_can_read=(".git/config", "scenarios/a.scenario.yaml"))
    assert shown(project, (*found.files, *found.folders)) == {".git/objects", ".steadyhand"}
    assert shown(project, found.readable) == {".git/config", "scenarios/a.scenario.yaml"}


def test_a_folder_of_many_scenarios_is_one_entry(project: Path) -> None:
    (project / "many").mkdir()
    for number in range(70):
        (project / f"many/{number}.scenario.yaml").write_text(AGENT.replace("An agent", f"Agent {number}"))
    found = key(project, "many")
    assert shown(project, found.folders) == {".steadyhand", "many"}
    assert shown(project, found.files) == set()


def test_records_among_the_agents_files_cannot_be_hidden(project: Path) -> None:
    with pytest.raises(SetupError, match="contains the project; choose one of its own with --runs"):
        key(project, out=Path())


def test_a_repository_around_the_project_is_hidden_where_it_holds_contents(project: Path) -> None:
    bare = project.parent
    (bare / "objects").mkdir()
    (project / ".git").write_text(f"gitdir: {bare}/worktrees/project\n")
    (bare / "worktrees/project").mkdir(parents=True)
    (bare / "worktrees/project/commondir").write_text("../..\n")
    found = key(project)
    assert str(bare) not in found.folders
    assert str(bare / "objects") in found.folders
