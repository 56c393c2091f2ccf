"""Regular expressions in scenario files, checked when they are read.

Checks run on the `regex` module, because it can stop after a second. Compiling with it costs three times what `re`
costs, so a pattern made only of what both read alike is accepted on the word of `re`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

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


class Finding(NamedTuple):
    """`error` says why a pattern does not compile; `always` that it is found in every reply, even an empty one."""

    error: str | None = None
    always: bool = False


_FINE = Finding()


def inspect_pattern(pattern: str) -> Finding:
    """Compile a regular expression the way the checks will read it, accented letters in one spelling too."""
    if not pattern.isascii() and (composed := unicodedata.normalize("NFC", pattern)) != pattern:
        return max(_inspect(pattern), _inspect(composed), key=lambda found: found.error is not None)
    return _inspect(pattern)


def _inspect(pattern: str) -> Finding:
    if _LITERAL.fullmatch(pattern):
        return _FINE
    if _ALIKE.fullmatch(pattern):
        try:
            found = re.compile(pattern).match("")
        except (re.error, OverflowError, RecursionError):
            pass
        else:
            return _FINE if found is None else Finding(always=True)
    return _inspect_with_regex(pattern)


def check_pattern(pattern: str) -> str | None:
    """What is wrong with a regular expression, or None when it compiles."""
    return inspect_pattern(pattern).error


def _inspect_with_regex(pattern: str) -> Finding:
    import regex  # slow to import, and not needed for most files

    try:
        return Finding(always=regex.compile(pattern).search("", timeout=1.0) is not None)
    except regex.error as error:
        return Finding(error=str(error))
    except TimeoutError:
        return _FINE
    except (OverflowError, RecursionError, ValueError) as error:
        return Finding(error=str(error) or type(error).__name__)
