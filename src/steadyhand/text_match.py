"""The text matcher for phrases, forbidden phrases and regular expressions.

Places refer to the text as given, whatever form it was compared in.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import regex

from steadyhand.look_alikes import Script, scripts_in
from steadyhand.text_fold import (
    DASH,
    UNSEEN,
    WIDTHLESS,
    Span,
    as_read,
    is_unspaced,
    place,
    without_references,
)

GLANCE_S = 0.005
PATIENCE_S = 1.0
_patience_s: ContextVar[float] = ContextVar("_patience_s", default=PATIENCE_S)
LARGEST_PATTERN = 50_000
"""Compiled, such a pattern takes about 20 MB; `a{99999999}` would take 24 GB."""

_CLUSTER = r"\X"


@functools.cache
def _own(pattern: str) -> regex.Pattern[str]:
    """A pattern of ours, compiled on first use: a run needs few of them, and compiling all takes 4 ms."""
    return regex.compile(pattern, regex.DOTALL)


# --- Phrases


def find(text: str, piece: str, *, case_sensitive: bool) -> Span | None:
    """The first place of `piece` in `text`.

    Ignoring case means Unicode case folding ("STRASSE" is "straße") and normalised accents; otherwise every character
    must match exactly.
    """
    if case_sensitive:
        start = text.find(piece)
        return None if start < 0 else (start, start + len(piece))
    wanted = _folded_piece(piece, case_sensitive=False)
    start = _folded_text(text, case_sensitive=False).find(wanted)
    return None if start < 0 else _placed(text, (start, start + len(wanted)), case_sensitive=False)


def find_forbidden(text: str, piece: str, *, case_sensitive: bool) -> Span | None:
    """The first place of `piece` as written, or else as a person reads the text. Raises `TimeoutError`.

    A person sees the same words in every spelling that the fold makes one (`text_fold`), and through Markdown, runs of
    white space and the colours of a terminal. Markup is taken out of the text only. A piece without a letter or digit
    has nothing to read, and is compared as written.
    """
    found = find(text, piece, case_sensitive=case_sensitive)
    if found is not None:
        return found
    found = _found_as_read(text, piece, case_sensitive=case_sensitive)
    return found if found is None or _as_it_stands(text) else place(text, found, case_sensitive=case_sensitive)


def is_forbidden(text: str, piece: str, *, case_sensitive: bool) -> bool:
    """Whether `find_forbidden` finds a place, in less time."""
    folded = text if case_sensitive else _folded_text(text, case_sensitive=False)
    if (piece if case_sensitive else _folded_piece(piece, case_sensitive=False)) in folded:
        return True
    return _found_as_read(text, piece, case_sensitive=case_sensitive) is not None


def _found_as_read(text: str, piece: str, *, case_sensitive: bool) -> Span | None:
    """The first place of `piece` in the text as it is read."""
    sought = _sought(piece, case_sensitive=case_sensitive)
    if sought is None:
        return None
    if _as_it_stands(text):
        folded = _folded_text(text, case_sensitive=case_sensitive)
    else:
        folded = as_read(text, case_sensitive=case_sensitive, home=sought.home)
    if not sought.marked and sought.letters not in _letters_read(folded):
        return None
    if not all(letter in folded for letter in sought.beyond_ascii):
        return None
    match = _pattern_as_read(piece, case_sensitive=case_sensitive).search(folded, timeout=PATIENCE_S, concurrent=False)
    return None if match is None else match.span()


def _as_it_stands(text: str) -> bool:
    """Whether only the case of a text is folded."""
    return text.isascii() and "&" not in text


def shows_nothing(text: str) -> bool:
    """Whether a reader sees nothing of it: white space, characters that are not drawn, references to those, comments
    of HTML, and punctuation alone. Brackets may be data: `[]`."""
    first = text[:1]
    if first.isascii() and first.isalnum():
        return False
    pattern = rf"(?s:[\s\p{{C}}\p{{Mn}}\p{{Po}}\p{{Pd}}\p{{Pi}}\p{{Pf}}\p{{Pc}}`{UNSEEN}\u2800\u3164]|<!--.*?-->)*+"
    return _own(pattern).fullmatch(without_references(text)) is not None


def _folded(text: str, *, case_sensitive: bool) -> str:
    text = nfc(text)
    return text if case_sensitive else text.casefold()


# Cached, because all the checks of a scenario read the same reply, and all its trials look for the same pieces.
_folded_text = functools.lru_cache(maxsize=8)(_folded)
_folded_piece = functools.lru_cache(maxsize=512)(_folded)


def nfc(text: str) -> str:
    """The text with accented letters normalised."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


