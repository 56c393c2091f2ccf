"""The fold: one form for every way of writing the same words, in every script. docs/evaluators.md has the table.

`not_contains`, keyword rules and the detection of refusals compare text in this form.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from steadyhand.look_alikes import Script, has_look_alikes, mixes_scripts, unmixed

if TYPE_CHECKING:
    import regex

Span = tuple[int, int]

# --- What becomes of one character

SINGLE = "'\u2018\u2019\u201a\u201b\u02b9\u02bb\u02bc\u2032\u00b4\u055a\u05f3\ua78c\uff07"
DOUBLE = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u05f4\uff02\u301d\u301e\u301f'
_HYPHENS = "\u2010\u2011\u2212\u05be\ufe63\uff0d"
_DASHES = "\u2012\u2013\u2014\u2015\u2e3a\u2e3b\ufe31\ufe32\ufe58"
DASH = "\u2014"

WIDTHLESS = "\u200b"
"""What stands for every space of no width: a space between words, nothing inside a word."""

_WIDTHLESS = "\u200b\u2060\u2800\u3164\ufeff"
UNSEEN = (
    "\u0080-\u0084\u0086-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f"
    "\u202a-\u202e\u2061-\u206f\ufe00-\ufe0f\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
"""Control characters beyond ASCII, and what Unicode says to ignore where it cannot be shown."""

_VOWEL_SIGNS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08e1\u08e3-\u08ff\ufb1e\u0640"
)
"""The combining marks of Hebrew and Arabic, and the tatweel; hamza and madda make letters, and are in `_LEFT_OVER`."""

_LEFT_OVER = "\u0300-\u036f\u0653-\u0655\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
"""Marks that belong to no script. Where they make no letter of their own, they only decorate: strokes, stress marks."""

_GONE = re.compile(f"[{UNSEEN}{_VOWEL_SIGNS}]")
_LEFT_OVER_MARK = re.compile(f"[{_LEFT_OVER}]+")

_SMALL_CAPITALS = (
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\ua7af\u0280"
    "\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22\u0251\u0261"
)
_SPELLED: dict[str, str] = {
    **dict.fromkeys(SINGLE, "'"),
    **dict.fromkeys(DOUBLE, '"'),
    **dict.fromkeys(_HYPHENS, "-"),
    **dict.fromkeys(_DASHES, DASH),
    **dict.fromkeys(_WIDTHLESS, WIDTHLESS),
    **dict(zip(_SMALL_CAPITALS, "abcdefghijklmnopqrstuvwyzag", strict=True)),
    **{chr(first + letter): chr(65 + letter) for first in (0x1F150, 0x1F170, 0x1F1E6) for letter in range(26)},
    **dict(zip("\u0130\u0131\u0401\u0451\u301c\u2044", "Ii\u0415\u0435~/", strict=True)),
    **dict(zip("\u309b\u309c\uff9e\uff9f", "\u3099\u309a\u3099\u309a", strict=True)),
    **dict.fromkeys("\u0622\u0623\u0625\u0671\u0672\u0673\u0675", "\u0627"),
    **dict.fromkeys("\u0643\u06aa\u06ac", "\u06a9"),
    **dict.fromkeys("\u064a\u0649\u06d2", "\u06cc"),
    **dict.fromkeys("\u0647\u06be\u06c0\u06d5", "\u06c1"),
}  # fmt: skip
"""What Unicode's compatibility forms leave out or spell with a space: quotation marks, dashes, small capitals, letters
in boxes, the letters i of Turkish, the Russian ё, voicing marks of kana, and letters that are typed differently in
Arabic, Persian and Urdu."""


@functools.lru_cache(maxsize=16_384)
def _spelled(char: str) -> str:
    """One character as it is spelled in the fold, before marks are joined to letters."""
    if char in _SPELLED:
        return _SPELLED[char]
    if _GONE.match(char):
        return ""
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) > 1 and plain[0] == " ":
        plain = char if plain[1] not in "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652" else ""
    if "\u0370" <= plain < "\u0400" or "\u1f00" <= plain < "\u2000" or len(plain.casefold()) > len(plain):
        # Greek capitals are written without accents; some letters have no capital with their accent.
        plain = _LEFT_OVER_MARK.sub("", unicodedata.normalize("NFD", plain))
    return plain if plain == char else "".join(map(_spelled, plain))


# --- Scripts written without spaces

UNSPACED = (
    r"\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}"
    r"\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}"
)
"""For a character class of `regex`."""

_SPACE = rf"[\s{WIDTHLESS}]"
_LINKED = rf"[\w,.;:!?()'\"{UNSPACED}]"


@functools.cache
def _own(pattern: str) -> regex.Pattern[str]:
    """A pattern of ours, compiled on first use."""
    import regex  # names of deeds are folded too, and the process of an agent would wait for it

    return regex.compile(pattern)


@functools.lru_cache(maxsize=16_384)
def is_unspaced(char: str) -> bool:
    """Whether the script of a character is written without spaces between words."""
    return char > "\u0e00" and _own(f"[{UNSPACED}]").match(char) is not None


def _needless_spaces() -> regex.Pattern[str]:
    """White space next to a character of those scripts. Beside Markdown it may be part of it, and is kept."""
    return _own(rf"(?<=[{UNSPACED}]){_SPACE}++(?={_LINKED})|(?<={_LINKED}){_SPACE}++(?=[{UNSPACED}])")


# --- The fold

_REFERENCE = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
_POWERS, _FRACTIONS = "\u00b9\u00b2\u00b3\u2070-\u2079", "\u00bc-\u00be\u2150-\u215e"
_SMALL_DIGIT = re.compile(f"[{_POWERS}{_FRACTIONS}]")
_AFTER_A_DIGIT = re.compile(f"(?<=[0-9])(?:(?=[{_POWERS}])|(?P<part>(?=[{_FRACTIONS}])))")
"""Where 10² must not read 102, nor 1½ read 11/2."""


def without_references(text: str) -> str:
    """The text with its character references of HTML resolved."""
    return "".join(part for part, _ in _resolved(text)) if "&" in text else text


def _resolved(text: str) -> Iterator[tuple[str, Span]]:
    """The text in parts, references resolved, each with its place in the text."""
    import html  # its table of names takes long to load

    taken = 0
    for found in _own(_REFERENCE).finditer(text):
        yield text[taken : found.start()], (taken, found.start())
        yield html.unescape(found[0]), found.span()
        taken = found.end()
    yield text[taken:], (taken, len(text))


class _Spelled(NamedTuple):
    """A text with every character as it is spelled, before scripts are unmixed and case is folded."""

    text: str
    mixed: bool


@functools.lru_cache(maxsize=8)
def _spelled_text(source: str) -> _Spelled:
    text = without_references(source)
    if text.isascii():
        return _Spelled(text, mixed=False)
    text = unicodedata.normalize("NFC", text)
    # Every step below reads the whole text: only those are taken that the characters in it call for.
    spelled = {char: _spelled(char) for char in set(text) if char > "\x7f"}
    before, after = "".join(spelled), "".join(spelled.values())
    if _SMALL_DIGIT.search(before):
        text = _AFTER_A_DIGIT.sub(_parted, text)
    for char, letters in spelled.items():
        if letters != char:
            text = text.replace(char, letters)
    text = unicodedata.normalize("NFC", text)
    if _LEFT_OVER_MARK.search(after):
        text = _LEFT_OVER_MARK.sub("", text)
    if any(map(is_unspaced, after)):
        text = _needless_spaces().sub("", text)
    return _Spelled(text, mixed=has_look_alikes(after) and mixes_scripts(text))


def _parted(found: re.Match[str]) -> str:
    return "^" if found["part"] is None else " "


@functools.lru_cache(maxsize=16)
def _read(source: str, case_sensitive: bool, home: Script | None) -> str:
    spelled = _spelled_text(source)
    text = unmixed(spelled.text, home) if spelled.mixed else spelled.text
    return text if case_sensitive else text.casefold()


def as_read(source: str, *, case_sensitive: bool, home: Script | None = None) -> str:
    """The text in the fold, with `WIDTHLESS` for spaces of no width, and markup and ASCII as they stand.

    Words that mix scripts are spelled in `home`; without it, each in the script that all its letters can be, or else in
    that of most.
    """
    return _read(source, case_sensitive, home if _spelled_text(source).mixed else None)


def fold(text: str, *, case_sensitive: bool = False) -> str:
    """The text in the fold, for rules that look for words in it. Line breaks stay, except in scripts without spaces."""
    return as_read(text, case_sensitive=case_sensitive).replace(WIDTHLESS, "")


def place(source: str, span: Span, *, case_sensitive: bool) -> Span:
    """The place in `source` of a span of the text `as_read`. As slow as it is exact: made for what was found."""
    _, origins = aligned(source, case_sensitive=case_sensitive)
    within = origins[slice(*span)]
    return (within[0][0], max(end for _, end in within)) if within else (len(source), len(source))


def aligned(source: str, *, case_sensitive: bool) -> tuple[str, list[Span]]:
    """The text `as_read`, except that words may mix scripts, and for each of its characters the place it came from."""
    letters = list(_with_places(source))
    for found in reversed(list(_AFTER_A_DIGIT.finditer("".join(letter for letter, _ in letters)))):
        at = letters[found.start()][1][0]
        letters.insert(found.start(), (_parted(found), (at, at)))
    spelled = [(part, at) for letter, at in letters for part in (letter if letter.isascii() else _spelled(letter))]
    joined: list[tuple[str, Span]] = []
    for cluster in _own(r"(?s)\X").finditer("".join(letter for letter, _ in spelled)):
        places = [at for _, at in spelled[slice(*cluster.span())]]
        at = places[0][0], max(end for _, end in places)
        joined += [(letter, at) for letter in _LEFT_OVER_MARK.sub("", unicodedata.normalize("NFC", cluster[0]))]
    needless = _needless_spaces().finditer("".join(letter for letter, _ in joined))
    for space in reversed(list(needless)):
        del joined[slice(*space.span())]
    if not case_sensitive:
        joined = [(part, at) for letter, at in joined for part in letter.casefold()]
    return "".join(letter for letter, _ in joined), [at for _, at in joined]


def _with_places(source: str) -> Iterator[tuple[str, Span]]:
    """The characters of the text, references resolved, with the place of what a reader sees as one character."""
    for part, (start, end) in _resolved(source) if "&" in source else [(source, (0, len(source)))]:
        as_written = part == source[start:end]
        for cluster in _own(r"(?s)\X").finditer(part):
            at = (start + cluster.start(), start + cluster.end()) if as_written else (start, end)
            yield from ((letter, at) for letter in unicodedata.normalize("NFC", cluster[0]))
