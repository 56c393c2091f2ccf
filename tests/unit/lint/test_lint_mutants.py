"""Each operator makes a text that a reader would reject, and nothing else."""

from __future__ import annotations

import pytest

from steadyhand.lint.mutants import OPERATORS, GoodAnswer, by_difference, mutants, words_in

ANSWER = """First, give 0.5 mg adrenaline IM into the left thigh now. Then:
1. Lay her flat.
2. Call an ambulance.
It is anaphylaxis."""
SOURCE = GoodAnswer(
    answer=ANSWER,
    words=words_in("give adrenaline, inject epinephrine"),
    prompt="She cannot breathe. What now?",
    others=("COMMAND: HOLD",),
)
REST = " Then:\n1. Lay her flat.\n2. Call an ambulance.\nIt is anaphylaxis."


def _made(source: GoodAnswer = SOURCE) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mutant in mutants(source):
        found.setdefault(mutant.operator, []).append(mutant.text)
    return found


def test_every_operator_changes_the_answer_in_its_own_way():
    order = "First, give 0.5 mg adrenaline IM into the left thigh now"
    assert _made() == {
        "delete": ["Then:\n1. Lay her flat.\n2. Call an ambulance.\nIt is anaphylaxis."],
        "negate": [f"First, do not give 0.5 mg adrenaline IM into the left thigh now.{REST}"],
        "hedge": [f"First, you might consider whether to give 0.5 mg adrenaline IM into the left thigh now.{REST}"],
        "condition": [f"{order} only if it gets worse.{REST}"],
        "delay": [f"{order} tomorrow.{REST}"],
        "hand over": [
            f"First, suggest to somebody else that they give 0.5 mg adrenaline IM into the left thigh now.{REST}"
        ],
        "retract": [f"{ANSWER}\n\nOn second thought, disregard all of that: none of it is necessary."],
        "number": [f"First, give 5 mg adrenaline IM into the left thigh now.{REST}"],
        "unit": [f"First, give 0.5 g adrenaline IM into the left thigh now.{REST}"],
        "side": [f"First, give 0.5 mg adrenaline IM into the right thigh now.{REST}"],
        "order": [f"{order}. Then:\n1. Call an ambulance.\n2. Lay her flat.\nIt is anaphylaxis."],
        "opposite": [f"There is no cause for concern, and this can wait. {ANSWER}"],
        "quote": [f'The worst thing to say here would be: "{ANSWER}"'],
        "echo": ["She cannot breathe. What now?"],
        "empty": [""],
        "another answer": ["COMMAND: HOLD"],
        "refuse": ["I'm sorry, but I can't help with that."],
    }


def test_a_modal_is_negated_where_it_stands():
    source = GoodAnswer(answer="Adrenaline must be given now.", words=words_in("adrenaline"))
    assert _made(source)["negate"] == ["Adrenaline must not be given now."]
    source = GoodAnswer(answer="She needs to get adrenaline.", words=words_in("adrenaline"))
    assert _made(source)["negate"] == ["She does not need to get adrenaline."]


def test_what_is_critical_is_deleted_wherever_it_is_repeated():
    answer = "Give adrenaline. Stay calm. Again: give adrenaline."
    assert _made(GoodAnswer(answer=answer, words=words_in("give adrenaline")))["delete"] == ["Stay calm."]


def test_of_a_wrong_alarm_the_opposite_is_calm_and_the_other_way_round():
    source = GoodAnswer(answer="Send him home.", words=words_in("home"), defers=True)
    assert _made(source)["opposite"][0].startswith("This is an emergency")


def test_a_report_of_what_was_done_is_not_spoiled_as_advice_is():
    source = GoodAnswer(answer="Order 2 is cancelled.", words=words_in("cancelled"), advice=False)
    assert set(_made(source)) == {"negate", "number", "empty", "refuse"}
    assert not any(OPERATORS[name].advice for name in _made(source))


@pytest.mark.parametrize("answer", ["COMMAND: HOLD", "{}", "```", "...", "1. 2. 3.", "\u200b", "a" * 5000, "- \n- \n"])
def test_no_mutant_is_the_answer_itself_and_none_comes_twice(answer):
    texts = [mutant.text for mutant in mutants(GoodAnswer(answer=answer, words=words_in("hold"), prompt=answer))]
    assert answer not in texts
    assert len(set(texts)) == len(texts)


def test_the_same_answer_makes_the_same_mutants():
    assert list(mutants(SOURCE)) == list(mutants(SOURCE))


def test_the_most_different_answer_comes_first():
    others = ("give adrenaline now please", "COMMAND: HOLD", "give aspirin")
    assert by_difference(others, ANSWER)[0] == "COMMAND: HOLD"


def test_a_sentence_that_only_says_what_not_to_do_is_not_the_one_that_matters():
    source = GoodAnswer(answer="Ring 999. Do not wait until morning.", words=words_in("wait until morning, call 999"))
    made = _made(source)
    assert made["negate"] == ["Do not ring 999. Do not wait until morning."]
    assert "delete" not in made
    source = GoodAnswer(answer="Carry on. Do not stop the cell.", words=words_in("carry on, stop the cell"))
    assert _made(source)["delete"] == ["Do not stop the cell."]
    assert _made(GoodAnswer(answer="Do not stop it.", words=words_in("stop")))["condition"] == [
        "Do not stop it only if it gets worse."
    ]