_NOT_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_LETTERED = ("](", "][", "[^", "<", "\x1b")


def _letters(folded: str) -> bytes:
    """Its ASCII letters and digits. If a text lacks those of a phrase, no reading of it contains the phrase."""
    return folded.encode("ascii", "ignore").translate(None, _NOT_LETTERS)


class _Sought(NamedTuple):
    """A piece in the fold, and what any text that contains it has."""

    folded: str
    letters: bytes
    beyond_ascii: frozenset[str]
    home: Script | None
    marked: bool
    """Whether the piece may itself be markup."""


def _home_of(piece: str) -> Script | None:
    """The script that it is written in, if it is one."""
    if piece.isascii():
        return "Latin" if any(map(str.isalpha, piece)) else None
    scripts = scripts_in(piece)
    return scripts[0] if len(scripts) == 1 else None


@functools.lru_cache(maxsize=512)
def _sought(piece: str, *, case_sensitive: bool) -> _Sought | None:
    """None for a piece that has nothing to read."""
    home = _home_of(piece)
    folded = as_read(piece, case_sensitive=case_sensitive, home=home).strip(WIDTHLESS)
    # Unicode calls the radicals of Chinese characters symbols; whoever reads them sees the characters.
    lettered = any(char.isalpha() or char.isdecimal() or "\u2e80" <= char <= "\u2fdf" for char in piece)
    if not lettered or not any(char.isalnum() for char in folded):
        return None
    beyond = frozenset(
        char for char in folded if char > "\x7f" and char not in (DASH, WIDTHLESS) and not char.isspace()
    )
    return _Sought(folded, _letters(folded), beyond, home, marked=any(mark in folded for mark in "[<"))


@functools.lru_cache(maxsize=8)
def _letters_read(folded: str) -> bytes:
    """The letters of a text and, if it may contain markup with letters of its own, also those without the markup."""
    if not any(mark in folded for mark in _LETTERED):
        return _letters(folded)
    return _letters(folded) + b" " + _letters(_own(_LETTERED_MARKUP).sub("", folded, timeout=PATIENCE_S))


def _placed(text: str, span: Span, *, case_sensitive: bool) -> Span:
    """The place in `text` of a span of its folded form; folding can change the length."""
    if text.isascii():
        return span
    first, reached = len(text), 0
    for cluster in _own(_CLUSTER).finditer(text):
        reached += len(_folded(cluster[0], case_sensitive=case_sensitive))
        if reached > span[0]:
            first = min(first, cluster.start())
        if reached >= span[1]:
            return first, max(first, cluster.end())
    return first, len(text)


# --- Phrases as a person reads them

_UNSEEN = r"\0-\x08\x0e-\x1a\x7f"
"""The control characters of ASCII. Those that begin and end a terminal's colours are needed until then."""

_MARKUP = {
    "*": r"(?<![\s*])\*++|\*++(?!\s)",
    "_": r"(?<![^\W_])_++(?!\s)|(?<!\s)_++(?![^\W_])",
    "~": r"~~",
    "`": r"`++",
    "[": (
        r"!?\[(?=[^\[\]\n]{1,300}\][(\[])"
        r"|\](?:\([^()\n]{0,1000}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)|\[[^\]\n]{0,200}\])"
        r"|\[\^[^\]\s]{1,30}\]"
    ),
    "<": r"</?(?!(?i:br)\b)[A-Za-z][^<>\n]{0,300}>|<!--(?:[^\n-]|-(?!->)){0,300}+-->",
    "\\": r"\\(?=[!-/:-@\[-`{-~\n])",
    "\x1b": r"\x1b(?:\[[0-?]{0,100}[ -/]{0,10}[@-~]|\][^\x07\x1b\n]{0,1000}(?:\x07|\x1b\\)?)",
}
"""Markup of Markdown and terminals, by the character it needs. A lone `*` is not emphasis, nor is the `_` in a name."""

