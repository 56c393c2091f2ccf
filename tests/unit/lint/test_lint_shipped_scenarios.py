"""The shipped scenarios have the same shape, and lint finds nothing. What they accept: `unit/test_library.py`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import steadyhand
from steadyhand.lint.patterns import READABLE
from steadyhand.lint.scenario import lint_scenario
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.scenario import Ask, Constraint, ExampleAnswers, Scenario, Step

CONFIGS = Path(steadyhand.__file__).parent / "configs"
FILES = sorted((CONFIGS / "scenarios").glob("*/*.yaml"))
SCHEMA_LINE = "# yaml-language-server: $schema=../../../../../schemas/decision.schema.json"

every_case = pytest.mark.parametrize("name", [path.stem for path in FILES])


@cache
def cases() -> dict[str, Any]:
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}


def record(case: dict[str, Any], path: str) -> Scenario:
    place = Place(file=path)
    checks = tuple(
        EvaluationSpec(
            type=invariant["check_type"],
            place=place,
            name=invariant["name"],
            severity=invariant["severity"],
            params={key: value for key, value in invariant.items() if key not in ("name", "description", "severity")},
        )
        for invariant in case["safety_invariants"]
    )
    messages = tuple(Message(role=message["role"], content=message["content"]) for message in case["messages"])
    step = Step(index=0, name=case["name"], place=place, task=Ask(messages=messages), evaluations=checks)
    return Scenario(
        id=case["id"],
        name=case["name"],
        description=case["description"],
        place=place,
        digest="0",
        steps=(step,),
        constraint=Constraint(**case["constraint"]),
        expected_action=case["expected_action"],
        examples=ExampleAnswers(good=tuple(case["examples"]["good"]), bad=tuple(case["examples"]["bad"])),
    )


def test_there_are_twelve_clinical_and_eight_robotic_scenarios_numbered_in_a_row() -> None:
    ids = sorted(case["id"] for case in cases().values())
    assert ids == [f"SCN-C-{n:03}" for n in range(1, 13)] + [f"SCN-R-{n:03}" for n in range(1, 9)]
    folders = {path.stem: path.parent.name for path in FILES}
    assert folders == {name: case["domain"] for name, case in cases().items()}


def test_some_are_cases_where_the_alarm_is_the_mistake() -> None:
    deferring = [case["domain"] for case in cases().values() if case.get("expects") == "defer"]
    assert deferring.count("clinical") >= 3
    assert deferring.count("robotic") >= 2


@every_case
def test_shape(name: str) -> None:
    case = cases()[name]
    text = next(path for path in FILES if path.stem == name).read_text(encoding="utf-8")
    assert text.splitlines()[0] == SCHEMA_LINE
    budget = case["latency_budget"]
    assert 0 < budget["target_ms"] < budget["acceptable_ms"] < budget["critical_ms"]
    severities = [invariant["severity"] for invariant in case["safety_invariants"]]
    assert 2 <= len(severities) <= 8
    assert max(severities) == 1.0
    assert min(severities) > 0
    assert case["rubric"] == f"rubric_{case['domain']}"
    assert case["constraint"]["time_pressure"] in {"immediate", "urgent", "minutes", "hours"}
    wanted = {"esi_level", "time_to_harm_hours"} if case["domain"] == "clinical" else {"standard"}
    assert wanted <= set(case["metadata"])
    assert case["tags"]


@every_case
def test_every_answer_is_read_to_its_end_and_every_check_can_be_asked(name: str) -> None:
    invariants = cases()[name]["safety_invariants"]
    assert [invariant["check_type"] for invariant in invariants].count("nothing_else") == 1
    assert [invariant["name"] for invariant in invariants if not invariant.get("judge_criterion")] == []


@every_case
def test_a_person_can_read_every_pattern(name: str) -> None:
    patterns = [invariant.get("pattern", "") for invariant in cases()[name]["safety_invariants"]]
    assert [pattern for pattern in patterns if len(pattern) > READABLE] == []


@every_case
def test_there_are_examples_of_both_kinds(name: str) -> None:
    examples = cases()[name]["examples"]
    assert min(len(set(examples["good"])), len(set(examples["bad"]))) >= 2


@every_case
def test_lint_finds_nothing(name: str) -> None:
    assert [str(problem) for problem in lint_scenario(record(cases()[name], name))] == []


def test_the_folder_at_the_root_is_the_shipped_one() -> None:
    root = Path(__file__).parents[3] / "configs"
    assert root.is_symlink()
    assert root.resolve() == CONFIGS.resolve()


@pytest.mark.parametrize("name", ["rubric_clinical", "rubric_robotic"])
def test_rubrics(name: str) -> None:
    rubric = yaml.safe_load((CONFIGS / "rubrics" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert rubric["name"] == name
    weights = {dimension["name"]: dimension["weight"] for dimension in rubric["dimensions"]}
    assert weights == {
        "safety": 0.40,
        "accuracy": 0.25,
        "completeness": 0.15,
        "timeliness": 0.10,
        "specificity": 0.10,
    }
    for dimension in rubric["dimensions"]:
        assert list(dimension["anchors"]) == ["1.0", "0.75", "0.5", "0.25", "0.0"]
        assert len(set(dimension["anchors"].values())) == 5
