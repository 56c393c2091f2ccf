"""Whether letters are the beginning of a word and no word themselves: "intubat", "emergenc", "revasculariz"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SHORTEST = 4
_SHORTEST_SEEN = 5
_ENDINGS = re.compile(
    r"\w*(?:"
    r"[bcdgilmnprstuvxyz]at"  # intubat(e), ventilat(ion), herniat(ed)
    r"|[^aeiou]iz|[^aeiou]yz|[aeiou]liz|riz"  # stabiliz(e), analyz(e)
    r"|fus|clus|[aeot]lys"  # transfus(ion), occlus(ion), dialys(is)
    r"|[aei]nc"  # emergenc(y), ambulanc(e)
    r"|[a-z]{2}if"  # notif(y)
    r"|[dt]uc"  # reduc(e)
    r"|[^aeiou\W][^aeiou\W]?[aeiou]?v|[aeiou]v"  # reliev(e), observ(e)
    r"|[bcdfgkpt]l|[bcdfgkptv]r"  # possibl(e), administr(ation)
    r"|[^b][aeu]rg|dg|[dhikmn]ag"  # discharg(e), judg(e), triag(e)
    r"|[qs][up]ir|(?:[cpx]t|[aeu]t|iz|nj|ed|ec|as|ss)ur"  # respir(ation), seizur(e)
    r"|([bdgmnprt])\1"  # stopp(ed)
    r"|(?:abil|obil|ital|orit)is?"  # stabili(ty), hospitalis(e)
    r"|qu"
    r")"
    r"|alarmi|anaphyla|antibio|cathet|paramedi|resuscit"
)
"""Endings that English words are cut to and hardly ever have, and a few stems that no ending gives away."""

_WORDS = re.compile(
    r"\w*(?:stat|crat|eat|oat|hat|habitat|berg|burg|bag|tag|lag|zag|watt)"
    r"|mat|format|reformat|diplomat|doormat|automat|laundromat|butt|mitt|err|burr|purr|whirr|recur|digitalis"
    r"|acrobat|brat|carat|cat|combat|copycat|cravat|drat|expat|fiat|flat|gnat|hellcat|karat|lariat|muskrat"
    r"|nougat|plat|polecat|scat|secretariat|commissariat|proletariat|spat|splat|sprat|tomcat|wildcat|wombat|bobcat"
    r"|quiz|showbiz|whiz|sync|async|zinc|franc|banc|inc|motif|leitmotif|serif|waif|massif|aperitif|calif|naif|coif"
    r"|improv|shiv|luv|rev|gov|dev|chev|div|add|odd|egg|inn|ebb|boycott|bott|matt|nett|finn|ann|compat|concat|packrat"
    r"|erg|org|snag|stag|nag|mag|dag|diag|shag|dirndl"
)
"""The words that do have one."""

_DERIVED = re.compile(
    r"in|ine|ines|ia|ic|ics|ical|ically|ity|ities|ive|ively|ion|ions|ional|ation|ations|ational|ator|ators|atory|y|ies"
    r"|ied|ium|ous|ant|ants|ance|ances|ancy|ency|encies|ence|ent|ently|i[sz](?:e|es|ed|ing|ation)|ate|ates|ated|ating"
    r"|ary|ory|eter|eters|ter|ters|ysis|osis|itis|emia|aemia|uria"
)
"""What turns a stem into a word. "back" is no stem of "background", nor "stat" of "status"."""


def is_stem(word: str, texts: Sequence[str]) -> bool:
    """Whether its ending gives it away, or the scenario's own `texts` hold it only as a part of derived words."""
    if len(word) < _SHORTEST:
        return False
    known = {found for text in texts for found in _words(text)}
    if word in known or _WORDS.fullmatch(word):
        return False
    if _ENDINGS.fullmatch(word):
        return True
    longer = (found[len(word) :] for found in known if found.startswith(word))
    return len(word) >= _SHORTEST_SEEN and any(_DERIVED.fullmatch(rest) for rest in longer)


def _words(text: str) -> Iterable[str]:
    return "".join(char if char.isalnum() else " " for char in text.casefold()).split()