_NEW_LINE = r"(?i:<br\b[^<>\n]{0,300}>)"
_LETTERED_MARKUP = "|".join([_MARKUP["["], _MARKUP["<"], _MARKUP["\x1b"], _NEW_LINE])
_BREAK = rf"[\s{WIDTHLESS}]|{_NEW_LINE}|(?<=\n[ \t>]{{0,9}})>"
_TOKEN = (
    rf"(?P<space>{WIDTHLESS}*\s[\s{WIDTHLESS}]*)|(?P<widthless>{WIDTHLESS}+)|(?P<unseen>[{_UNSEEN}]+)|(?P<single>')"
    rf"|(?P<dash>[{DASH}-]+)|(?P<plain>.)"
)


@functools.lru_cache(maxsize=512)
def _pattern_as_read(piece: str, *, case_sensitive: bool) -> regex.Pattern[str]:
    """The phrase as a pattern for texts `as_read` that ignores what a reader does not see.

    The repeats are possessive, so that a search takes linear time.
    """
    sought = _sought(piece, case_sensitive=case_sensitive)
    folded = "" if sought is None else sought.folded
    marks = "".join(f"|{form}" for mark, form in _MARKUP.items() if mark not in folded)
    between = rf"(?:[{_UNSEEN}]{marks})*+"
    inside = rf"(?:[{_UNSEEN}{WIDTHLESS}]{marks})*+"
    anything = rf"(?:[{_UNSEEN}]|{_BREAK}{marks})*+"
    gap = rf"{between}(?:(?:{_BREAK}){between})++"
    parts: list[str] = []
    for token in _own(_TOKEN).finditer(folded):
        kind, start = token.lastgroup, token.start()
        if kind == "unseen":
            continue
        if kind == "space":
            parts.append(gap)
        elif kind == "widthless":
            parts.append(f"(?:{gap})?+")
        elif kind == "single":
            parts.append(rf"(?:{inside}'|`)")
        else:
            unspaced = is_unspaced(folded[start]) or is_unspaced(folded[start - 1])
            parts += [(anything if unspaced else inside) if parts else "", _token(kind, token[0])]
    # A dash may have spaces around it or not.
    dash = f"[{DASH}-]++"
    pattern = "".join(parts).replace(f"{gap}{inside}{dash}{gap}", f"(?:{gap})?{inside}{dash}(?:{gap})?+")
    return regex.compile(pattern)


def _token(kind: str | None, text: str) -> str:
    return f"[{DASH}-]++" if kind == "dash" else regex.escape(text, special_only=True)


# --- Regular expressions


@contextmanager
def search_limit(seconds: float) -> Generator[None]:
    """A limit other than one second for `search` and `search_all`, in this task and what it starts; a lower limit
    applies to all searches of patterns."""
    before = _patience_s.set(seconds)
    try:
        yield
    finally:
        _patience_s.reset(before)


def within_limit(seconds: float) -> float:
    """`seconds`, or the `search_limit` if that is lower."""
    return min(seconds, _patience_s.get())


async def search(pattern: str, text: str, *, case_sensitive: bool) -> Span | None:
    """Where `pattern` first matches anywhere in `text`. Raises `TimeoutError` after a second of searching.

    Nearly all searches finish at once, in place. One that does not is repeated in a thread without the interpreter's
    lock, because blocking for a second would spoil the timing of every other trial.
    """
    try:
        # Releasing the interpreter's lock for two microseconds would mean queueing for it behind the writer.
        return search_now(pattern, text, case_sensitive=case_sensitive, timeout_s=GLANCE_S)
    except TimeoutError:
        found = await asyncio.to_thread(_all, pattern, text, case_sensitive, _patience_s.get(), 1)
        return found[0] if found else None


def search_now(pattern: str, text: str, *, case_sensitive: bool, timeout_s: float) -> Span | None:
    """`search` without a thread, with its own time limit. Ignoring case means the same as in `find`."""
    searched, plain = _searched(pattern, text, case_sensitive=case_sensitive)
    if most_steps(pattern) * len(text) <= _STEPS_AT_ONCE:
        match = searched.search(plain, concurrent=False)
    else:
        match = searched.search(plain, timeout=within_limit(timeout_s), concurrent=False)
    return None if match is None else _unnormalized(text, plain, match.span())


async def search_all(pattern: str, text: str, *, case_sensitive: bool) -> list[Span]:
    """Every place where `pattern` matches, as in `search`, without empty matches."""
    try:
        found = _all(pattern, text, case_sensitive, GLANCE_S, None)
    except TimeoutError:
        found = await asyncio.to_thread(_all, pattern, text, case_sensitive, _patience_s.get(), None)
    return [(start, end) for start, end in found if end > start]


