"""Regular expressions in scenario files, checked when they are read.

Checks run on the `regex` module, which can time out. It compiles three times as slowly as `re`, so a pattern that
consists only of syntax both read alike is checked with `re`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import NamedTuple

_COUNT = re.compile(r"\{(\d+)")
_LITERAL = re.compile(r"[\w ,'\"/%;:=<>@!~`&-]+")
_ALIKE = re.compile(
    r"(?:\(\?[ims]{1,3}\))?"  # flags, in front
    r"(?:[\w ,'\"/%;:=<>@!~`.|)&#-]|[^\x00-\x7f]"  # literals, any character, alternatives, the end of a group
    r"|\\[dDsSwW.()*+?|{}\[\]^$/\\-]"  # classes and escaped punctuation
    r"|(?:\\[bB]|[\^$])(?![*+?{])"  # borders, not repeated
    r"|\((?:\?(?:[:=!]|<[=!]))?(?![?*+{])"  # groups, lookahead and lookbehind
    r"|(?<![*+?}(|])(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??(?![*+?{])"  # repeats, neither stacked nor possessive
    r"|\[\^?(?:[a-zA-Z0-9]-[a-zA-Z0-9]|\\[dDsSwW.]|[\w ,.;:/%'\"+*?()$@!=<>#])+\]"  # sets of the simple kind
    r")+"
)
_ESCAPED = re.compile(r"\\.")
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|\()|.", re.DOTALL)
_ASSERTION = re.compile(r"\\[bBAZzGmM]|\(\?(?:<?[=!]|\()|[\^$]")
_UNSEEN = ("Cc", "Cf", "Mn")


class PatternFinding(NamedTuple):
    """`error`: why a pattern does not compile; `empty`: it matches an empty reply; `always`: it matches every reply."""

    error: str | None = None
    empty: bool = False
    always: bool = False


_FINE = PatternFinding()


def inspect_pattern(pattern: str) -> PatternFinding:
    """Compile a regular expression as the checks will read it, also with accented letters normalised."""
    if not pattern.isascii() and (composed := unicodedata.normalize("NFC", pattern)) != pattern:
        return max(_inspect(pattern), _inspect(composed), key=lambda found: found.error is not None)
    return _inspect(pattern)


def _inspect(pattern: str) -> PatternFinding:
    if _may_be_large(pattern):
        return _inspect_with_regex(pattern)
    if _LITERAL.fullmatch(pattern):
        return _FINE
    if _ALIKE.fullmatch(pattern):
        try:
            found = re.compile(pattern).match("")
        except (re.error, OverflowError, RecursionError):
            pass
        else:
            return _FINE if found is None else PatternFinding(empty=True, always=_cannot_miss(pattern))
    return _inspect_with_regex(pattern)


def _may_be_large(pattern: str) -> bool:
    """Whether its repeats could add up to more than is compiled; `re` would not notice."""
    size = len(pattern)
    for count in _COUNT.findall(pattern):
        size *= max(int(count[:6]), 1)
    return size > 50_000  # `text_match.LARGEST_PATTERN`, which is slow to import


@functools.lru_cache(maxsize=512)
def _inspect_with_regex(pattern: str) -> PatternFinding:
    """Cached: a check is read again for every answer that it is tried on."""
    import regex  # slow to import, and not needed for most files

    from steadyhand.text_match import compiled, nfc

    try:
        # As most checks search, so that they need not compile it again. Case makes no difference to an empty text.
        found = compiled(pattern, case_sensitive=nfc(pattern) != pattern).search("", timeout=1.0)
        return _FINE if found is None else PatternFinding(empty=True, always=_cannot_miss(pattern))
    except regex.error as error:
        return PatternFinding(error=str(error))
    except TimeoutError:
        return _FINE
    except (OverflowError, RecursionError, ValueError) as error:
        return PatternFinding(error=str(error) or type(error).__name__)


def _cannot_miss(pattern: str) -> bool:
    """Whether a pattern that matches the empty text matches somewhere in every text.

    It does if it has no assertions; a single anchor at one end matches everywhere, too.
    """
    atoms = _ATOM.findall(pattern)
    if atoms[:1] == ["^"]:
        del atoms[0]
    elif atoms[-1:] == ["$"]:
        del atoms[-1]
    return not any(_ASSERTION.fullmatch(atom) for atom in atoms)


def matches(pattern: str, text: str, *, case_sensitive: bool) -> bool:
    """Whether a pattern that compiles matches in a short text."""
    if pattern.isascii() and not _may_be_large(pattern) and _ALIKE.fullmatch(pattern):
        if case_sensitive or re.search(pattern, text.lower()) is not None:  # as it was just inspected
            return not case_sensitive or re.search(pattern, text) is not None
        capitals = _ESCAPED.sub("", pattern)
        return capitals != capitals.lower() and re.search(pattern, text, re.IGNORECASE) is not None
    from steadyhand.text_match import search_now

    try:
        return search_now(pattern, text, case_sensitive=case_sensitive, timeout_s=1.0) is not None
    except TimeoutError:
        return False


def is_blank(text: str) -> bool:
    """Whether a text has no visible characters."""
    return all(character.isspace() or unicodedata.category(character) in _UNSEEN for character in text)
