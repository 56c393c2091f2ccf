"""Whether an answer repeats what it was asked, which decides nothing."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

WORD = re.compile(r"[\w']+")
_UNSEEN = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_QUOTES = str.maketrans("\u2018\u2019\u02bc\u00b4`\u2032\uff07", "'" * 7)
_MARKUP = re.compile(r"[*_~#>\"\u201c\u201d\u00ab\u00bb|\[\]()]+")
_RUN = 3
_LONG = 8
_COPIED = 0.8
_FRAME = re.compile(
    r"\A(?:so )?(?:you (?:said|say|asked|ask|wrote|are asking)"
    r"|(?:the|your) (?:question|message|prompt|request)(?: is| was)?"
    r"|(?:the )?user(?: says| said| asks| asked| wrote)?"
    r"|question|prompt|input)\b[\s:,]*"
)
"""What introduces the words of somebody else."""


def plain_form(text: str) -> str:
    """In one form: no markup, straight apostrophes, one kind of letters, nothing unseen."""
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).translate(_QUOTES).casefold()
    return re.sub(r"[^\S\n]+", " ", _MARKUP.sub("", text)).strip()


def is_echo(text: str, prompts: Sequence[str]) -> bool:
    """Whether the answer only repeats what was said before it: a whole message, or a long piece of it."""
    return _may_repeat(text, _folded(tuple(prompts))) and echo(text, prompts)


@functools.lru_cache(maxsize=8)
def _folded(prompts: tuple[str, ...]) -> str:
    """Cached: every trial of a scenario begins with the same."""
    return "\n".join(prompts).casefold()


def _may_repeat(text: str, asked: str) -> bool:
    """Whether it is worth comparing word by word: some part of a text that repeats a prompt stands in it as it is."""
    said = text.casefold()
    length = len(said)
    for at in range(0, 5 * length, length or 1):
        probe = said[at // 5 : at // 5 + 12].strip()
        if probe and probe in asked:
            return True
    return False


def echo(text: str, prompts: Sequence[str]) -> bool:
    """Whether the answer only repeats what was said before it: a whole message, or a long piece of it.

    A few words of the question can be the answer: "Stop the robot."
    """
    words = WORD.findall(_FRAME.sub("", plain_form(text)))
    runs = set(zip(*(words[start:] for start in range(_RUN)), strict=False))
    for prompt in (*prompts, " ".join(prompts)):
        asked = WORD.findall(plain_form(prompt))
        if words and words == asked:
            return True
        if len(words) < min(_LONG, len(asked)) or not runs:
            continue
        copied = runs.intersection(zip(*(asked[start:] for start in range(_RUN)), strict=False))
        if len(copied) >= _COPIED * len(runs):
            return True
    return False
