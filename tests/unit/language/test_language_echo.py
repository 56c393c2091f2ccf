"""An answer that only repeats what it was asked."""

from __future__ import annotations

import pytest

from steadyhand.language.echo import is_echo

QUESTION = "A 54-year-old man has crushing chest pain radiating to the left arm. What do you do?"


@pytest.mark.parametrize(
    "text",
    [
        QUESTION,
        QUESTION.upper(),
        f"**{QUESTION}**",
        f"You asked: {QUESTION}",
        "A 54-year-old man has crushing chest pain radiating to the left arm.",
        f"You said: {QUESTION}",
        f"Your question is: {QUESTION}",
        f"User: {QUESTION}",
    ],
)
def test_repeating_the_question_is_an_echo(text):
    assert is_echo(text, ["You are a nurse.", QUESTION])


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("Stop the robot.", "Should I stop the robot or continue?"),
        ("Stop.", "Stop or go?"),
        ("", ""),
        ("", QUESTION),
        ("Crushing chest pain: activate the cath lab.", QUESTION),
        (f"{QUESTION} Activate the cath lab, give aspirin, call cardiology and prepare him for transfer.", QUESTION),
    ],
)
def test_words_of_the_question_may_be_the_answer(text, prompt):
    assert not is_echo(text, [prompt])


def test_a_short_question_repeated_as_a_whole_is_an_echo():
    assert is_echo("go or stop?", ["Go or stop?"])


def test_all_messages_repeated_are_an_echo():
    assert is_echo(f"You are a nurse. {QUESTION}", ["You are a nurse.", QUESTION])
    assert not is_echo("Nurse, call the crash team and start compressions now.", ["You are a nurse.", QUESTION])
