"""How a text is parted into clauses, and what is marked in each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.language.clauses import Clause, clauses
from steadyhand.language.lexicon import Mark


def texts(said: str) -> list[str]:
    return [clause.text for clause in clauses(said)]


def only(said: str) -> Clause:
    (found,) = clauses(said)
    return found


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Call now, then sit down. Do not drive!", ["Call now", "then sit down", "Do not drive"]),
        ("Give 0.5 mg i.v. at 10:30.", ["Give 0.5 mg i.v. at 10:30"]),
        ("Some drugs, e.g. aspirin, help.", ["Some drugs", "e.g. aspirin", "help"]),
        ("Ask Dr. Smith. She knows.", ["Ask Dr. Smith", "She knows"]),
        ("Use 1,000 mg approx. twice.", ["Use 1,000 mg approx. twice"]),
        ("Pick No. 5. No. That is bad.", ["Pick No. 5", "No", "That is bad"]),
        ("See example.com or https://a.b/c?d=e, please.", ["See example.com or https://a.b/c?d=e", "please"]),
        ("# Plan\n\n1. **Call** 911\n2. Do _not_ drive\n- [x] done", ["Plan", "Call 911", "Do not drive", "done"]),
        ("It is\nnot solved\nThanks", ["It is not solved", "Thanks"]),
        ("great--thank you \u2013 really", ["great", "thank you", "really"]),
        ("It is cheap but slow", ["It is cheap", "but slow"]),
        (
            '{"decision": "call 911", "why": ["It hurts.\\nA lot"]}',
            ["decision", "call 911", "why", "It hurts", "A lot"],
        ),
        ("```json\n{}\n```", []),
        ("<b>Not</b> this", ["Not this"]),
        ("[the manual](https://a.b) helps", ["the manual helps"]),
        ("| a | b |\n|---|---|\n| c | d |", ["a", "b", "c", "d"]),
        ("\u6ca1\u6709\u89e3\u51b3\u3002\u8c22\u8c22", ["\u6ca1\u6709\u89e3\u51b3", "\u8c22\u8c22"]),
        ("```do not call```", ["do not call"]),
        ("<do not call>", ["<do not call>"]),
        ("[x](do not)", ["x", "do not"]),
        ("", []),
        (" ,. -- ?\n* ", []),
    ],
)
def test_where_a_clause_ends(said, expected):
    assert texts(said) == expected


def test_a_clause_knows_its_place_its_sentence_and_its_closing():
    said = "  **Well**, it didn\u2019t. Why?"
    first, second, third = clauses(said)
    assert [said[each.start : each.end] for each in (first, second, third)] == ["Well", "it didn\u2019t", "Why"]
    assert second.folded == ("it", "didn't")
    assert [each.closing for each in (first, second, third)] == [",", ".", "?"]
    assert [each.sentence for each in (first, second, third)] == [0, 0, 1]
    assert [said[word.start : word.end] for word in second.words] == ["it", "didn\u2019t"]


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("It is solved", "en"),
        ("Das ist gel\u00f6st", "de"),
        ("C'est r\u00e9solu", "fr"),
        ("Ya est\u00e1 resuelto", "es"),
        ("\u041d\u0435 \u0440\u0435\u0448\u0435\u043d\u043e", None),
        ("Asia ei ole ratkennut", None),
        ("this is \u0440\u0435\u0448\u0435\u043d\u043e", None),
        ("paracetamol", None),
    ],
)
def test_the_language_of_a_clause(said, language):
    assert only(said).language == language


def test_each_clause_has_its_own_language():
    assert [each.language for each in clauses("It is solved. Das ist gut. C'est bon. Ya est\u00e1.")] == [
        "en",
        "de",
        "fr",
        "es",
    ]


@pytest.mark.parametrize(
    ("said", "mark"),
    [
        ("it is **not** solved", Mark.NEGATION),
        ("it isn\u2019t solved", Mark.NEGATION),
        ("es ist nicht gel\u00f6st", Mark.NEGATION),
        ("ce n\u2019est pas r\u00e9solu", Mark.NEGATION),
        ("no est\u00e1 resuelto", Mark.NEGATION),
        ("n\u00e3o resolveu", Mark.NEGATION),
        ("es ist not solved", Mark.NEGATION),
        ("is it solved", Mark.QUESTION),
        ("it is solved?", Mark.QUESTION),
        ("\u00bfest\u00e1 resuelto", Mark.QUESTION),
        ("call if it hurts", Mark.CONDITION),
        ("I hope it works", Mark.WISH),
        ("although it works", Mark.CONTRAST),
        ("it is \u201cgreat\u201d", Mark.QUOTATION),
        ("it is 'great'", Mark.QUOTATION),
        ("> it is great", Mark.QUOTATION),
        ("they said it works", Mark.REPORT),
        ("you might call", Mark.HEDGE),
        ("it can keep until then", Mark.DELAY),
        ("yeah right", Mark.IRONY),
        ("forget the ambulance", Mark.RETRACTION),
        ("~~call an ambulance~~", Mark.RETRACTION),
        ("<del>call an ambulance</del>", Mark.RETRACTION),
        ("you must call", Mark.DUTY),
    ],
)
def test_marks(said, mark):
    assert mark in only(said).marks


@pytest.mark.parametrize("said", ["Call 911 now", "do it now", "have the patient sit down", "Das ist gut", "C'est bon"])
def test_a_plain_clause_has_no_mark(said):
    assert only(said).marks == frozenset()


def test_the_quotation_marks_of_json_do_not_quote():
    read = clauses('{"a": "Call 911", "b": "He said \\"no\\"."}')
    assert [Mark.QUOTATION in each.marks for each in read] == [False, False, False, True]


@given(
    st.text(
        alphabet=st.sampled_from("ab\u00e9\u00df\u6ca1 .,!?-*_'\"\u201c\u2019\n1)([]{}<>#|:;\u2026\U0001f642+\u200b&\\")
    )
)
def test_what_is_outside_the_clauses_is_structure(said):
    """All letters, digits and symbols are in the words of a clause, in order and without overlap."""
    covered, at = [False] * len(said), 0
    for clause in clauses(said):
        assert clause.start == clause.words[0].start
        assert clause.end == clause.words[-1].end
        for word in clause.words:
            assert at <= word.start < word.end
            covered[word.start : word.end] = [True] * (word.end - word.start)
            at = word.end
    missed = {
        char
        for char, inside in zip(said, covered, strict=True)
        if not inside and (char.isalnum() or char in "\U0001f642&")
    }
    items = {"a", "b", "\u00e9", "\u00df", "\u6ca1", "1"}  # "a)" and "1." at the start of a line, ```a, <a>
    assert missed <= items


@pytest.mark.parametrize(
    "piece", [",", "a,", "a ", '"', "'", "](", "<a", "&a", "\n", " \n", "- ", "> ", "a.", "1.", "*a", "+"]
)
def test_a_text_made_to_be_slow_is_read_in_linear_time(piece):
    """A hundred thousand characters in a number of steps that is quadratic would take minutes."""
    clauses(piece * (100_000 // len(piece)))
