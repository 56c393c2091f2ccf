"""`--faults`: a scenario for each fault of each mock, and the outcomes apart in every output."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults"
KINDS = ["timeout", "error", "empty", "truncated", "stale", "slow", "twice"]


@pytest.fixture
def project(batch):
    batch.write("order.scenario.yaml", (EXAMPLE / "order.scenario.yaml").read_text())
    batch.write("agents.py", (EXAMPLE / "agents.py").read_text())
    return batch


def run(project, agent, *more):
    return project(
        "run", "order.scenario.yaml", "--faults", "--agent", f"python:agents.py:{agent}", "--no-progress", *more
    )


def outcomes(project):
    found = json.loads((project.folder / "r.json").read_text())
    return {each["fault"].removeprefix("shop.order "): each["outcomes"] for each in found["faults"]}


def test_an_agent_that_says_what_it_could_not_find_out(project):
    ended = run(project, "honest", "--json", "r.json", "--html", "r.html")
    assert ended.code == 3, ended
    told, recovered, cannot_tell = {"told_the_user": 1}, {"recovered": 1}, {"cannot_tell": 1}
    assert outcomes(project) == {
        "timeout": told, "error": told, "empty": told, "truncated": told,
        "stale": cannot_tell, "slow": recovered, "twice": told,
    }  # fmt: skip
    markdown = project("report", "last", "--markdown", "-").out
    for shown in (ended.out, markdown, (project.folder / "r.html").read_text()):
        assert "When a service goes wrong" in shown
        assert "shop.order truncated" in shown


def test_an_agent_that_invents_an_answer_fails_with_the_value(project):
    ended = run(project, "inventive", "--json", "r.json", "-k", "timeout")
    assert ended.code == 1
    original, trial = json.loads((project.folder / "r.json").read_text())["trials"]
    assert (original["verdict"], original["fault"]) == ("passed", None)
    assert (trial["verdict"], trial["fault"]["conduct"]) == ("failed", "made_it_up")
    assert trial["fault"]["evidence"] == "2026-06-17"
    assert trial["reason"].startswith("made it up: '2026-06-17' is in the reply")


def test_what_would_run_and_what_does_without_the_option(project):
    listed = json.loads(project("list", "order.scenario.yaml", "--faults", "--format", "json").out)
    assert [each["id"] for each in listed] == ["order-faults", *(f"order-faults[shop.order {each}]" for each in KINDS)]
    assert len(json.loads(project("list", "order.scenario.yaml", "--format", "json").out)) == 1


def test_a_rejudged_run_keeps_the_outcomes(project):
    run(project, "inventive", "--json", "first.json", "-k", "error")
    ended = project("rejudge", "last", "--no-progress", "--json", "r.json")
    assert ended.code == 1, ended
    assert outcomes(project) == {"error": {"made_it_up": 1}}


def test_what_cannot_be_combined(project):
    ended = run(project, "honest", "--live")
    assert ended.code == 2
    assert "--live ignores mocks, and so their faults" in ended.err
