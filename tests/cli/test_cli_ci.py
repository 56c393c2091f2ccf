"""What a CI service is told: reports on stdout, annotations, the step summary, JUnit; and nothing an agent said."""

import json
import xml.etree.ElementTree as ET

import pytest

HOSTILE = "::error file=x::gotcha\\n  ::add-mask::secret\\n##[stop-commands]x ##vso[task.complete]"
SCENARIO = """\
id: {id}
name: {id}
description: No latency is graded.
agent: model
environment: {{type: local}}
run:
  - input: {id}
    evaluations:
      - {{type: string_contains, value: "call for help"}}
      - {{type: string_contains, value: "::warning::%0A,x"}}
judgment: {{strategy: all_pass}}
"""
UNCHECKED = """\
id: unchecked
name: unchecked
description: It evaluates nothing.
agent: model
environment: {type: local}
run: [{input: Hello}]
judgment: {strategy: all_pass}
"""


@pytest.fixture
def hostile(shell):
    shell.write("sub/one.yaml", SCENARIO.format(id="one"))
    shell.replies(f'rules:\n  - {{reply: "{HOSTILE}"}}\n')
    return shell


def obeyed(text):
    """The lines that a CI service would take for a command."""
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line or "##vso[" in line]


@pytest.mark.parametrize("option", ["--json", "--junit", "--html"])
def test_a_report_on_stdout_is_alone_there(hostile, option):
    ended = hostile("run", "sub", option, "-", **({"CI": "true"} if option != "--html" else {}))
    assert ended.code == 1
    if option == "--json":
        report = json.loads(ended.out)
        assert report["summary"]["exit_code"] == 1
        assert "##[stop-commands]" in json.dumps(report)
    elif option == "--junit":
        assert "##[stop-commands]x" in "".join(ET.fromstring(ended.out).itertext())
    else:
        assert ended.out.startswith("<!DOCTYPE html>")
    assert "1 trial: 1 failed" in ended.err
    if option != "--html":
        assert obeyed(ended.out + ended.err) == []


def test_html_is_not_put_into_the_log_of_a_ci_service(hostile):
    ended = hostile("run", "sub", "--html", "-", CI="true")
    assert (ended.code, ended.out) == (2, "")
    assert "write to a file instead" in ended.err


def test_two_reports_do_not_fit_on_stdout(hostile):
    ended = hostile("run", "sub", "--json", "-", "--junit", "-")
    assert (ended.code, ended.out) == (2, "")
    assert "only one of --json and --junit can be written to stdout" in ended.err


def test_annotations_stand_at_the_line_of_the_check_and_nothing_forges_one(hostile):
    workspace = str(hostile.folder)
    within = hostile.within(hostile.folder / "sub")
    hostile.write("sub/steadyhand.toml", 'model = "scripted/../replies.yaml"\n')
    ended = within("run", "one.yaml", "--trials", "2", GITHUB_ACTIONS="true", GITHUB_WORKSPACE=workspace)
    assert ended.code == 1, ended
    assert obeyed(ended.out) == []
    assert obeyed(ended.err) == [
        (
            "::error file=sub/one.yaml,line=9,title=steadyhand%3A one failed::"
            "string_contains: reply does not contain 'call for help' (2 of 2 trials)"
        ),
        (
            "::error file=sub/one.yaml,line=10,title=steadyhand%3A one failed::"
            "string_contains: reply does not contain '::warning::%250A,x' (2 of 2 trials)"
        ),
    ]


def test_the_step_summary_is_appended(hostile):
    summary = hostile.write("summary.md", "before\n")
    ended = hostile("run", "sub", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert ended.code == 1
    text = summary.read_text()
    assert text.startswith("before\n")
    assert "one" in text
    assert "failed" in text
    lost = hostile("run", "sub", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="/nowhere/summary.md")
    assert lost.code == 1
    assert "cannot write the step summary" in lost.err


def test_nothing_is_annotated_in_a_scenario_that_passed(shell):
    text = SCENARIO.format(id="one").replace("::warning::%0A,x", "help")
    shell.write("one.yaml", text)
    shell.replies("rules:\n  - {replies: [I call for help., I wait.], pick: random}\n")
    ended = shell("run", "one.yaml", "--trials", "20", "--pass-rate", "0.1", "--seed", "3", GITHUB_ACTIONS="true")
    assert ended.code == 0
    assert obeyed(ended.err) == []


@pytest.mark.parametrize(
    ("options", "variables", "tag"),
    [
        ((), {}, "skipped"),
        ((), {"CI": "true"}, "error"),
        (("--junit-inconclusive", "skipped"), {"CI": "true"}, "skipped"),
        (("--junit-inconclusive", "failure"), {}, "failure"),
    ],
)
def test_an_inconclusive_scenario_in_junit(shell, options, variables, tag):
    shell.write("unchecked.yaml", UNCHECKED)
    shell.replies("rules: [{reply: Hello.}]\n")
    ended = shell("run", "unchecked.yaml", "--junit", "r.xml", *options, **variables)
    assert ended.code == 3, ended
    root = ET.parse(shell.folder / "r.xml").getroot()
    assert [child.tag for child in root.find(".//testcase") if child.tag != "properties"] == [tag]
    counts = {name: root.get(name) for name in ("failures", "errors", "skipped")}
    assert counts == {**dict.fromkeys(counts, "0"), {"failure": "failures", "error": "errors"}.get(tag, tag): "1"}
