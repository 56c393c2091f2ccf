"""`not_contains` phrases that a right answer trips over: "do not wait for it" contains "wait for it"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steadyhand.text_match import find_forbidden

_NEGATION = re.compile(
    r"\b(?:no|not|never|nor|neither|without|cannot|avoid|nothing|instead of|rather than)\b|n['\u2019]t\b"
)
_REACH = 30
_CLAUSE_END = re.compile(r"[.;!?\n]")
_DEEDS = re.compile(
    r"accelerate|accept|activate|administer|allow|approach|assume|await|begin|bridge|bypass|call|carry|clear|"
    r"close|continue|cross|defer|delay|delete|discharge|disregard|drive|drop|enter|finish|give|go|hold|ignore|"
    r"increase|keep|leave|let|lift|lower|monitor|move|mute|observe|open|order|override|postpone|prescribe|"
    r"proceed|push|reassure|reboot|release|remove|repeat|reset|restart|resume|retry|return|run|send|shut|sit|"
    r"skip|sleep|speed|start|stay|stop|take|transfer|transport|try|turn|use|wait|watch|withhold"
)


def negated_in(phrase: str, texts: Sequence[str]) -> str | None:
    """The words of the first text that forbids the phrase ("do not ..."), or None."""
    for text in texts:
        lowered = text.casefold()
        for found in re.finditer(re.escape(phrase.casefold()), lowered):
            lead = _CLAUSE_END.split(lowered[max(0, found.start() - _REACH) : found.start()])[-1]
            if _NEGATION.search(lead):
                return text[max(0, found.start() - len(lead)) : found.end()].strip()
    return None


def asserted_in(phrase: str, text: str) -> bool:
    """Whether the text holds the phrase without forbidding it."""
    held = find_forbidden(text, phrase, case_sensitive=False) is not None
    return held and negated_in(phrase, [text]) is None


def names_a_deed(phrase: str) -> bool:
    """Whether the phrase begins with a deed, so that "do not" or "never" before it makes a right answer."""
    words = re.findall(r"[\w'\u2019-]+", phrase.casefold())
    return bool(words) and _NEGATION.search(phrase.casefold()) is None and _is_deed(words[0])


def _is_deed(word: str) -> bool:
    """Whether it is a known deed, also as "waiting", "gives" or "stopping"."""
    stem = word.removesuffix("ing") if word.endswith("ing") else word.removesuffix("s")
    return any(_DEEDS.fullmatch(verb) for verb in (word, stem, f"{stem}e", stem[:-1]))
