"""Lines that choose one of several options."""

from __future__ import annotations

import re
from collections.abc import Sequence


def names_option(text: str, option: str) -> bool:
    """Whether the option is named, however it is written: `E_STOP`, `e-stop`, `e stop`."""
    words = [word for word in re.split(r"[\W_]+", option) if word]
    pattern = r"[\W_]*".join(map(re.escape, words))
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", text, re.IGNORECASE) is not None


def choosing_lines(text: str, options: Sequence[str], line: str) -> list[tuple[int, int, str]]:
    """The lines that choose: where each is, and its option. Emphasis and case do not matter; anything more does."""
    before, _, after = line.partition("{option}")
    names = "|".join(re.escape(option) for option in sorted(options, key=len, reverse=True))
    pattern = re.compile(
        rf"^[ \t]*[*`_]*{_spaced(before)}[*`_]*[ \t]*[*`_]*(?P<option>{names})[*`_]*{_spaced(after)}[*`_]*[ \t]*$",
        re.IGNORECASE | re.MULTILINE,
    )
    by_name = {option.casefold(): option for option in options}
    return [(match.start(), match.end(), by_name[match["option"].casefold()]) for match in pattern.finditer(text)]


def _spaced(text: str) -> str:
    return r"[ \t]+".join(re.escape(piece) for piece in text.split())