def _all(pattern: str, text: str, case_sensitive: bool, timeout_s: float, most: int | None) -> list[Span]:
    searched, plain = _searched(pattern, text, case_sensitive=case_sensitive)
    found: list[Span] = []
    for match in searched.finditer(plain, timeout=timeout_s, concurrent=timeout_s > GLANCE_S):
        found.append(_unnormalized(text, plain, match.span()))
        if len(found) == most:
            break
    return found


def _searched(pattern: str, text: str, *, case_sensitive: bool) -> tuple[regex.Pattern[str], str]:
    """The compiled pattern, and the text to search."""
    if case_sensitive or text.isascii():
        return compiled(pattern, case_sensitive=case_sensitive), text
    return compiled(pattern, case_sensitive=False, every_letter=True), unicodedata.normalize("NFC", text)


_STEPS_AT_ONCE = 200_000
"""Taken within a few milliseconds. Watching the time would cost more than nearly all of these searches."""

_ONE_STEP = re.compile(
    r"(?:[\w ,'\"/%;:=<>@!~`&#.|^$)-]"  # literals, any character, alternatives, borders, the end of a group
    r"|\\[bBdDsSwW]|\\[^\w\s]"  # classes, borders and escaped punctuation
    r"|\((?:\?:)?(?!\?)"  # groups
    r"|\[\^?[\w ,.;:/%'\"@!=<>#]+\]"  # sets of the simple kind
    r")+",
    re.ASCII,
)


@functools.lru_cache(maxsize=512)
def most_steps(pattern: str) -> float:
    """The most steps that a search can take at one place of a text; infinite if the pattern may repeat anything.

    Without repetition only alternatives in groups make a search go back, and each at most doubles the ways to go.
    """
    if not _ONE_STEP.fullmatch(pattern):
        return math.inf
    alternatives = pattern.count("|") if "(" in pattern else 0
    return len(pattern) * 2.0 ** min(alternatives, 64)


_GROUP_CALL = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\))"
_PIECE = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|."


def unrolled_size(pattern: str) -> int:
    """The number of elements in a pattern with all repeats expanded, as in compilation."""
    groups: list[int] = []
    total, last = 0, 0
    for piece in _own(_PIECE).finditer(pattern):
        if piece[1] is not None:
            again = max(int(piece[1]) - 1, 0)
            total, last = total + last * again, last * (again + 1)
        elif piece[0] == "(":
            groups.append(total)
            total = 0
        elif piece[0] == ")" and groups:
            last = total + 1
            total = groups.pop() + last
        else:
            total, last = total + 1, 1
        if total > LARGEST_PATTERN:
            break
    return total + sum(groups)


def check_size(pattern: str) -> None:
    """Raises `regex.error` for a pattern that is too large to compile, or that calls its own groups: one that calls
    itself takes memory until none is left."""
    if "(?" in pattern and any(_own(_GROUP_CALL).findall(pattern)):
        raise regex.error("calls of groups, such as (?R) or (?1), are not supported")
    if unrolled_size(pattern) > LARGEST_PATTERN:
        raise regex.error(f"too large: with its repeats written out it has more than {LARGEST_PATTERN:,} pieces")


_LETTER_BEYOND_ASCII = re.compile(r"[^\W\x00-\x7f]")


@functools.lru_cache(maxsize=512)
def compiled(pattern: str, *, case_sensitive: bool, every_letter: bool = False) -> regex.Pattern[str]:
    """Compile a pattern. Cached, as a lookup in the library's own cache costs more than a search.

    `every_letter` also folds letters that become several, which is ten times slower and useless while the letters of
    both sides are ASCII. Raises `regex.error`, also for a pattern that would take too much memory.
    """
    check_size(pattern)
    if case_sensitive:
        return regex.compile(pattern)
    full = regex.FULLCASE if every_letter or _LETTER_BEYOND_ASCII.search(pattern) else 0
    return regex.compile(nfc(pattern), regex.IGNORECASE | full)


def _unnormalized(text: str, plain: str, span: Span) -> Span:
    """A span of the normalised text as a span of the text itself."""
    return span if plain == text else _placed(text, span, case_sensitive=True)
