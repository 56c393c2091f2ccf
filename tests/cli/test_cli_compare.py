"""`compare`, `baseline` and `gate` as a user runs them: two models, one of which no longer calls for help."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest

from support.command_server import CommandServer
from support.shell import UNTIMED, Shell

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory, command_server: CommandServer) -> Path:
    """Two records: a good run and a bad one. Tests get copies of the folder."""
    shell = Shell(tmp_path_factory.mktemp("two_runs"), command_server)
    shell.write("help.yaml", UNTIMED.replace("id: untimed", "id: help"))
    shell.write("wait.yaml", UNTIMED.replace("id: untimed", "id: wait").replace("call for help", "help|wait"))
    shell.write("good.yaml", "rules:\n  - reply: I call for help|wait now.\n")
    shell.write("bad.yaml", "rules:\n  - reply: Nothing to do with help|wait. ::error::x\n")
    for model in ("good", "bad"):
        arguments = ["--model", f"scripted/{model}.yaml", "--trials", "12", "--runs", model, "--json", f"{model}.json"]
        assert shell("run", "help.yaml", "wait.yaml", *arguments).code in (0, 1)
    return shell.folder


@pytest.fixture
def runs(shell: Shell, two_runs: Path) -> Shell:
    shutil.copytree(two_runs, shell.folder, dirs_exist_ok=True)
    return shell


def record(shell: Shell, name: str) -> str:
    (found,) = (shell.folder / name).glob("*.sqlite")
    return str(found)


def test_two_runs_are_compared(runs: Shell):
    ended = runs("compare", record(runs, "good"), record(runs, "bad"))
    assert (ended.code, ended.err) == (0, "")
    assert "B is worse than A: pass rate -50.0 points" in ended.out
    assert re.search(r"help +12/12 +0/12 +-100\.0 points", ended.out)
    assert "| I call for help|wait now." in ended.out
    assert "| Nothing to do with help|wait. ::error::x" in ended.out
    assert "Other differences between the sides: the model (2 scenarios)" in ended.out


def test_reports_say_the_same_as_records(runs: Shell):
    of_records = runs("compare", record(runs, "good"), record(runs, "bad"), "--json", "-")
    of_reports = runs("compare", "good.json", "bad.json", "--json", "-")
    assert of_records.code == of_reports.code == 0
    records, reports = json.loads(of_records.out), json.loads(of_reports.out)
    assert records == reports
    schema = json.loads((ROOT / "schemas" / "comparison.schema.json").read_text())
    jsonschema.validate(records, schema)
    (change,) = records["comparisons"][0]["changes"]
    assert change["a"]["messages"][-1]["content"] == "I call for help|wait now."
    assert change["kind"] == "regression"


def test_files_are_written_beside_the_table(runs: Shell):
    ended = runs("compare", "good.json", "bad.json", "--json", "c.json", "--markdown", "deep/c.md")
    assert "B is worse than A" in ended.out
    assert json.loads((runs.folder / "c.json").read_text())["format"] == 1
    shown = (runs.folder / "deep" / "c.md").read_text()
    assert "| `help` | 12/12 | 0/12 | -100.0 points |" in shown
    assert "assistant: Nothing to do with help|wait. ::error::x" in shown


def test_markdown_goes_to_stdout_alone(runs: Shell):
    ended = runs("compare", "good.json", "bad.json", "--markdown", "-")
    assert ended.out.startswith("# Comparison\n")
    both = runs("compare", "good.json", "bad.json", "--markdown", "-", "--json", "-")
    assert (both.code, "cannot both be written to stdout" in both.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good.json"], "nothing to compare"),
        (["good.json", "nowhere"], "no run 'nowhere'"),
        (["good.json", "good.yaml"], "is not a run record, JSON report or baseline"),
        (["good.json@gpt", "bad.json"], "no target 'gpt' in run"),
    ],
)
def test_what_cannot_be_read_is_exit_code_2(runs: Shell, arguments: list[str], message: str):
    ended = runs("compare", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_a_target_of_a_run_is_named_behind_it(runs: Shell):
    good, bad = record(runs, "good"), record(runs, "bad")
    ended = runs("compare", f"{good}@good", f"{bad}@scripted/bad.yaml")
    assert "B is worse than A" in ended.out
    wrong = runs("compare", f"{good}@gpt", bad)
    assert (wrong.code, "targets there: scripted/good.yaml" in wrong.err) == (2, True)


def test_a_changed_scenario_is_named_and_not_paired(runs: Shell):
    text = (runs.folder / "help.yaml").read_text()
    runs.write("help.yaml", text.replace("What now?", "What now, quickly?"))
    runs("run", "help.yaml", "--model", "scripted/good.yaml", "--trials", "2", "--runs", "later")
    ended = runs("compare", record(runs, "good"), record(runs, "later"))
    assert "Not compared, not the same scenario on both sides: help" in ended.out
    assert "Not compared, only in A: wait" in ended.out
    paired = runs("compare", record(runs, "good"), record(runs, "later"), "--pair-changed")
    assert "compared anyway: help" in paired.out


def test_the_gate_passes_and_fails(runs: Shell):
    made = runs("baseline", record(runs, "good"), "--out", "base.json")
    assert (made.code, made.out) == (0, "wrote base.json: 2 entries\n")
    lines = (runs.folder / "base.json").read_text().splitlines()
    assert len(lines) == 4
    jsonschema.validate(
        json.loads("\n".join(lines)), json.loads((ROOT / "schemas" / "baseline.schema.json").read_text())
    )
    assert runs("gate", record(runs, "good"), "--baseline", "base.json").code == 0
    failed = runs("gate", record(runs, "bad"), "--baseline", "base.json", "--json", "gate.json")
    assert failed.code == 1
    assert "drop: the pass rate dropped\n    - help 12/12 to 0/12" in failed.out
    result = json.loads((runs.folder / "gate.json").read_text())
    jsonschema.validate(result, json.loads((ROOT / "schemas" / "gate.schema.json").read_text()))
    assert result["exit_code"] == 1


def test_a_run_is_a_baseline_too(runs: Shell):
    assert runs("gate", record(runs, "bad"), "--baseline", record(runs, "good")).code == 1
    assert runs("gate", "good.json", "--baseline", "good.json").code == 0


def test_github_gets_annotations_and_a_summary(runs: Shell):
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md"}
    ended = runs("gate", record(runs, "bad"), "--baseline", record(runs, "good"), **variables)
    assert ended.code == 1
    assert ended.err.startswith(
        "::error file=help.yaml,line=1,title=steadyhand gate%3A drop::the pass rate dropped: help"
    )
    assert (runs.folder / "summary.md").read_text().startswith("# Gate: failed\n")
    assert "::" not in runs("gate", record(runs, "bad"), "--baseline", record(runs, "good")).err


def test_no_usable_baseline_is_exit_code_2(runs: Shell):
    assert runs("gate", "good.json", "--baseline", "nowhere.json").code == 2
    runs.write("broken.json", '{"baseline": 2, "run": "x"}')
    ended = runs("gate", "good.json", "--baseline", "broken.json")
    assert (ended.code, "Traceback" in ended.err) == (2, False)
    empty = {"baseline": 1, "run": "r", "started_at": "2026-11-16T10:00:00+00:00", "steadyhand_version": "1"}
    runs.write("empty.json", json.dumps({**empty, "entries": []}))
    ended = runs("gate", "good.json", "--baseline", "empty.json")
    assert (ended.code, "no usable baseline" in ended.out) == (2, True)


def test_too_little_data_is_exit_code_3(runs: Shell):
    runs("run", "help.yaml", "wait.yaml", "--model", "scripted/good.yaml", "--runs", "one")
    ended = runs("gate", record(runs, "one"), "--baseline", record(runs, "one"))
    assert (ended.code, "Too few trials" in ended.out) == (3, True)


def test_a_rule_is_switched_off_by_its_name(runs: Shell):
    runs("run", "help.yaml", "--model", "scripted/good.yaml", "--trials", "12", "--runs", "less")
    arguments = ["gate", record(runs, "less"), "--baseline", record(runs, "good")]
    assert "vanished-scenario" in runs(*arguments).out
    assert runs(*arguments).code == 1
    off = runs(*arguments, "--ignore", "vanished-scenario")
    assert (off.code, "Rules switched off: vanished-scenario" in off.out) == (0, True)
    assert runs(*arguments, "--ignore", "drop").code == 2


def test_a_run_without_decided_trials_is_not_a_baseline(shell: Shell):
    shell.write(
        "one.yaml",
        UNTIMED.replace("- {type: string_contains, value: call for help}", "[]").replace("\n      []", " []"),
    )
    shell.replies("rules:\n  - reply: Hello.\n")
    shell("run", "one.yaml")
    ended = shell("baseline", "last", "--out", "base.json")
    assert (ended.code, "cannot be a baseline" in ended.err) == (2, True)
    assert not (shell.folder / "base.json").exists()


@pytest.fixture
def targets(runs: Shell) -> Shell:
    """Both models as targets of one run, and as the axis of a matrix."""
    both = ["--model", "scripted/good.yaml", "--model", "scripted/bad.yaml", "--trials", "12"]
    runs("run", "help.yaml", "wait.yaml", *both, "--runs", "both", "--json", "both.json")
    runs.write(
        "m.matrix.yaml",
        "name: m\nbase_scenario: [help.yaml, wait.yaml]\nruns_per_combination: 12\nmatrix:\n"
        "  - parameter: model\n    values: [scripted/good.yaml, scripted/bad.yaml]\n",
    )
    runs("run", "m.matrix.yaml", "--runs", "matrix")
    return runs


def test_the_targets_of_one_run_are_paired_like_two_runs(targets: Shell):
    for name in (record(targets, "both"), "both.json", record(targets, "matrix")):
        ended = targets("compare", name, "--json", "-")
        assert ended.code == 0, ended.err
        (found,) = json.loads(ended.out)["comparisons"]
        assert (found["a"], found["b"]) == ("scripted/good.yaml", "scripted/bad.yaml")
        (change,) = found["changes"]
        assert (change["unit"], change["kind"]) == ("help", "regression")
        assert change["a"]["messages"][-1]["content"] == "I call for help|wait now."


def test_one_target_is_gated_against_another(targets: Shell):
    run = record(targets, "both")
    assert targets("gate", f"{run}@bad", "--baseline", f"{run}@good").code == 1
    assert targets("gate", f"{run}@good", "--baseline", f"{run}@good").code == 0


def test_skipped_trials_are_not_undecided_but_not_a_fixed_sample_either(runs: Shell):
    arguments = [
        "--trials",
        "60",
        "--until",
        "decided",
        "--pass-rate",
        "0.5",
        "--runs",
        "until",
        "--json",
        "until.json",
    ]
    runs("run", "help.yaml", "--model", "scripted/good.yaml", *arguments)
    for name in (record(runs, "until"), "until.json"):
        (side, _) = json.loads(runs("compare", name, record(runs, "good"), "--json", "-").out)["sides"]
        assert (side["undecided"], side["stopped_early"]) == (0, True)
        assert side["trials"] < 60
        gated = runs("gate", name, "--baseline", record(runs, "good"), "--ignore", "vanished-scenario")
        assert gated.code == 3
        assert "Trials ended when their pass rate was decided" in gated.out + gated.err
        refused = runs("baseline", name, "--out", "until-baseline.json")
        assert refused.code == 2
        assert "cannot be a baseline: with --until" in refused.err
        assert "run it without --until" in refused.err
        assert not (runs.folder / "until-baseline.json").exists()


def test_a_baseline_file_that_was_stopped_early_decides_nothing(runs: Shell):
    runs("baseline", record(runs, "good"), "--out", "base.json")
    path = runs.folder / "base.json"
    path.write_text(path.read_text().replace('"entries"', '"stopped_early":true,"entries"', 1))
    assert runs("gate", record(runs, "good"), "--baseline", "base.json").code == 3


def test_a_baseline_with_too_few_trials_for_any_gate_to_fail_says_so(runs: Shell):
    runs("run", "help.yaml", "--model", "scripted/good.yaml", "--runs", "single")
    ended = runs("baseline", record(runs, "single"), "--out", "base.json")
    assert (ended.code, "cannot detect a drop" in ended.err) == (0, True)
    assert runs("gate", record(runs, "single"), "--baseline", "base.json").code == 3
    assert "cannot detect" not in runs("baseline", record(runs, "good"), "--out", "base.json").err
