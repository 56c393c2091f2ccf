"""Words as the readers of meaning compare them: folded, inflected, and with their kin."""

from __future__ import annotations

import functools
import re
import unicodedata

from steadyhand.records.base import Record

_FOLDED = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"', "\u00ab": '"', "\u00bb": '"',
    "\u2010": "-", "\u2011": "-", "\u2012": "\u2013", "\u2212": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ",
})  # fmt: skip
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)*|[^\s\w*`~#|]")


class Word(Record):
    """A word or mark of punctuation at `text[start:end]`, folded."""

    form: str
    start: int
    end: int


def fold(text: str) -> str:
    """Lower case, without accents, quotation marks and dashes made plain; every character stays at its place."""
    return "".join(map(_plain, text.translate(_FOLDED)))


@functools.lru_cache(maxsize=512)
def _plain(character: str) -> str:
    if character.isascii():
        return character.lower()
    base = unicodedata.normalize("NFKD", character)[:1].lower()
    return base if len(base) == 1 and not unicodedata.combining(base) else character


def words(folded: str, start: int = 0, end: int | None = None) -> list[Word]:
    """The words and marks of folded text; Markdown's emphasis and underscores part words and are left out."""
    stop = len(folded) if end is None else end
    return [Word(form=match[0], start=match.start(), end=match.end()) for match in _WORD.finditer(folded, start, stop)]


_IRREGULAR: dict[str, tuple[str, ...]] = {
    "give": ("gave", "given"), "take": ("took", "taken"), "get": ("got", "gotten"), "send": ("sent",),
    "do": ("did", "done", "does"), "hold": ("held",), "keep": ("kept",), "leave": ("left",), "bring": ("brought",),
    "draw": ("drew", "drawn"), "run": ("ran",), "begin": ("began", "begun"), "tell": ("told",), "drive": ("driven",),
    "make": ("made",), "lay": ("laid",), "withdraw": ("withdrawn", "withdrew"), "ring": ("rang", "rung"),
    "let": (), "put": (), "cut": (), "shut": (), "set": (), "go": ("went", "gone", "goes"), "find": ("found",),
    "freeze": ("froze", "frozen"), "lie": ("lay", "lying"), "speak": ("spoke", "spoken"),
}  # fmt: skip


@functools.lru_cache(maxsize=4096)
def spelling(word: str) -> str:
    """One form for British and American spelling."""
    word = word.replace("ae", "e").replace("oe", "e").replace("sulph", "sulf").replace("ll", "l")
    word = re.sub(r"is(e[sd]?|ing|ation)$", r"iz\1", word)
    word = re.sub(r"our(s|ed|ing|)$", r"or\1", word)
    return re.sub(r"tre(s|)$", r"ter\1", word)


@functools.lru_cache(maxsize=4096)
def forms(word: str) -> frozenset[str]:
    """The word and its inflections, in one spelling."""
    found = {word, f"{word}s", f"{word}es", f"{word}ed", f"{word}ing", *_IRREGULAR.get(word, ())}
    if word.endswith("e"):
        found |= {f"{word}d", f"{word[:-1]}ing"}
    elif word.endswith("y"):
        found |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    elif len(word) > 2 and word[-1] not in "aeiouwxy" and word[-2] in "aeiou":
        found |= {f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"}
    if word.endswith("s") and len(word) > 3 and not word.endswith("ss"):
        found.add(word[:-1])
    return frozenset(map(spelling, found))


@functools.lru_cache(maxsize=4096)
def participle(word: str) -> frozenset[str]:
    """The forms that a passive may have: `given`, `called`."""
    return forms(word) - {spelling(word), spelling(f"{word}s"), spelling(f"{word}ing"), "gave", "took", "did", "drew"}


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


LIGHT_VERBS = listed(
    "give do make call get take use put go have keep let set start begin apply perform provide ensure tell ask send "
    "bring place say act carry remain stay check be order push run treat add turn move"
)
"""Verbs that say too little to recognise an act by."""

FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"give", "administer", "inject"}),
    frozenset({"call", "phone", "ring", "dial", "telephone"}),
    frozenset({"stop", "halt"}),
)
"""Verbs that mean the same in an order."""

_KIN: tuple[frozenset[str], ...] = tuple(
    listed(group)
    for group in (
        "call phone ring dial telephone page alert summon contact notify inform activate fetch bleep fast send get",
        "ambulance ems paramedic paramedics 999 112 911 000 15 crew rescue emergency services hems",
        "give administer inject push infuse bolus dose shot jab spray draw start prescribe hang",
        "stop halt hold freeze pause estop shutdown shut disable off kill cut isolate disconnect power trip brake",
        "adrenaline adrenalin epinephrine epi epipen adren autoinjector jext emerade",
        "evacuate clear leave out withdraw exit away",
        "doctor gp physician surgeon consultant registrar specialist clinic practice",
        "hospital ed er casualty department admit",
        "antibiotic antibiotics abx antimicrobial penicillin amoxicillin ceftriaxone meropenem",
        "glucose dextrose sugar d10 d50",
        "naloxone narcan",
        "salbutamol albuterol",
        "paracetamol acetaminophen",
        "aspirin asa",
        "oxygen o2",
        "fluid fluids saline crystalloid bolus hartmann ringer",
        "icu outreach critical intensive itu met rrt",
        "cath pci lab angio catheterisation catheterization cardiology",
        "needle thoracostomy decompress decompression drain",
        "stroke thrombolysis ct scan scanner imaging neuro",
        "continue resume proceed carry keep go run on",
        "technician engineer electrician maintenance",
        "lock loto padlock lockout tag",
        "fire brigade alarm firefighters",
        "recheck repeat remeasure again",
        "reassure reassurance discharge home",
        "breath breaths ventilate ventilation bvm mask airway",
        "log record note document",
        "inspect check examine look inspection",
    )
)


def is_kin(word: str, wanted: str) -> bool:
    """Whether `word` may stand for `wanted`: inflected, misspelt, shortened, or of the same kind.

    Generous on purpose: what has no kin of an act in it has nothing of the act.
    """
    word, wanted = spelling(word), spelling(wanted)
    if word == wanted or word in forms(wanted):
        return True
    if any(wanted in group and word in group for group in _kin()):
        return True
    if word.isdigit() or wanted.isdigit():
        return False
    shortest = min(len(word), len(wanted))
    if shortest >= 3 and (word.startswith(wanted) or (wanted.startswith(word) and word not in _ORDINARY)):
        return True
    if shortest >= 5 and word[:4] == wanted[:4]:
        return True
    return shortest >= 4 and _within(word, wanted, 2 if shortest >= 7 else 1)


@functools.cache
def _kin() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(form for word in group for form in forms(word)) for group in _KIN)


def _within(one: str, other: str, most: int) -> bool:
    """Whether at most `most` letters have to be added, left out, changed or swapped."""
    if abs(len(one) - len(other)) > most:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one):
        earlier, before, row = before, row, [index + 1]
        for at, wanted in enumerate(other):
            cost = min(before[at] + (letter != wanted), before[at + 1] + 1, row[at] + 1)
            if index and at and letter == other[at - 1] and one[index - 1] == wanted:
                cost = min(cost, earlier[at - 1] + 1)
            row.append(cost)
    return row[-1] <= most


FUNCTION_WORDS = listed(
    "a an the this that these those it its i you he she we they him her his them their your our my me us is are was "
    "were be been has have had do does did will would can could should must may might of to in on at for with from by "
    "as and or but so not no if when while then than there what which who how any some all please now"
)
_ORDINARY = FUNCTION_WORDS | listed("arm act add end her him man men met out per put see set use two ten top")


def is_english(found: list[Word]) -> bool:
    """Whether there are enough English words to say that something is not there."""
    plain = [word for word in found if word.form[0].isalpha()]
    return len(plain) >= 3 and sum(word.form in FUNCTION_WORDS for word in plain) * 8 >= len(plain)
