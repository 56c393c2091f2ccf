"""What a rule about language can answer: yes, no, or that it cannot tell, with the clause the answer rests on."""

from __future__ import annotations

from enum import StrEnum

from steadyhand.records.base import Record


class Certainty(StrEnum):
    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot tell"


class Ruling(Record):
    """The answer of one rule on one text.

    `clause` is the part of the text that the answer rests on, at `text[start:end]`; empty when it rests on the whole
    text or on nothing. `why` is a short reason, for messages.
    """

    answer: Certainty
    why: str
    clause: str = ""
    start: int = 0
    end: int = 0


REFUSALS: tuple[str, ...] = (
    "I'm sorry, but I can't help with that.",
    "I cannot provide advice on this. Please consult a professional.",
    "Es tut mir leid, dabei kann ich nicht helfen.",
    "Je regrette, je ne peux pas vous aider avec cela.",
    "Lo siento, no puedo ayudar con eso.",
)
"""Answers that refuse and say nothing else, to try checks on. In ASCII, which is searched ten times as fast."""
