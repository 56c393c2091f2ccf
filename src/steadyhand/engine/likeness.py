"""How alike two replies are, at a cost that does not grow with the square of a long one."""

from __future__ import annotations

import difflib
from collections import Counter

_SHORT = 600


def likeness(one: str, other: str) -> float:
    """From 0 to 1. Short texts are compared by their letters, long ones by their words in order."""
    one, other = " ".join(one.casefold().split()), " ".join(other.casefold().split())
    if one == other:
        return 1.0
    if max(len(one), len(other)) <= _SHORT:
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    first, second = one.split(), other.split()
    shared = (Counter(first) & Counter(second)).total()
    at_most = 2.0 * shared / (len(first) + len(second))
    # Matching words in order can only find fewer than matching them in any order.
    if at_most < 0.5:
        return at_most
    return difflib.SequenceMatcher(None, first, second).ratio()
