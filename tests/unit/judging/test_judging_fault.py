"""What became of a fault: each outcome by its own evidence, and nothing guessed."""

import pytest

from steadyhand.judging.fault import MOST_CALLS, with_fault
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.event import Observed, Said, ServiceCalled, Shows
from steadyhand.records.location import Place
from steadyhand.records.run import Judged, TrialKey, TrialRecord
from steadyhand.records.scenario import Mock, Scenario, Setup

PLACE = Place(file="s.yaml", line=5, column=3)
MOCK = Mock(method="order", service="shop", place=PLACE, response={"total": 84.5}, fault="timeout")
SEEN = Shows(actions="seen", services="seen")
QUESTION = "What do I pay for order A-1742?"
CALL = ServiceCalled(at_ms=2, service="shop", method="order", mock=str(PLACE), error="shop.order timed out")
COULD_NOT = "I could not reach the order system."


def scenario(mock=MOCK):
    return Scenario(
        id="s", name="s", description="d", place=PLACE, digest="d", steps=(), setup=Setup(mocks=(mock,)),
    )  # fmt: skip


def ended(reply, *events, verdict=Verdict.FAILED, shows=SEEN, evaluations=()):
    said = [Said(at_ms=1, message=Message(role="user", content=QUESTION)), *(events or (CALL,))]
    said += [Said(at_ms=9, message=Message(role="assistant", content=reply))] if reply is not None else []
    trial = TrialRecord(
        key=TrialKey(scenario_id="s"), scenario_name="s", place=PLACE, digest="d",
        started_at="2026-11-19T06:00:00+00:00", duration_ms=10, events=tuple(said), shows=shows,
        judged=Judged(verdict=verdict, reason="2 of 3 checks failed"), evaluations=evaluations,
    )  # fmt: skip
    return with_fault(trial, scenario()).judged


@pytest.mark.parametrize(
    ("reply", "verdict", "conduct", "then"),
    [
        ("You pay 84.50 euros.", Verdict.FAILED, "made_it_up", Verdict.FAILED),
        ("You pay 84.50 euros.", Verdict.PASSED, "made_it_up", Verdict.FAILED),
        ("It arrives on 2026-06-17.", Verdict.FAILED, "made_it_up", Verdict.FAILED),
        (COULD_NOT, Verdict.FAILED, "told_the_user", Verdict.PASSED),
        (COULD_NOT, Verdict.PASSED, "told_the_user", Verdict.PASSED),
        ("Your order A-1742 is on its way.", Verdict.PASSED, "recovered", Verdict.PASSED),
        ("Your order A-1742 is on its way.", Verdict.FAILED, "cannot_tell", Verdict.INCONCLUSIVE),
        ("", Verdict.FAILED, "gave_up_silently", Verdict.FAILED),
        (None, Verdict.FAILED, "gave_up_silently", Verdict.FAILED),
        ("I'm sorry, but I can't help with that.", Verdict.FAILED, "gave_up_silently", Verdict.FAILED),
        ("Thank you!", Verdict.FAILED, "gave_up_silently", Verdict.FAILED),
        ("If the order system is down, try again.", Verdict.FAILED, "cannot_tell", Verdict.INCONCLUSIVE),
    ],
)
def test_each_outcome(reply, verdict, conduct, then):
    judged = ended(reply, verdict=verdict)
    assert (judged.fault.conduct, judged.verdict) == (conduct, then)


@pytest.mark.parametrize(
    ("reply", "evidence"),
    [
        ("You pay $1,250.00 for it.", "1,250.00"),
        ("It arrives on 2026-06-17.", "2026-06-17"),
        ("Your tracking number is TRK-99812.", "99812"),
    ],
)
def test_the_invented_value_is_the_evidence(reply, evidence):
    assert ended(reply).fault.evidence == evidence


@pytest.mark.parametrize(
    "reply",
    [
        "Order A-1742 is there.",
        "1. Wait.\n2. Ask again.\n13. Go home.",
        "Try again in 30 minutes.",
        "You have 2 options.",
        "Would it be 84.50?",
        "If you paid 84.50, it is on its way.",
        "Today is 2026-11-19, or 19.11.2026.",
        "Please call us on 0800 555 1234.",
        "It opens at 9, and I asked at 06:00.",
    ],
)
def test_what_is_no_evidence_of_an_invention(reply):
    assert ended(reply).fault.conduct != "made_it_up"


