"""What is set up and never used: each is found, and what may be used is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from steadyhand.lint.unused import lint_unused
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.scenario import (
    Ask,
    CaseOrigin,
    ConversationConfig,
    Converse,
    Mock,
    MockWhen,
    Scenario,
    ScriptedTurn,
    Setup,
    Step,
    UserSimulatorConfig,
)

FILE = Place(file="a.yaml", line=1)
ANY = Mock(method="get", place=Place(file="a.yaml", line=5), service="orders")
HELLO = (Message(role="user", content="Hello"),)
SAYS = ScriptedTurn(say="More")
USER = UserSimulatorConfig(persona="p", objective="o")


def found(*mocks: Mock, task: Converse | None = None) -> list[tuple[int, str]]:
    steps = () if task is None else (Step(index=0, name="s", place=FILE, task=task),)
    scenario = Scenario(id="s", name="s", description="", place=FILE, digest="0", steps=steps, setup=Setup(mocks=mocks))
    return [(problem.place.line, problem.code) for problem in lint_unused(scenario)]


@pytest.mark.parametrize(
    ("value", "case", "is_found"),
    [
        ("{{ finding }}", False, True),
        ("no {{age|raw}}", False, True),
        ("{{ finding }}", True, False),
        ("${{ secrets.KEY }}", False, False),
        ("{{", False, False),
        ('{"a": {"b": {}}}', False, False),
    ],
)
def test_a_placeholder_in_a_check_has_a_value_only_with_cases(value: str, case: bool, is_found: bool) -> None:
    spec = EvaluationSpec(type="not_contains", place=FILE, params={"value": value})
    task = Ask(messages=HELLO)
    scenario = Scenario(
        id="s",
        name="s",
        description="",
        place=FILE,
        digest="0",
        steps=(Step(index=0, name="s", place=FILE, task=task, evaluations=(spec,)),),
        case=CaseOrigin(name="a", base_id="s", place=FILE) if case else None,
    )
    assert [problem.code for problem in lint_unused(scenario)] == (["unfilled-placeholder"] if is_found else [])


@pytest.mark.parametrize(
    ("second", "is_found"),
    [
        (ANY, True),
        (replace(ANY, response=5), True),
        (replace(ANY, method="put"), False),
        (replace(ANY, service="invoices"), False),
        (replace(ANY, service=None), False),
        (replace(ANY, when=MockWhen(args=(1,))), False),
    ],
)
def test_a_mock_is_unused_if_an_earlier_one_always_answers(second: Mock, is_found: bool) -> None:
    assert found(ANY, replace(second, place=Place(file="a.yaml", line=9))) == ([(9, "unused-mock")] if is_found else [])


def test_a_mock_for_every_service_answers_for_each() -> None:
    assert found(replace(ANY, service=None), ANY) == [(5, "unused-mock")]
    same = replace(ANY, when=MockWhen(input={"id": 1}))
    assert found(same, same, ANY) == [(5, "unused-mock")]


@pytest.mark.parametrize(
    ("turns", "script", "is_found"),
    [
        (2, (SAYS,), True),
        (3, (SAYS,), False),
        (3, (SAYS, SAYS), True),
        (3, (SAYS, ScriptedTurn()), False),
        (2, (), False),
    ],
)
def test_a_persona_is_unused_if_the_script_has_every_line(
    turns: int, script: tuple[ScriptedTurn, ...], is_found: bool
) -> None:
    config = ConversationConfig(max_turns=turns, script=script, user_simulator=USER)
    assert found(task=Converse(opening=HELLO, config=config)) == ([(1, "unused-persona")] if is_found else [])
    assert found(task=Converse(opening=HELLO, config=replace(config, user_simulator=None))) == []
