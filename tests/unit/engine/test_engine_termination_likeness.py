import random

from steadyhand.engine.termination import similarity


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
