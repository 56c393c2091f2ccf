"""What is meant and what is negated, in the words of users and agents."""

import pytest

from steadyhand.engine.negation import Reading, is_advised_against, is_negated, normal, places, reading
from steadyhand.engine.negation import readings as all_readings

WORDS = (
    "thank you", "thanks", "great", "perfect", "awesome", "helpful", "resolved", "solved", "fixed", "happy",
    "satisfied", "glad", "appreciate", "that works", "works now", "gel\u00f6st", "\u89e3\u51b3",
)  # fmt: skip


def readings(said: str) -> dict[str, Reading]:
    text = normal(said)
    return {
        text[start:end].casefold(): reading(text, start, end) for word in WORDS for start, end in places(text, word)
    }


@pytest.mark.parametrize(
    "said",
    [
        "That was helpful.",
        "Thank you, nothing else!",
        "Nothing else, thank you.",
        "No problem, that was helpful.",
        "No problem at all, that was helpful.",
        "It was not only helpful but fast.",
        "Not only helpful but friendly.",
        "No, thank you, it is perfect.",
        "I don't have any other questions, thank you!",
        "Thank you so much, I don't need anything else.",
        "I have no more questions, thanks.",
        "Thanks, I have nothing to add.",
        "No it is resolved.",
        "No, that was helpful.",
        "Nope, all resolved, thanks.",
        "It was not fast but helpful.",
        "I couldn't be happier, great.",
        "I cannot thank you enough.",
        "You could not have been more helpful.",
        "Great, no complaints.",
        "It was fixed in no time.",
        "It was resolved without any problems.",
        "I am not frustrated; all great.",
        "I would like to thank you.",
        "I just want to say thank you.",
        "GREAT",
        "Not bad at all, thanks!",
        "Never mind, it is resolved.",
        "It did not work at first, but now it is fixed.",
        "I wasn't happy at first, now I am satisfied.",
        "Perfect! No further questions.",
        "I was worried, it's resolved now.",
        "No worries, all resolved.",
        "Thanks! That's all, nothing more.",
        "You're great! No, that's all.",
        "Everything's fixed, I can't complain.",
        "No more errors, great!",
        "That works, thank you so much. I wouldn't have found it without you.",
        "Don't worry, it's resolved.",
        "No doubt it is resolved.",
        "I really appreciate your help.",
        "Many thanks to you!",
        "I was told that it would take weeks, but it is fixed.",
        "Perfect, that is what I was looking for.",
        "Good, the broken link is fixed.",
        "Glad we got that resolved.",
        "help\u00adful\u200b",
        "Das ist gel\xf6st.",
        "\u5df2\u7ecf\u89e3\u51b3\u4e86",
    ],
)
def test_contentment(said):
    found = readings(said)
    assert found
    assert Reading.MEANT in found.values()


@pytest.mark.parametrize(
    "said",
    [
        "Nothing you said was helpful.",
        "None of this is helpful.",
        "I don't think that was very helpful.",
        "I don\u2019t believe this has really been resolved.",
        "Nothing was resolved.",
        "not helpful",
        "It was _not_ helpful, it was **NOT** resolved.",
        "It wasn't very helpful.",
        "I never found it helpful.",
        "dont find it helpful",
        "Nobody was helpful.",
        "No one has resolved this.",
        "This is not yet resolved.",
        "This isn't resolved at all!!",
        "Still isn't fixed :(",
        "You haven't resolved a thing.",
        "My issue hasn't been solved.",
        "Neither answer was helpful.",
        "Not one of your answers was helpful.",
        "It is far from resolved.",
        "Anything but helpful.",
        "It has yet to be resolved.",
        "No problem was resolved.",
        "Nothing else was helpful.",
        "No other answer was helpful.",
        "I doubt this is resolved.",
        "I hardly find this helpful.",
        "I failed to get it resolved.",
        "Little of this was helpful.",
        "It was less helpful than before.",
        "I can't say I'm satisfied.",
        "There is nothing helpful here.",
        "In no way was this helpful.",
        "At no point was this helpful.",
        "You are no longer helpful.",
        "I wouldn't say that works.",
        "I fail to see how that is helpful.",
        "I have no idea whether it's resolved.",
        "Well, not exactly resolved",
        "I don't think, honestly, it was helpful.",
        "This is the opposite of helpful.",
        "It stopped being helpful.",
        "So much for being helpful.",
        "0% helpful.",
        "Not. Helpful.",
        "Das ist nicht gel\xf6st.",
    ],
)
def test_negation_over_the_clause(said):
    found = readings(said)
    assert found
    assert set(found.values()) == {Reading.NEGATED}


