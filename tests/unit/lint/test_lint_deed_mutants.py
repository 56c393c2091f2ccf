"""Wrong conduct made from right conduct."""

from __future__ import annotations

from steadyhand.lint.deed_mutants import conduct_mutants
from steadyhand.records.chat import Message
from steadyhand.records.event import ActionTaken, AnyEvent, Observed, Said, ServiceCalled

SAID = Said(at_ms=0.0, message=Message(role="user", content="Refund A-1."))
FOUND = ActionTaken(at_ms=1.0, id="a", name="find_order", params={"number": "A-1"}, duration_ms=1.0)
SEEN = Observed(at_ms=2.0, action_id="a", name="find_order", content={"state": "sent"})
ASKED = ServiceCalled(at_ms=1.5, service="orders", method="find_order", input={"number": "A-1"})
PAID = ActionTaken(at_ms=5.0, id="b", name="refund", params={"amount": 20}, duration_ms=1.0)
DONE = Said(at_ms=9.0, message=Message(role="assistant", content="Done."))
EVENTS: tuple[AnyEvent, ...] = (SAID, FOUND, ASKED, SEEN, PAID, DONE)


def _made() -> dict[str, tuple[AnyEvent, ...]]:
    return {f"{each.operator}: {each.text}": each.events for each in conduct_mutants(EVENTS)}


def test_each_deed_is_dropped_doubled_changed_failed_and_moved():
    assert list(_made()) == [
        "drop: without find_order",
        "double: find_order twice",
        "argument: find_order with number: 'A-1-other'",
        "swallow: find_order failed, and the reply is the same",
        "drop: without refund",
        "double: refund twice",
        "argument: refund with amount: 201",
        "swallow: refund failed, and the reply is the same",
        "reorder: refund before find_order",
        "claim: the reply alone, without anything done",
    ]


def test_a_deed_takes_its_observation_and_its_service_call_with_it():
    made = _made()
    assert made["drop: without find_order"] == (SAID, PAID, DONE)
    assert made["claim: the reply alone, without anything done"] == (SAID, DONE)
    changed = made["argument: find_order with number: 'A-1-other'"]
    assert changed[1].params == {"number": "A-1-other"}  # type: ignore[union-attr]
    assert changed[2].input == {"number": "A-1-other"}  # type: ignore[union-attr]


def test_a_deed_that_is_moved_has_the_other_ones_time():
    moved = _made()["reorder: refund before find_order"]
    assert [event.at_ms for event in moved] == [0.0, 1.0, 5.0, 5.0, 5.0, 9.0]
    assert [getattr(event, "name", "") for event in moved][1:3] == ["refund", "find_order"]


def test_an_error_is_swallowed_in_every_event_of_the_deed():
    failed = _made()["swallow: find_order failed, and the reply is the same"]
    assert failed[1].status == "error"  # type: ignore[union-attr]
    assert failed[2].error == "it failed"  # type: ignore[union-attr]
    assert failed[3].content == {"error": "it failed"}  # type: ignore[union-attr]


def test_without_deeds_there_is_nothing_to_change():
    assert list(conduct_mutants((SAID, DONE))) == []
