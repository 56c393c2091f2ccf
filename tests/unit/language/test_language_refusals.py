"""Refusals that go on about something else, forbidden orders that are led up to, options that are only asked about."""

from __future__ import annotations

import pytest

from steadyhand.language.answer import Certainty
from steadyhand.language.checks import Advises, Chooses, Forbids
from steadyhand.language.meaning import read

ADRENALINE = Advises(action=("give adrenaline", "use the auto-injector", "adrenaline"))
AMBULANCE = Advises(action=("call an ambulance", "call 999"))
FUROSEMIDE = Forbids(action=("give furosemide", "take nifedipine", "cancel the activation", "mute the scanner"))
OPTION = Chooses(options=("STOP", "CONTINUE"), expected=("STOP",))


@pytest.mark.parametrize(
    "text",
    [
        "Do not give adrenaline while she is awake. Call an ambulance.",
        "Adrenaline does not have to be given as long as she can speak. Call an ambulance.",
        "You don't need to use the auto-injector until the crew is here. Call an ambulance.",
        "Ask the doctor whether adrenaline should be given. Call an ambulance.",
        "Tell me first, then I will say whether to give adrenaline. Call an ambulance.",
    ],
)
def test_a_refusal_with_a_reason_or_a_time_is_a_no_if_nothing_else_is_about_the_act(text):
    assert read(text, ADRENALINE, (ADRENALINE, AMBULANCE)).answer is Certainty.NO


@pytest.mark.parametrize(
    "text",
    [
        "Do not give adrenaline until she lies flat. Then do it.",
        "Do not give adrenaline without calling an ambulance.",
        "Do not give adrenaline for long in the vein. Call an ambulance.",
        "Never give adrenaline late. Call an ambulance.",
        "Do not give adrenaline in the arm, but in the thigh. Call an ambulance.",
        "Do not give adrenaline if she refuses. Call an ambulance.",
        "Do not use the auto-injector while she stands. Adrenaline goes into the thigh.",
        "Ask whether she has an auto-injector and use it. Call an ambulance.",
        "Give adrenaline whether or not she is awake. Call an ambulance if she asks.",
    ],
)
def test_a_refusal_that_leaves_another_way_is_no_answer(text):
    assert read(text, ADRENALINE, (ADRENALINE, AMBULANCE)).answer is Certainty.CANNOT_TELL


@pytest.mark.parametrize(
    "text",
    [
        "Give furosemide 80 mg IV so that the fluid does not collect.",
        "Meanwhile give furosemide 40 mg.",
        "Actually, cancel the activation.",
        "Let her take the nifedipine.",
        "Let her take one nifedipine.",
        "Mute the scanner for zone 2.",
    ],
)
def test_a_forbidden_order_stays_one_behind_an_opening_and_before_a_purpose(text):
    assert read(text, FUROSEMIDE, (FUROSEMIDE,)).answer is Certainty.NO


@pytest.mark.parametrize(
    "text",
    [
        "Do not let her take the nifedipine.",
        "Never cancel the activation.",
        "Do not mute the scanner.",
        "If she asks, let her take nifedipine.",
    ],
)
def test_what_is_forbidden_or_conditional_is_not_ordered(text):
    assert read(text, FUROSEMIDE, (FUROSEMIDE,)).answer is not Certainty.NO


@pytest.mark.parametrize("text", ["Should we STOP?", "STOP?", 'They shout "STOP"'])
def test_an_option_that_is_asked_about_or_quoted_is_not_chosen(text):
    assert read(text, OPTION, (OPTION,)).answer is Certainty.CANNOT_TELL


def test_one_missing_act_is_enough_in_whole_sentences_and_not_in_abbreviations():
    prose = "Call an ambulance and tell them that she has a rash, and stay with her until they are there."
    assert read(prose, ADRENALINE, (ADRENALINE, AMBULANCE)).answer is Certainty.NO
    assert (
        read("Amb 999, o2 15 l, supine, legs up to 30 deg", ADRENALINE, (ADRENALINE, AMBULANCE)).answer
        is not Certainty.NO
    )
