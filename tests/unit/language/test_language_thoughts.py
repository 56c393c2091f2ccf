"""Thoughts and answers are told apart, whatever the marks and however the text arrives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.language.thoughts import DEFAULT_TAGS, Marks, Split, answer_of, marks_of, tags_of

USUAL = Marks(DEFAULT_TAGS)
FINAL = "<|start|>assistant<|channel|>final<|message|>"


def split(text, marks=USUAL):
    found = marks.split(text)
    return ((), text) if found is None else (found.thoughts, found.answer)


@pytest.mark.parametrize("tag", ["think", "thinking", "thought", "reasoning", "seed:think", "THINK", "Reasoning"])
def test_a_thought_that_opens_the_text_is_not_the_answer(tag):
    assert split(f"\n <{tag}>Is it?\n</{tag}>\n\nIt is.") == (("Is it?\n",), "It is.")
    assert split(f"<{tag}>Is it? I think") == (("Is it? I think",), "")
    assert split(f"Is it?\n</{tag}>\nIt is.") == (("Is it?\n",), "It is.")
    assert split(f'<{tag} effort="high">Is it?</{tag} >It is.') == (("Is it?",), "It is.")


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("<think>a</think> <reasoning>b</reasoning>\nc", ("a", "b"), "c"),
        ("<think>a</thinking>b", ("a",), "b"),
        ("<think>a<think>b</think>c</think>d", ("a<think>b", "c"), "d"),
        ("a</think><think>b</think>c", ("a", "b"), "c"),
        ("a</think>b</think>c", ("a</think>b",), "c"),
        ("\u200b\ufeff<think>a</think>b", ("a",), "b"),
        ("<think></think>", ("",), ""),
        ("<think>`</think>` is how it ends</think>Yes.", ("`", "` is how it ends"), "Yes."),
        ("so ```\nx = 1\n</think>\nAnswer.", ("so ```\nx = 1\n",), "Answer."),
        ("an `unclosed\n</think>\nAnswer with `code`.", ("an `unclosed\n",), "Answer with `code`."),
        ("[THINK]a[/THINK]b", ("a",), "b"),
        ("\u25c1think\u25b7a\u25c1/think\u25b7b", ("a",), "b"),
        ("<|begin_of_thought|>a<|end_of_thought|>\n\nb", ("a",), "b"),
        ("<|START_THINKING|>a<|END_THINKING|>b", ("a",), "b"),
        ("<|inner_prefix|>a<|inner_suffix|>b", ("a",), "b"),
        ("<|channel>thought\na<channel|>b", ("\na",), "b"),
        ("<unused94>thought\na<unused95>b", ("\na",), "b"),
        ("<longcat_think>a</longcat_think>b", ("a",), "b"),
        ("<scratchpad>a</scratchpad>b", ("a",), "b"),
    ],
)
def test_several_thoughts_and_odd_ends(text, thoughts, answer):
    assert split(text) == (thoughts, answer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yes.",
        "3 < 4 and <b>bold</b></b>",
        "Wrap it in <think> and </think>, as in <think>x</think>.",
        "The mark is `</think>`.",
        "The mark is ``a `</think>` b``.",
        "```\n</think>\n```\nThat is how it ends.",
        "~~~html\n<think>\n</think>\n</think>\n~~~",
        "`<think>` opens it.",
        "```\n<think>x</think>\n```",
        "<thinker>x</thinker>",
        "< think>x",
        "<answer>x</answer>",
        "> <think>quoted</think>",
    ],
)
def test_an_answer_that_mentions_marks_keeps_its_text(text):
    assert USUAL.split(text) is None
    assert answer_of(text) == text


def test_the_final_channel_of_harmony_is_the_answer():
    text = f"<|channel|>analysis<|message|>Is it?<|end|>{FINAL}It is.<|return|>"
    assert split(text) == (("Is it?",), "It is.")
    assert split("<|channel|>analysis<|message|>Is it?") == (("Is it?",), "")
    assert split("<|channel|>analysis") == (("",), "")
    assert split(f"Is it?{FINAL}It is.") == (("Is it?",), "It is.")
    assert split("<|channel|>final<|message|>It is.") == ((), "It is.")
    assert split("<|channel|>final<|message|><think>a</think>b<|return|>") == (("a",), "b")
    two = f"{FINAL}One.<|end|><|start|>assistant<|channel|>analysis<|message|>Is it?<|end|>{FINAL}Two."
    assert split(two) == (("Is it?",), "One.\n\nTwo.")
    call = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>"
    assert split(call) == (("{}",), "")
    assert split("Harmony ends with `<|return|>`.") == ((), "Harmony ends with `<|return|>`.")


def test_which_marks_count_is_a_setting():
    assert split("<think>a</think>b", Marks(("reasoning",))) == ((), "<think>a</think>b")
    assert split("[THINK]a[/THINK]b", Marks(("[THINK] [/THINK]",))) == (("a",), "b")
    assert split("a[/THINK]b", Marks(("[THINK] [/THINK]",))) == (("a",), "b")
    assert split("<seed:think>a</seed:think>b", Marks(("seed:think",))) == (("a",), "b")
    assert split("<|channel|>analysis<|message|>a", Marks(("think",))) == ((), "<|channel|>analysis<|message|>a")
    assert split("<think>a</think>b", Marks(("harmony",))) == ((), "<think>a</think>b")
    assert marks_of(tags_of("none")) is None
    assert tags_of("think") == ("think",)
    assert tags_of(["think", "harmony"]) == ("think", "harmony")


@pytest.mark.parametrize(
    ("setting", "told"),
    [([], "no tags"), (["none", "think"], "stands alone"), ("<think>", "not a tag"), (["a b c"], "not a tag")],
)
def test_a_wrong_setting_is_refused(setting, told):
    with pytest.raises(ValueError, match=told):
        tags_of(setting)


def test_the_beginning_of_a_mark_is_no_answer_yet():
    whole = "<think>Is it?</think>It is."
    assert [USUAL.answer(whole[:end]) for end in range(len(whole) + 1)] == [
        *[""] * (len("<think>Is it?</think>") + 1),
        *("I", "It", "It ", "It i", "It is", "It is."),
    ]
    assert USUAL.answer("<b") == "<b"
    assert USUAL.answer("<|start|>assist") == ""
    assert USUAL.answer('<think mode="x') == ""
    assert USUAL.split("<thi") is None, "at its end, it is the answer"


def test_what_stood_before_a_lone_mark_becomes_a_thought_when_the_mark_arrives():
    whole = "Activate it.</think>No."
    assert USUAL.answer(whole[:12]) == "Activate it."
    assert USUAL.answer(whole[:20]) == ""
    assert USUAL.answer(whole) == "No."


PIECES = st.lists(
    st.sampled_from(
        (
            *("<think>", "</think>", "<THINKING>", "</reasoning>", "<|channel|>analysis<|message|>", "<|end|>", FINAL),
            *("<|return|>", "`", "```\n", "\n", " ", "word", "<", "</", "don't wait. ", "\u200b", "~~~\n", "<b>"),
        )
    ),
    max_size=14,
).map("".join)
MARK = re.compile(
    r"</?(?:think|thinking|reasoning)>|<\|start\|>assistant|<\|channel\|>\w*|<\|(?:message|end|return|call)\|>",
    re.IGNORECASE,
)


def words(text):
    return re.sub(r"[\s\u200b]+", "", MARK.sub("", text))


@given(PIECES)
def test_thoughts_and_answer_make_up_the_text(text):
    thoughts, answer = split(text)
    assert words("".join(thoughts)) + words(answer) == words(text) or FINAL in text
    assert sorted(words("".join((*thoughts, answer)))) == sorted(words(text))
    assert USUAL.split(answer) in (None, Split(thoughts=(), answer=answer)) or FINAL in text


@given(PIECES, st.lists(st.integers(0, 60), max_size=6))
def test_however_the_text_arrives_it_is_split_alike(text, cuts):
    grown = ""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(text)], strict=True):
        grown += text[start:end]
        arrived = USUAL.answer(grown)
        assert words(arrived) in words(grown)
    assert grown == text
    assert split(grown) == split(text)


@given(st.text(alphabet="<>/think|`~ \nab", max_size=60))
def test_an_answer_that_is_not_split_is_untouched(text):
    found = USUAL.split(text)
    assert found is None or found.thoughts or found.answer != text


def test_a_text_full_of_marks_takes_linear_time():
    for piece in ("<think></think>", "a</think>", "<think>a<think>b</think>c</think>", "`</think>", "```\n"):
        thoughts, answer = split(piece * 20_000 + "</think>end")
        assert answer == "end"
        assert thoughts
