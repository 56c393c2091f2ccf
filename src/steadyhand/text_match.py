"""The text matcher for phrases, forbidden phrases and regular expressions.

Places refer to the text as given, whatever form it was compared in.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import unicodedata
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import regex

Span = tuple[int, int]

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

    A person sees the same words through typographic quotation marks and dashes, runs of white space and line breaks,
    spaces that do not break or have no width, soft hyphens, Markdown, the colours of a terminal, character references
    of HTML and styled letters. Markup is taken out of the text only. A piece without a letter or digit has nothing to
    read, and is compared as written.
    """
    found = find(text, piece, case_sensitive=case_sensitive) or _find_read(text, piece, case_sensitive=case_sensitive)
    if found is not None:
        return found
    plain, replaced = _spelled_out(text)
    found = _find_read(plain, piece, case_sensitive=case_sensitive) if replaced else None
    return None if found is None else _before_spelling_out(found, replaced)


def _find_read(text: str, piece: str, *, case_sensitive: bool) -> Span | None:
    folded = _folded_text(text, case_sensitive=case_sensitive)
    wanted, marked = _letters_of_piece(piece, case_sensitive=case_sensitive)
    if not marked and wanted not in _letters_read(folded):
        return None
    pattern = _as_read(piece, case_sensitive=case_sensitive)
    match = None if pattern is None else pattern.search(folded, timeout=PATIENCE_S, concurrent=False)
    return None if match is None else _placed(text, match.span(), case_sensitive=case_sensitive)


def shows_nothing(text: str) -> bool:
    """Whether a reader sees nothing of it: white space, characters that are not drawn, and references to those."""
    first = text[:1]
    if first.isascii() and first.isalnum():
        return False
    return _own(rf"[\s\p{{C}}\p{{Mn}}{_UNSEEN}{_WIDTHLESS}]*+").fullmatch(_spelled_out(text)[0]) is not None


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


@functools.lru_cache(maxsize=512)
def _letters_of_piece(piece: str, *, case_sensitive: bool) -> tuple[bytes, bool]:
    """The letters of a piece, and whether it may itself be markup."""
    return _letters(_folded(piece, case_sensitive=case_sensitive)), any(mark in piece for mark in "[<")


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

_SINGLE = "'\u2018\u2019\u201a\u201b\u02b9\u02bc\u2032\u00b4\u055a\ua78c\uff07"
_DOUBLE = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02'
_DASHES = "\\-\u2010-\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d"
_UNSEEN = (
    "\0-\x08\x0e-\x1a\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f"
    "\u202a-\u202e\u2061-\u206f\ufe00-\ufe0f\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
"""Control characters, and what Unicode says to ignore where it cannot be shown."""

_WIDTHLESS = "\u200b\u2060\u2800\u3164\ufeff"
"""A space between words, nothing inside a word."""

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
_BREAK = rf"[\s{_WIDTHLESS}]|{_NEW_LINE}|(?<=\n[ \t>]{{0,9}})>"
_OTHERWISE_SPELLED = (
    r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
    r"|[\u2100-\u214f\u249c-\u24e9\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f149]"
)
"""Character references of HTML, and letters and digits in another style: full-width, mathematical, in circles."""

_TOKEN = (
    rf"(?P<space>[{_WIDTHLESS}]*\s[\s{_WIDTHLESS}]*)|(?P<widthless>[{_WIDTHLESS}]+)|(?P<unseen>[{_UNSEEN}]+)|(?P<single>[{_SINGLE}])"
    rf"|(?P<double>[{_DOUBLE}])|(?P<dash>[{_DASHES}]+)|(?P<dots>\.\.\.|\u2026)|(?P<plain>.)"
)


@functools.lru_cache(maxsize=8)
def _spelled_out(text: str) -> tuple[str, tuple[tuple[Span, Span], ...]]:
    """The text in ordinary letters, and every place in it that was replaced, with the place it had before."""
    if "&" not in text and text.isascii():
        return text, ()
    import html  # its table of names takes long to load

    parts: list[str] = []
    replaced: list[tuple[Span, Span]] = []
    taken = length = 0
    for found in _own(_OTHERWISE_SPELLED).finditer(text):
        meant = html.unescape(found[0]) if found[0][0] == "&" else unicodedata.normalize("NFKC", found[0])
        if meant == found[0]:
            continue
        parts += [text[taken : found.start()], meant]
        length += found.start() - taken
        replaced.append(((length, length + len(meant)), found.span()))
        taken, length = found.end(), length + len(meant)
    return "".join([*parts, text[taken:]]), tuple(replaced)


def _before_spelling_out(span: Span, replaced: Sequence[tuple[Span, Span]]) -> Span:
    """The place in the text itself of a span of the text spelled out."""
    start, end = span
    for (first, last), (first_before, last_before) in replaced:
        if first <= span[0] < last:
            start = first_before
        elif last <= span[0]:
            start = span[0] + last_before - last
        if first < span[1] <= last:
            end = last_before
        elif last < span[1]:
            end = span[1] + last_before - last
    return start, end


@functools.lru_cache(maxsize=512)
def _as_read(piece: str, *, case_sensitive: bool) -> regex.Pattern[str] | None:
    """The phrase as a pattern for folded texts that ignores what a reader does not see; None without a letter or digit.

    The repeats are possessive, so that a search takes linear time.
    """
    folded = _folded(piece, case_sensitive=case_sensitive)
    if not any(char.isalnum() for char in folded):
        return None
    marks = "|".join(form for mark, form in _MARKUP.items() if mark not in folded)
    between = rf"(?:[{_UNSEEN}]|{marks})*+" if marks else rf"[{_UNSEEN}]*+"
    inside = rf"(?:[{_UNSEEN}{_WIDTHLESS}]|{marks})*+" if marks else rf"[{_UNSEEN}{_WIDTHLESS}]*+"
    gap = rf"{between}(?:(?:{_BREAK}){between})++"
    parts: list[str] = []
    for token in _own(_TOKEN).finditer(folded):
        kind = token.lastgroup
        if kind == "unseen":
            continue
        if kind == "space":
            parts.append(gap)
        elif kind == "widthless":
            parts.append(f"(?:{gap})?+")
        elif kind == "single":
            parts.append(rf"(?:{inside}[{_SINGLE}]|`)")
        else:
            parts += [inside if parts else "", _token(kind, token[0])]
    # A dash may have spaces around it or not.
    pattern = "".join(parts).replace(f"{gap}{inside}[{_DASHES}]++{gap}", f"(?:{gap})?{inside}[{_DASHES}]++(?:{gap})?+")
    return regex.compile(pattern)


def _token(kind: str | None, text: str) -> str:
    match kind:
        case "double":
            return f"[{_DOUBLE}]"
        case "dash":
            return f"[{_DASHES}]++"
        case "dots":
            return r"(?:\.\.\.|\u2026)"
        case _:
            return regex.escape(text, special_only=True)


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
