"""Whether a keyword is meant as it is said."""

import pytest

from steadyhand.language.answer import Certainty
from steadyhand.language.keywords import keyword_meant, keyword_readings, mentions

WORDS = (
    "thank you", "thanks", "great", "perfect", "awesome", "helpful", "resolved", "solved", "fixed", "happy",
    "satisfied", "glad", "appreciate", "that works", "works now", "gel\u00f6st", "\u89e3\u51b3",
)  # fmt: skip


def answers(said: str) -> dict[str, Certainty]:
    return {each.keyword: each.reading.answer for each in keyword_readings(said, WORDS)}


@pytest.mark.parametrize(
    "said",
    [
        "Thanks, that solved my problem!",
        "Perfect, thank you so much.",
        "That was helpful.",
        "Thank you, nothing else!",
        "Nothing else, thank you.",
        "No problem, that was helpful.",
        "I have no more questions, thanks.",
        "No, that's all. Thank you!",
        "GREAT",
        "Not bad at all, thanks!",
        "No worries, all resolved.",
        "I really appreciate your help.",
        "Great!! \U0001f60a",
        "help\u00adful\u200b",
        "Das ist gel\xf6st.",
        "\u89e3\u51b3",
        "\u89e3\u51b3\uff01",
        "\u89e3 \u51b3",
        "th\u0430nks",
        "\uff27\uff52\uff45\uff41\uff54!",
    ],
)
def test_what_is_said_plainly_is_meant(said):
    found = keyword_meant(said, WORDS)
    assert found is not None
    assert found.reading.answer is Certainty.YES


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
def test_contentment_is_never_read_as_its_opposite(said):
    found = keyword_meant(said, WORDS)
    assert found is not None
    assert found.reading.answer is not Certainty.NO or "n't happy" in said


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
def test_what_is_negated_or_cannot_be_told_is_not_meant(said):
    found = answers(said)
    assert found
    assert Certainty.YES not in found.values()


@pytest.mark.parametrize(
    "said",
    [
        "not helpful",
        "&#110;ot great",
        "It wasn't very helpful.",
        "It is not resolved.",
        "Nothing was resolved.",
        "None of this is helpful.",
        "I don't think that was very helpful.",
        "I don\u2019t believe this has really been resolved.",
        "My issue hasn't been solved.",
        "Das ist nicht gel\xf6st.",
    ],
)
def test_a_plain_negation_is_a_no(said):
    assert set(answers(said).values()) == {Certainty.NO}


@pytest.mark.parametrize(
    "said",
    [
        "Excellent way to lose a great customer.",
        "Thanks, I already did that.",
        "Thanks. And the refund.",
        "Great, it was better before.",
        "Great for you.",
        "Great service you have here.",
        "Well, great.",
        "Perfect. Help me with my order.",
        "I was happy.",
        "Happy to help.",
        "Have a great day.",
        "Thanks, I have a question.",
        "Great, I have to pay again.",
        "They are happy.",
        "You are satisfied.",
        "A great help you are.",
        "Thanks and the refund.",
        "Helpful, really.",
        "Great...",
        "Great \U0001f644",
        "Kiitos, perfect",
        "Super, grazie, perfect",
        "Thanks. \u041d\u0435 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442.",
        "great, n\u043et",
        "> Thanks, that solved it",
        "\u5df2\u7ecf\u89e3\u51b3\u4e86",
    ],
)
def test_a_word_that_is_not_known_may_turn_anything(said):
    found = keyword_meant(said, WORDS)
    assert found is None or found.reading.answer is Certainty.CANNOT_TELL


def test_the_reason_names_the_clause_and_what_is_in_the_way():
    (said,) = keyword_readings("Hello. Great way to lose a customer, sir.", ["great"])
    assert said.reading.clause == "Great way to lose a customer"
    assert "'way', 'lose', 'customer'" in said.reading.why
    (asked,) = keyword_readings("Is it great?", ["great"])
    assert "question" in asked.reading.why
    (beside,) = keyword_readings("Great. It does not work.", ["great"])
    assert "It does not work" in beside.reading.why


def test_a_keyword_against_leaves_no_other_meant():
    read = {
        each.keyword: each.reading.answer
        for each in keyword_readings("Thanks. I am angry.", ["thanks"], contrary=["angry"])
    }
    assert read == {"thanks": Certainty.CANNOT_TELL, "angry": Certainty.YES}
    read = {
        each.keyword: each.reading.answer
        for each in keyword_readings("Thanks. I am not angry.", ["thanks"], contrary=["angry"])
    }
    assert read == {"thanks": Certainty.YES, "angry": Certainty.NO}


def test_the_words_of_an_agent_may_be_about_the_world():
    said = "Follow these steps: open the settings and press reset. Then the turbine hums."
    assert keyword_meant(said, ["follow these steps"]).reading.answer is Certainty.CANNOT_TELL
    assert keyword_meant(said, ["follow these steps"], advice=True).reading.answer is Certainty.YES
    for contrary in ("It does not help.", "Forget it.", "But ask a friend."):
        assert (
            keyword_meant(f"{said} {contrary}", ["follow these steps"], advice=True).reading.answer
            is Certainty.CANNOT_TELL
        )


@pytest.mark.parametrize("said", ["un-resolved", "un*resolved*", "**un**helpful", "un\u00adhelpful", "un\u200bsolved"])
def test_a_part_of_a_word_is_not_the_word(said):
    assert answers(said) == {}


@pytest.mark.parametrize("piece", ["thanks ", "thanks, ", "not thanks ", "thanks 1 no, ", ",", " ", "but, ", "not "])
def test_a_text_made_to_be_slow_is_read_as_fast_as_any_other(piece):
    """Ruling all of it for each keyword would take a number of steps quadratic in the length, which is hours."""
    keyword_readings(f"thanks {piece * (90_000 // len(piece))} thanks", ["thanks"])


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
    assert mentions(text, keyword) is found
