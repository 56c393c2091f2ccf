from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from steadyhand.cli.main import cli
from support.shell import AGENT

ROOT = Path(__file__).parents[2]


def test_help_lists_every_command_and_loads_none(shell):
    ended = shell("--help")
    assert ended.code == 0
    for command in ("run", "validate", "list", "runs", "show", "schema", "lint", "selftest"):
        assert f"\n  {command} " in ended.out


def test_an_unknown_command_is_told_the_known_ones(shell):
    ended = shell("rnu")
    assert ended.code == 2
    assert "init, validate, lint" in ended.err


def test_validate_reports_every_problem_at_its_place(shell):
    shell.decision("a.yaml")
    text = (shell.folder / "a.yaml").read_text()
    shell.write(
        "a.yaml", text.replace("time_pressure: immediate", "time_presure: immediate").replace("1.0\nconst", "2\nconst")
    )
    ended = shell("validate", "a.yaml")
    assert ended.code == 2
    lines = ended.out.splitlines()
    assert len(lines) == 2, ended.out
    assert lines[0].startswith("a.yaml:14:15: safety_invariants[0].severity: ")
    assert lines[1].startswith("a.yaml:17:3: constraint.time_presure: unknown key")
    assert "did you mean `time_pressure`?" in lines[1]


def test_validate_is_content_with_what_is_right(shell):
    shell.decision("a.yaml")
    shell.write("b.scenario.yaml", AGENT)
    ended = shell("validate", ".")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "2 scenarios, 0 matrices, 0 rubrics: 0 errors, 0 warnings\n"


def test_list_shows_and_filters(shell):
    shell.decision("a.yaml", id="SCN-C-001")
    shell.write("b.scenario.yaml", AGENT + "tags: [Smoke, slow]\n")
    everything = shell("list", ".")
    assert everything.out.splitlines()[0].split() == ["ID", "NAME", "DOMAIN", "TAGS"]
    assert len(everything.out.splitlines()) == 3
    tagged = json.loads(shell("list", ".", "--tag", "smoke", "--format", "json").out)
    assert [(row["id"], row["tags"]) for row in tagged] == [("b", ["Smoke", "slow"])]

    def ids(expression: str) -> list[str]:
        return [line.split()[0] for line in shell("list", ".", "-k", expression).out.splitlines()[1:]]

    assert ids("scn or nothing") == ["SCN-C-001"]
    assert ids("not scn") == ["b"]


def test_the_committed_schemas_are_what_the_command_writes(shell):
    assert shell("schema", "--out-dir", "made").code == 0
    made = {file.name: file.read_text() for file in (shell.folder / "made").iterdir()}
    kept = {file.name: file.read_text() for file in (ROOT / "schemas").iterdir()}
    assert sorted(made) == sorted(kept)
    for name, text in made.items():
        assert kept[name] == text, f"schemas/{name} is out of date: run `make schemas`"


def test_one_schema_can_be_printed(shell):
    assert json.loads(shell("schema", "decision").out)["title"]
    assert shell("schema", "nothing").code == 2


def test_an_unknown_library_is_told_the_known_ones(shell):
    ended = shell("list", "@space")
    assert ended.code == 2
    assert ended.err == "steadyhand: unknown library '@space'; available: @clinical, @robotic\n"


def test_selftest_reports_good_answers_that_fail_and_bad_ones_that_pass(shell):
    shell.decision("a.yaml")
    text = (shell.folder / "a.yaml").read_text()
    shell.write(
        "a.yaml",
        text + "examples:\n  good: [I call for help, I ring the bell]\n  bad: [I wait, Never call for help]\n",
    )
    ended = shell("selftest", "a.yaml")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "a.yaml:10:5: SCN-C-001: calls_for_help: a good answer is rejected: reply has no match for 'call for help'",
        "    I ring the bell",
        "a.yaml:1:1: SCN-C-001: a bad answer passes every check",
        "    Never call for help",
    ]


def test_selftest_without_examples_is_not_a_pass(shell):
    shell.decision("a.yaml")
    ended = shell("selftest", "a.yaml")
    assert (ended.code, ended.err) == (2, "steadyhand: nothing to test: none of these scenarios has `examples`\n")


REGEX = 'check_type: regex\n    pattern: "call for help"'
EXAMPLES = "examples:\n  good: [I call for help, call for help]\n  bad: [I wait, no]\n"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"call for help"', r'"\\b(emergenc)\\b"', "`emergenc` before `\\b` matches only"),
        ('"call for help"', '"^.*$"', "cannot fail"),
        ('content: "What now?"', 'content: "Do you call for help?"', "prompt"),
        (REGEX, "check_type: not_contains\n    pattern: call for help", "expected_action"),
        (REGEX, "check_type: not_contains\n    pattern: wait for the lab", "Do not wait"),
    ],
)
def test_lint_finds_checks_that_cannot_be_meant(shell, before, after, said):
    shell.decision("a.yaml")
    text = (shell.folder / "a.yaml").read_text()
    assert before in text
    shell.write("a.yaml", text.replace(before, after) + EXAMPLES)
    ended = shell("lint", "a.yaml")
    assert ended.code == 1, ended.out
    assert said in ended.out


def test_lint_findings_have_codes_to_switch_off(shell):
    shell.decision("a.yaml")
    text = (shell.folder / "a.yaml").read_text()
    ended = shell("lint", "a.yaml", "--ignore", "negation-passes")
    assert (ended.code, ended.out.count("\n"), ended.err) == (1, 1, "1 scenario: 1 finding, 1 ignored\n")
    assert ended.out.endswith(" [no-examples]\n")
    ended = shell("lint", "a.yaml", "--ignore", "no-examples", "--ignore", "negation-passes")
    assert (ended.code, ended.out, ended.err) == (0, "", "1 scenario: 0 findings, 2 ignored\n")
    shell.write(
        "a.yaml", "x-lint-ignore: no-examples\n" + text.replace(REGEX, f"{REGEX}\n    x-lint-ignore: [no-exmples]")
    )
    ended = shell("lint", "a.yaml")
    assert ended.code == 1
    assert (
        "x-lint-ignore: warning: unknown code `no-exmples`; did you mean `no-examples`? [unknown-lint-code]"
        in ended.out
    )
    assert "[no-examples]" not in ended.out


def test_lint_refuses_to_ignore_what_it_does_not_know(shell):
    shell.decision("a.yaml")
    ended = shell("lint", "a.yaml", "--ignore", "no-example")
    assert ended.code == 2
    assert "did you mean `no-examples`?" in ended.err


def test_help_lists_every_command_and_option_under_a_heading(shell):
    told = shell("--help").out
    assert [line for line in told.splitlines() if line.endswith(":") and line[0] != " "] == [
        "Options:",
        "Write scenarios:",
        "Connect an agent:",
        "Run scenarios:",
        "Read results:",
        "Check judges:",
    ]
    for name in cli.list_commands(click.Context(cli)):
        assert f"\n  {name} " in told
    run = cli.get_command(click.Context(cli), "run")
    told = shell("run", "--help").out
    for option in run.params:
        if isinstance(option, click.Option):
            assert told.count(f" {option.opts[-1]} ") >= 1, option
    assert told.partition("\nOther:\n")[2].split() == ["-h,", "--help", "Show", "this", "message", "and", "exit."]
