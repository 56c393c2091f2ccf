"""What was reported several times for the same trial: actions are counted once."""

from __future__ import annotations

import pytest

from steadyhand.records.event import ActionTaken, Observed
from steadyhand.records.trajectory import trajectory_of, without_repeated_actions


def did(id_: str, source: str = "reported", *, agent: str | None = None, turn: int = 1, number: str = "A-1"):
    return ActionTaken(
        at_ms=0,
        turn=turn,
        id=id_,
        name="find",
        params={"number": number},
        agent=agent,
        traced=source == "traced",
        witnessed=source == "witnessed",
    )


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([did("r"), did("s")], ["r", "s"]),
        ([did("w", "witnessed"), did("r")], ["w"]),
        ([did("r"), did("w", "witnessed")], ["w"]),
        ([did("t", "traced"), did("r")], ["t"]),
        ([did("w", "witnessed"), did("t", "traced"), did("r")], ["w"]),
        ([did("w", "witnessed"), did("r"), did("s")], ["w", "s"]),
        ([did("w", "witnessed"), did("x", "witnessed"), did("r")], ["w", "x"]),
        (
            [did("w", "witnessed"), did("t", "traced"), did("u", "traced"), did("r"), did("s"), did("q")],
            ["w", "u", "q"],
        ),
        ([did("w", "witnessed"), did("r", turn=2)], ["w", "r"]),
        ([did("w", "witnessed"), did("r", number="A-2")], ["w", "r"]),
    ],
)
def test_an_action_with_several_sources_counts_as_often_as_the_source_that_has_most(events, kept):
    assert [event.id for event in without_repeated_actions(events)] == kept


def test_whose_it_is_may_be_known_from_another():
    told = [
        did("w", "witnessed"),
        Observed(at_ms=1, action_id="w", name="find", content="seen"),
        did("r", agent="Desk"),
        Observed(at_ms=1, action_id="r", name="find", content="told"),
    ]
    assert [(step.type, step.agent, step.content) for step in trajectory_of(told)] == [
        ("action", "Desk", None),
        ("observation", "Desk", "seen"),
    ]
