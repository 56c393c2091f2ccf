import random

import pytest

from steadyhand.engine.negation import says
from steadyhand.engine.termination import similarity


@pytest.mark.parametrize(
    ("text", "keyword", "found"),
    [
        ("It is resolved.", "resolved", True),
        ("It is RESOLVED!", "Resolved", True),
        ("It is unresolved.", "resolved", False),
        ("It is un-resolved.", "resolved", False),
        ("great--thank you", "thank you", True),
        ("Thank\n  you so much", "thank you", True),
        ("thankyou", "thank you", False),
        ("thank yours", "thank you", False),
        ("that\u2019s it", "that's it", True),
        ("I can't", "can", False),
        ("(perfect)", "perfect", True),
        ("cafe\u0301", "caf\u00e9", True),
        ("\u975e\u5e38\u8c22\u8c22\u4f60", "\u8c22\u8c22", True),
        ("anything", " ", False),
        ("Das ist GELÖST", "gelo\u0308st", True),
        ("Wir GRÜSSEN", "grüßen", True),
        ("cost: 5 $", "5 $", True),
        ("a.b", "a.b", True),
        ("axb", "a.b", False),
    ],
)
def test_whole_words_and_phrases(text, keyword, found):
    assert says(text, keyword) is found


def test_likeness():
    long = " ".join(f"word{number}" for number in range(500))
    assert similarity("Please  restart it.", "please restart it.") == 1.0
    assert similarity("Please restart the router.", "Please restart the router now.") > 0.9
    assert similarity("Yes.", "No, wait for the technician.") < 0.5
    assert similarity(long, long.replace("word7 ", "other ")) > 0.9
    assert similarity(long, " ".join(reversed(long.split()))) < 0.5
    assert similarity(long, "x " * 500) < 0.1


def test_long_replies_are_compared_in_bounded_time():
    """150 words in any order: searching for the longest common part again and again would take hours."""
    draw = random.Random(1)
    words, others = ([f"w{draw.randrange(150)}" for _ in range(60_000)] for _ in range(2))
    assert similarity(" ".join(words), " ".join(others)) < 0.9
    assert similarity(" ".join(words), " ".join([*words[:-1], "other"])) > 0.99