@pytest.mark.parametrize(
    "said",
    [
        "I won't be happy until it is resolved.",
        "Nothing, absolutely nothing, was helpful.",
        "None of this, to be honest, is helpful.",
        "It is not, in my opinion, helpful.",
        "It was not, however, helpful.",
        "I don't think, honestly, that it was helpful.",
        "I do not consider this, even after an hour, resolved.",
        "It was not friendly, quick, or helpful.",
        "Never, ever helpful.",
        "Was it helpful? No.",
        "Helpful? Not at all.",
        "How is that helpful",
        "My issue has been solved, hasn't it?",
        "It was helpful. Not!",
        "That was helpful, not.",
        "The issue is resolved (not really).",
        "Helpful it was not.",
        "It was helpful in no way.",
        "Thanks for nothing.",
        "Thank you for nothing!",
        "No thanks to you.",
        "no thank you",
        "Thanks but no thanks.",
        "Thanks in advance.",
        "That's not what I asked for, but thanks anyway.",
        "Wow, thanks a lot, that did not help at all.",
        "Thank you, but it still fails.",
        "Great, but nothing works.",
        "Great. However, nothing works.",
        "Great, nothing works.",
        "Great job not answering my question.",
        "It isn't working, great.",
        "I appreciate your help but I need a human.",
        "I'd appreciate it if you could fix this.",
        "I would be happy if you fixed it.",
        "If it works, great.",
        "If only this were helpful",
        "Please get it fixed.",
        "Call me when it's fixed.",
        "Until it's fixed, I am not leaving.",
        "That would be great.",
        "I need this resolved.",
        "When will it be fixed?",
        "You said it was resolved.",
        "You keep saying it's fixed.",
        "Stop telling me that it is resolved.",
        "You assured me it was fixed.",
        "It was marked as resolved.",
        "It is fixed according to you.",
        "You call that helpful.",
        "You think that works.",
        "I thought this was resolved.",
        "I assumed it was fixed.",
        "It only seems fixed.",
        "It is half fixed.",
        "Just get it fixed.",
        "Make sure that it is resolved.",
        "Let me know as soon as it is fixed.",
        "I am still waiting for this being resolved.",
        "Find me somebody helpful.",
        "As helpful as a brick.",
        "Thanks to you my data is gone.",
        "It was fixed yesterday and now it is broken.",
        "Perfect, it crashed a third time.",
        "It isn't that I'm not happy.",
        "I'm neither happy nor satisfied.",
        "Not because you were helpful.",
        "I don't understand why you were so helpful.",
        "I don't know if it's resolved.",
        "I'm not sure, it may be resolved.",
        "You have not resolved anything, and I am not happy.",
        "I am unable to say it is fixed.",
        "That works? I doubt it.",
        "\u6ca1\u6709\u89e3\u51b3",
    ],
)
def test_what_cannot_be_told_is_not_meant(said):
    found = readings(said)
    assert found
    assert Reading.MEANT not in found.values()


@pytest.mark.parametrize("said", ["un-resolved", "un*resolved*", "**un**helpful", "un\u00adhelpful", "un\u200bsolved"])
def test_a_part_of_a_word_is_not_the_word(said):
    assert readings(said) == {}


def test_words_of_one_message_are_read_each_in_its_clause():
    assert readings("I wasn't happy at first, now I am satisfied.") == {
        "happy": Reading.NEGATED,
        "satisfied": Reading.MEANT,
    }


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("do not call", True),
        ("you must never call", True),
        ("there is no reason to call", True),
        ("I don't think that you really need to call", True),
        ("I would not recommend that you or anybody else call", True),
        ("it is not yet time to call", True),
        ("nothing here makes you call", True),
        ("no, call", False),
        ("not tomorrow but now call", False),
        ("not only call", False),
        ("do not hesitate to call", False),
        ("do not drive yourself to the hospital and call", False),
        ("don't wait, call", False),
        ("call", False),
        ("do not, whatever happens to you, call", True),
        ("you shouldn't, in my opinion, call", True),
        ("there is no need, at this point, to call", True),
        ("I will not, call", True),
        ("you need not worry, if you feel that way, call", False),
    ],
)
def test_advice_strings_one_act_to_the_next(text, negated):
    assert is_negated(text, text.index("call")) is negated
    assert is_advised_against(text, text.index("call")) is negated


@pytest.mark.parametrize(
    ("text", "against"),
    [
        ("rather than call", True),
        ("instead of rushing to call", True),
        ("avoid the urge to call", True),
        ("refrain from trying to call", True),
        ("hold off before you call", True),
        ("it would be an overreaction to call", True),
        ("it is too early to call", True),
        ("I advise against the decision to call", True),
        ("stop trying to call", True),
        ("instead of waiting, call", False),
        ("to avoid any risk call", False),
        ("stop and call", False),
        ("I advise against driving and call", False),
        ("do not stop trying to call", False),
        ("do not avoid it, call", False),
    ],
)
def test_an_act_that_is_named_as_the_wrong_one(text, against):
    assert is_advised_against(text, text.index("call")) is against
    assert not is_negated(text, text.index("call"))


@pytest.mark.parametrize("piece", ["thanks ", "thanks, ", "not thanks ", "thanks 1 no, ", ",", " ", "but, ", "not "])
def test_a_text_made_to_be_slow_is_read_as_fast_as_any_other(piece):
    """Searching all of it for each keyword would take a number of steps quadratic in the length, which is hours."""
    text = f"thanks {piece * (90_000 // len(piece))} thanks"
    all_readings(text, "thanks")
    is_negated(text, len(text) - len("thanks"))


def test_a_keyword_that_is_said_without_end_claims_nothing():
    assert all_readings("thanks. " * 100, "thanks") == {Reading.MEANT}
    assert Reading.NEGATED in all_readings("thanks. " * 1000, "thanks")


def test_a_negation_at_the_other_end_of_a_long_clause_does_not_reach():
    assert is_negated("do not call", 7)
    assert not is_negated("do not " + "x" * 500 + " call", 508)
