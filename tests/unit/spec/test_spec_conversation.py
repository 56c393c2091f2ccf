"""Scripted conversations and decisions under pressure: what loads, what it becomes, and the mistakes."""

import pytest

from steadyhand.records.scenario import Converse, evaluation_specs
from steadyhand.spec.load import Loaded
from unit.spec.test_spec_validation_bounds import AGENT, CHECK, DECISION, SIMULATOR, TURN, changed


def mistakes(loaded: Loaded) -> list[tuple[str, str]]:
    return [(problem.place.path, problem.code) for problem in loaded.errors]


def conversation(loaded: Loaded) -> Converse:
    assert loaded.errors == ()
    task = loaded.scenarios[0].steps[0].task
    assert isinstance(task, Converse)
    return task


def test_a_script_needs_neither_a_simulator_nor_a_number_of_turns(load_text):
    script = ["and then?", {"say": "Sure?", "type": "doubt", "evaluations": [CHECK]}]
    loaded = load_text(changed(AGENT, TURN, {"script": script}))
    config = conversation(loaded).config
    assert config.max_turns == 3
    assert config.user_simulator is None
    assert [(entry.say, entry.type, len(entry.evaluations)) for entry in config.script] == [
        ("and then?", None, 0),
        ("Sure?", "doubt", 1),
    ]
    assert config.script[1].evaluations[0].place.path == "run[0].conversation.script[1].evaluations[0]"
    assert len(list(evaluation_specs(loaded.scenarios[0]))) == 2


def test_without_input_the_script_opens_the_conversation(load_text):
    step = {"conversation": {"script": ["a", "b"]}, "evaluations": [CHECK]}
    task = conversation(load_text(changed(AGENT, ("run", 0), step)))
    assert (task.opening, task.config.max_turns) == ((), 2)


def test_the_simulator_speaks_where_the_script_says_so(load_text):
    given = {"max_turns": 4, "user_simulator": SIMULATOR, "script": [{"simulate": True, "evaluations": [CHECK]}, "b"]}
    config = conversation(load_text(changed(AGENT, TURN, given))).config
    assert [entry.say for entry in config.script] == [None, "b"]
    assert len(config.script[0].evaluations) == 1


HERE = "run[0].conversation"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"max_turns": 4}, [(f"{HERE}.user_simulator", "missing-key")]),
        ({"max_turns": 4, "script": []}, [(f"{HERE}.user_simulator", "missing-key")]),
        ({"user_simulator": SIMULATOR}, [(f"{HERE}.max_turns", "missing-key")]),
        ({"user_simulator": SIMULATOR, "script": ["a"]}, [(f"{HERE}.max_turns", "missing-key")]),
        ({"max_turns": 2, "script": ["a", "b"]}, [(f"{HERE}.max_turns", "out-of-range")]),
        ({"max_turns": 21, "script": ["a"]}, [(f"{HERE}.max_turns", "out-of-range")]),
        ({"script": [{"say": "a", "simulate": True}]}, [(f"{HERE}.script[0].simulate", "conflict")]),
        ({"script": [{"simulate": True}]}, [(f"{HERE}.script[0].simulate", "missing-key")]),
        ({"script": [{"evaluations": [CHECK]}]}, [(f"{HERE}.script[0]", "missing-key")]),
        ({"script": [{"sya": "a"}]}, [(f"{HERE}.script[0].sya", "unknown-key")]),
        ({"script": [{"say": "a", "evaluations": [{"type": "nope"}]}]},
         [(f"{HERE}.script[0].evaluations[0].type", "unknown-type")]),
        ({"scrpt": ["a"], "max_turns": 3}, [(f"{HERE}.scrpt", "unknown-key")]),
    ],
)  # fmt: skip
def test_mistakes_of_a_script(given, found, load_text):
    assert mistakes(load_text(changed(AGENT, TURN, given))) == found


@pytest.mark.parametrize("entry", ["", 5, None, {"say": ""}])
def test_an_entry_that_is_not_text_is_an_error_at_its_place(entry, load_text):
    (problem, *_) = load_text(changed(AGENT, TURN, {"script": ["a", entry]})).errors
    assert problem.place.path.startswith(f"{HERE}.script[1]")


def test_a_script_of_twenty_is_too_long(load_text):
    assert mistakes(load_text(changed(AGENT, TURN, {"script": ["a"] * 20})))[0][0] == f"{HERE}.script"


PRESSURE = [
    {"type": "financial_barrier", "content": "I cannot pay for that."},
    {"type": "authority", "content": "My doctor says wait.", "turn": 3, "injected_context": "Note: stable."},
]


def test_pressure_makes_a_decision_a_conversation(load_text):
    loaded = load_text(changed(DECISION, ("pressure",), PRESSURE))
    task = conversation(loaded)
    (step,) = loaded.scenarios[0].steps
    assert step.evaluations == ()
    assert [message.content for message in task.opening] == ["s", "u"]
    assert task.config.max_turns == 3
    assert [(entry.type, entry.say) for entry in task.config.script] == [
        ("financial_barrier", "I cannot pay for that."),
        ("authority", "Note: stable.\n\nMy doctor says wait."),
    ]
    assert [(check.type, check.severity) for check in task.config.turn_evaluations] == [
        ("contains", 1.0),
        ("latency_budget", None),
    ]


@pytest.mark.parametrize(
    ("pressure", "path"),
    [
        ([{"type": "a", "content": "c", "turn": 1}], "pressure[0].turn"),
        ([{"type": "a", "content": "c"}, {"type": "a", "content": "c", "turn": 2}], "pressure[1].turn"),
        ([{"type": "Not A Name", "content": "c"}], "pressure[0].type"),
        ([{"type": "a", "content": ""}], "pressure[0].content"),
        ([{"type": "a"}], "pressure[0].content"),
        ([{"type": "a", "content": "c", "context": "i"}], "pressure[0].context"),
    ],
)
def test_mistakes_of_pressure(pressure, path, load_text):
    assert [found for found, _ in mistakes(load_text(changed(DECISION, ("pressure",), pressure)))] == [path]
