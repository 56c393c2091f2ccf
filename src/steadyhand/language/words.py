"""Words as the readers of meaning compare them: inflected, in one spelling, and with their kin."""

from __future__ import annotations

import functools
import re

from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import word_set

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
    """One form for British and American spelling. Short words are as they are."""
    if len(word) < 6:
        return word
    word = word.replace("ae", "e").replace("oe", "e").replace("sulph", "sulf")
    word = re.sub(r"ll(?=(?:ed|ing|er|ation)s?$)", "l", word)
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


LIGHT_VERBS = word_set(
    "give do make get take use put go have keep let set start begin apply perform provide ensure tell ask send bring "
    "place say act carry remain stay check be order push run treat add turn move administer inject"
)
"""Verbs that say too little to recognise an act by."""

VERBS = LIGHT_VERBS | word_set(
    "call phone ring dial telephone page alert summon contact notify inform activate fetch stop halt hold freeze pause "
    "shut disable cut isolate disconnect unplug evacuate clear leave withdraw exit admit discharge send transfer refer "
    "arrange book prepare infuse prescribe supply offer recommend advise reassure explain measure recheck repeat test "
    "monitor observe watch wait lay lie sit raise open tilt insert decompress drain perform commence continue resume "
    "proceed carry reset restart retry bridge bypass override ignore lower reduce increase slow release drop retract "
    "lock tag inspect examine replace repair log record note document report swab print measure cool warm cover press "
    "compress ventilate breathe intubate draw delay postpone cancel undo trigger sound move drive reroute yield "
    "retreat reverse return refund delete remove rename update create write escalate close ship swallow chew rub"
)
"""Words that open an order."""

FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"give", "administer", "inject", "start", "add", "infuse", "prescribe"}),
    frozenset({"call", "phone", "ring", "dial", "telephone"}),
    frozenset({"stop", "halt"}),
)
"""Verbs that mean the same in an order."""

_KIN: tuple[frozenset[str], ...] = tuple(
    word_set(group)
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
        "continue resume proceed carry keep go run on stop halt pause interrupt",
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


def is_same(word: str, wanted: str) -> bool:
    """Whether both are forms of one word, one shortens the other, or they are of the same kind."""
    alike = wanted in _KIN_OF and not _KIN_OF[wanted].isdisjoint(_KIN_OF.get(word, ()))
    if word == wanted or alike or word in forms(wanted):
        return True
    if word.isdigit() or wanted.isdigit() or min(len(word), len(wanted)) < 3:
        return False
    return word.startswith(wanted) or (wanted.startswith(word) and word not in _ORDINARY)


@functools.lru_cache(maxsize=16384)
def is_kin(word: str, wanted: str) -> bool:
    """Whether `word` may stand for `wanted`: inflected, misspelt, shortened, or of the same kind. Both in one spelling.

    Generous on purpose: what has no kin of an act in it has nothing of the act.
    """
    if is_same(word, wanted):
        return True
    shortest = min(len(word), len(wanted))
    if word.isdigit() or wanted.isdigit() or shortest < 5 or word[0] != wanted[0]:
        return False
    return word[:4] == wanted[:4] or _within(word, wanted, 2 if shortest >= 7 else 1)


def _kin() -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(_KIN):
        for form in {form for word in group for form in forms(word)}:
            found.setdefault(form, set()).add(number)
    return {form: frozenset(numbers) for form, numbers in found.items()}


_KIN_OF = _kin()
"""The groups that each word belongs to, by number. Made when the reader is loaded: no answer is being timed then."""


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


_ORDINARY = ENGLISH.closed | word_set("arm act add end man men met per put see set use two ten top")
"""Short words that are no abbreviations."""
