"""Regular expressions in scenario files, checked when they are read.

Checks run on the `regex` module, because it can stop after a second. Compiling with it costs three times what `re`
costs, so a pattern made only of what both read alike is accepted on the word of `re`.
"""

from __future__ import annotations

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


_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|\()|.", re.DOTALL)
_ASSERTION = re.compile(r"\\[bBAZzGmM]|\(\?(?:<?[=!]|\()|[\^$]")


class Finding(NamedTuple):
    """`error` says why a pattern does not compile, `empty` that it is found in an empty reply and `always` that it is
    found in every reply."""

    error: str | None = None
    empty: bool = False
    always: bool = False


_FINE = Finding()


def inspect_pattern(pattern: str) -> Finding:
    """Compile a regular expression the way the checks will read it, accented letters in one spelling too."""
    if not pattern.isascii() and (composed := unicodedata.normalize("NFC", pattern)) != pattern:
        return max(_inspect(pattern), _inspect(composed), key=lambda found: found.error is not None)
    return _inspect(pattern)


def _inspect(pattern: str) -> Finding:
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
            return _FINE if found is None else Finding(empty=True, always=_cannot_miss(pattern))
    return _inspect_with_regex(pattern)


def _may_be_large(pattern: str) -> bool:
    """Whether its repeats could add up to more than is compiled; `re` would not notice."""
    size = len(pattern)
    for count in _COUNT.findall(pattern):
        size *= max(int(count[:6]), 1)
    return size > 50_000


def check_pattern(pattern: str) -> str | None:
    """What is wrong with a regular expression, or None when it compiles."""
    return inspect_pattern(pattern).error


def _inspect_with_regex(pattern: str) -> Finding:
    import regex  # slow to import, and not needed for most files

    from steadyhand.text_match import check_size

    try:
        check_size(pattern)
        found = regex.compile(pattern).search("", timeout=1.0)
        return _FINE if found is None else Finding(empty=True, always=_cannot_miss(pattern))
    except regex.error as error:
        return Finding(error=str(error))
    except TimeoutError:
        return _FINE
    except (OverflowError, RecursionError, ValueError) as error:
        return Finding(error=str(error) or type(error).__name__)


def _cannot_miss(pattern: str) -> bool:
    """Whether a pattern that matches an empty text matches at some place of every text.

    It does where nothing in it looks around; an anchor at one of its ends is found everywhere as well.
    """
    atoms = _ATOM.findall(pattern)
    if atoms[:1] == ["^"]:
        del atoms[0]
    elif atoms[-1:] == ["$"]:
        del atoms[-1]
    return not any(_ASSERTION.fullmatch(atom) for atom in atoms)


def is_blank(text: str) -> bool:
    """Whether a text has nothing in it that can be seen."""
    return all(character.isspace() or unicodedata.category(character) in _UNSEEN for character in text)


_UNSEEN = ("Cc", "Cf", "Mn")