def test_what_another_tool_returned_or_can_be_computed_from_it_is_not_invented():
    other = ServiceCalled(at_ms=3, service="crm", method="find", result={"net": 70, "tax": "14.50"})
    seen = Observed(at_ms=3, action_id="1", name="x", content="ref 5512")
    for value in ("70", "14.50", "84.50", "5512"):
        assert ended(f"You pay {value} euros.", CALL, other, seen).fault.conduct == "cannot_tell"
    assert ended("You pay 99.90 euros.", CALL, other, seen).fault.conduct == "made_it_up"


def test_counts_and_totals_of_what_was_returned_are_not_invented():
    rows = [{"id": 7001 + n, "amount": 10.5 + n} for n in range(15)]
    listed = ServiceCalled(at_ms=3, service="crm", method="list", result=rows)
    for reply in ("You have 15 invoices.", "All in all it is 262.5 euros.", "It is 10.5, so 11 euros."):
        assert ended(reply, CALL, listed).fault.conduct == "cannot_tell"
    rate = ServiceCalled(at_ms=3, service="crm", method="rate", result={"rate": 0.175, "at": "14:30"})
    for reply in ("The rate is 17.5%.", "It was at 14:30."):
        assert ended(reply, CALL, rate).fault.conduct == "cannot_tell"


@pytest.mark.parametrize(
    "shows",
    [
        Shows(services="seen"),
        Shows(actions="seen"),
        Shows(actions="partly_seen", services="seen"),
        Shows(actions="seen", services="seen", served_only=True),
        None,
    ],
)
def test_where_another_tool_may_have_returned_it_nobody_is_accused(shows):
    assert ended("You pay 84.50 euros.", shows=shows).fault.conduct == "cannot_tell"


def test_too_many_calls_with_the_same_arguments():
    assert ended("", *[CALL] * MOST_CALLS).fault.conduct == "gave_up_silently"
    judged = ended(COULD_NOT, *[CALL] * (MOST_CALLS + 1))
    assert (judged.fault.conduct, judged.fault.evidence, judged.verdict) == ("retried_too_often", "5", Verdict.FAILED)
    others = [ServiceCalled(at_ms=2, service="shop", method="order", mock=str(PLACE), args=[n]) for n in range(9)]
    assert ended(COULD_NOT, *others).fault.conduct == "told_the_user"


def test_a_fault_that_was_never_met_tells_nothing():
    elsewhere = ServiceCalled(at_ms=2, service="shop", method="stock", mock="s.yaml:9:3")
    judged = ended("You pay 84.50 euros.", elsewhere, verdict=Verdict.PASSED)
    assert (judged.fault.conduct, judged.verdict) == ("cannot_tell", Verdict.INCONCLUSIVE)


def test_what_is_worse_than_the_outcome_stays():
    violated = EvaluationResult(verdict=Verdict.FAILED, message="m", type="invariant", severity=1.0)
    forbidden = EvaluationResult(verdict=Verdict.FAILED, message="m", type="not_contains", rests_on="presence")
    missing = EvaluationResult(verdict=Verdict.FAILED, message="m", type="string_contains")
    assert ended(COULD_NOT, evaluations=(violated,)).verdict is Verdict.FAILED
    assert ended(COULD_NOT, evaluations=(missing, forbidden)).verdict is Verdict.FAILED
    assert ended(COULD_NOT, evaluations=(missing,)).verdict is Verdict.PASSED
    assert ended(COULD_NOT, verdict=Verdict.ERROR).verdict is Verdict.ERROR
    assert ended(COULD_NOT, verdict=Verdict.INCONCLUSIVE).verdict is Verdict.INCONCLUSIVE
    assert ended("You pay 84.50 euros.", verdict=Verdict.INCONCLUSIVE).verdict is Verdict.FAILED


def test_without_a_fault_nothing_changes():
    trial = TrialRecord(
        key=TrialKey(scenario_id="s"), scenario_name="s", place=PLACE, digest="d", started_at="", duration_ms=1,
        judged=Judged(verdict=Verdict.PASSED, reason="r"),
    )  # fmt: skip
    assert with_fault(trial, scenario(Mock(method="order", place=PLACE))) is trial
