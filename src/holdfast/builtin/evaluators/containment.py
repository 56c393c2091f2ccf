"""Whether a text has a given piece in it, and where."""

from __future__ import annotations

import unicodedata

from holdfast.records.base import Record


class Finding(Record):
    """Where a piece was found in `text`, which is the searched text in the form it was compared in."""

    text: str
    start: int
    end: int


def find(text: str, piece: str, *, case_sensitive: bool) -> Finding | None:
    """The first place of `piece` in `text`.

    Ignoring case means Unicode case folding ("STRASSE" is "straße") and one spelling of accented letters; otherwise
    every character counts as it stands.
    """
    if case_sensitive:
        start = text.find(piece)
        return None if start < 0 else Finding(text=text, start=start, end=start + len(piece))
    text = unicodedata.normalize("NFC", text)
    wanted = _fold(piece)
    start = _fold(text).find(wanted)
    if start < 0:
        return None
    return Finding(text=text, start=_unfold(text, start), end=_unfold(text, start + len(wanted) - 1) + 1)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _unfold(text: str, folded: int) -> int:
    """The index in `text` of the character whose folding covers index `folded`; folding can lengthen a text."""
    reached = 0
    for index, character in enumerate(text):
        reached += len(character.casefold())
        if reached > folded:
            return index
    return len(text)
