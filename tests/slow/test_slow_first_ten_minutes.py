"""The tutorial's path, from a wheel of this checkout in an empty folder. With `-s` it prints what a user sees.

It installs the wheel into its own environment, so it needs a package index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
Run = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    command = [str(folder / "bin" / "pip"), "install", "--quiet", *constraints, str(wheel), "pytest", "pytest-xdist"]
    subprocess.run(command, check=True)
    return folder / "bin"


@pytest.fixture
def terminal(bin_folder: Path, tmp_path: Path) -> Run:
    """Runs a command in an empty folder, and returns what it printed."""
    environment = {"PATH": f"{bin_folder}{os.pathsep}{os.defpath}", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    folder = tmp_path / "work"
    folder.mkdir()

    def typed(line: str, *, code: int = 0) -> str:
        everything = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        ran = subprocess.run(line, shell=True, cwd=folder, env=environment, check=False, **everything)
        print(f"\n$ {line}\n{ran.stdout}[exit code {ran.returncode}]")
        assert ran.returncode == code, ran.stdout
        return ran.stdout

    return typed


@pytest.mark.slow
def test_from_an_empty_folder_to_ci(terminal: Run, tmp_path: Path):
    work = tmp_path / "work"
    assert terminal("steadyhand init").splitlines()[-1] == "next: steadyhand run scenarios"
    assert "3 trials: 3 passed" in terminal("steadyhand run scenarios --no-progress")

    agent = work / "agent.py"
    right = agent.read_text()
    agent.write_text(
        right.replace("passed your request to a colleague, who decides on refunds", "approved your refund")
    )
    assert "It promises no refund" in terminal("steadyhand run scenarios -k refund --no-progress", code=1)
    mine = (work / "scenarios" / "refund.scenario.yaml").read_text()
    (work / "scenarios" / "greeting.scenario.yaml").write_text(
        mine.replace("name: Refund", "name: Greeting")
        .replace("My parcel never came. I want a refund.", "Hello!")
        .replace("value: two days", "valeu: help you")
    )
    assert "did you mean `value`" in terminal("steadyhand validate scenarios", code=2)
    greeting = work / "scenarios" / "greeting.scenario.yaml"
    greeting.write_text(greeting.read_text().replace("valeu", "value"))
    terminal("steadyhand validate scenarios")
    assert "It promises no refund" in terminal("steadyhand show last")

    assert "It promises no refund" in terminal("pytest --steadyhand -q", code=1)
    agent.write_text(right)
    assert "5 passed" in terminal("pytest --steadyhand -q")
    assert "5 passed" in terminal("pytest --steadyhand -q -n 2")

    job = yaml.safe_load((work / ".github/workflows/steadyhand.yml").read_text())["jobs"]["scenarios"]
    for step in job["steps"]:
        if "run" in step and not step["run"].startswith("pip"):
            terminal(step["run"])


@pytest.mark.slow
def test_the_wheel_holds_schemas_and_the_starter(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("schemas", "starter"):
        here = ROOT / "src" / "steadyhand" / folder
        files = {f"steadyhand/{folder}/{file.relative_to(here).as_posix()}" for file in here.rglob("*.[jytp]*")}
        assert files
        assert {name for name in files if "__pycache__" not in name} <= names


@pytest.mark.slow
def test_the_quick_start_never_loses_a_time(tmp_path: Path):
    """Twenty times, as printed in the README; needs a machine that is not busy with something else."""
    command = [sys.executable, "-m", "steadyhand", "run", "examples/decisions", "--config", "examples/steadyhand.toml"]
    for number in range(20):
        options = ["--no-progress", "--runs", str(tmp_path), "--json", str(tmp_path / "report.json")]
        subprocess.run([*command, *options], cwd=ROOT, check=False, capture_output=True)
        report = json.loads((tmp_path / "report.json").read_text())
        for trial in report["trials"]:
            assert trial["times_not_known"] is None, (
                f"run {number + 1}: {trial['scenario']}: {trial['times_not_known']}"
            )
