"""Patterns that match almost anything, measured on sentences that have nothing to do with one another."""

from __future__ import annotations

from steadyhand.lint.patterns import Pattern

TOO_MUCH = 0.8

SENTENCES = (
    "The library opens at nine on weekdays.",
    "She planted tomatoes along the southern wall.",
    "Our train was cancelled because of snow.",
    "Basalt forms when lava cools quickly.",
    "He repaired the violin with hide glue.",
    "Tickets cost twelve euros, children pay half.",
    "A red kite circled above the valley!",
    "The recipe asks for two cups of flour.",
    "Their band plays in Lisbon next month.",
    "Most ferries run twice a day in winter.",
    "I forgot my umbrella at the cinema.",
    "Old maps show a river that no longer exists.",
    "Paper was expensive in the Middle Ages.",
    "Which of the two keys fits this door?",
    "The cat sleeps on the radiator.",
    "Prices rose by 3.2 percent last year.",
    "They painted the boat blue and white.",
    "Clouds of dust hid the far hills.",
    "My neighbour keeps bees on the roof.",
    "The committee met for three hours.",
    "Honey does not spoil if it is kept dry.",
    "We walked home along the canal.",
    "A sonnet has fourteen lines.",
    "Copper turns green in damp air.",
    "The museum lent its best vase to Vienna.",
    "Nobody answered the telephone.",
    "Swallows return in April.",
    "This bridge was built in 1887.",
    "The tailor shortened both sleeves.",
    "Rain is expected towards evening.",
)


def breadth(pattern: Pattern) -> float:
    """The share of unrelated sentences that the pattern is found in."""
    return sum(pattern.found_in(sentence) for sentence in SENTENCES) / len(SENTENCES)
