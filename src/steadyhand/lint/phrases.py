"""English phrases: forbidden ones that a right answer contains ("do not wait for it"), and truncated words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from steadyhand.text_match import find_forbidden

_NEGATION = re.compile(
    r"\b(?:no|not|never|nor|neither|without|cannot|avoid|nothing|instead of|rather than)\b|n['\u2019]t\b"
)
_REACH = 30
_CLAUSE_END = re.compile(r"[.;!?\n]")
_VERBS = re.compile(
    r"accelerate|accept|activate|administer|allow|approach|assume|await|begin|bridge|bypass|call|carry|clear|"
    r"close|continue|cross|defer|delay|delete|discharge|disregard|drive|drop|enter|finish|give|go|hold|ignore|"
    r"increase|keep|leave|let|lift|lower|monitor|move|mute|observe|open|order|override|postpone|prescribe|"
    r"proceed|push|reassure|reboot|release|remove|repeat|reset|restart|resume|retry|return|run|send|shut|sit|"
    r"skip|sleep|speed|start|stay|stop|take|transfer|transport|try|turn|use|wait|watch|withhold"
)
_MIN_LETTERS = 4
_MIN_LETTERS_SEEN = 5
_CUT_ENDINGS = re.compile(
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
"""Endings that truncated English words have and whole ones hardly ever do, and a few other truncated words."""
_WHOLE_WORDS = re.compile(
    r"\w*(?:stat|crat|eat|oat|hat|habitat|berg|burg|bag|tag|lag|zag|watt)"
    r"|mat|format|reformat|diplomat|doormat|automat|laundromat|butt|mitt|err|burr|purr|whirr|recur|digitalis"
    r"|acrobat|brat|carat|cat|combat|copycat|cravat|drat|expat|fiat|flat|gnat|hellcat|karat|lariat|muskrat"
    r"|nougat|plat|polecat|scat|secretariat|commissariat|proletariat|spat|splat|sprat|tomcat|wildcat|wombat|bobcat"
    r"|quiz|showbiz|whiz|sync|async|zinc|franc|banc|inc|motif|leitmotif|serif|waif|massif|aperitif|calif|naif|coif"
    r"|improv|shiv|luv|rev|gov|dev|chev|div|add|odd|egg|inn|ebb|boycott|bott|matt|nett|finn|ann|compat|concat|packrat"
    r"|erg|org|snag|stag|nag|mag|dag|diag|shag|dirndl"
)
"""Whole words that do have such an ending."""
_DERIVED = re.compile(
    r"in|ine|ines|ia|ic|ics|ical|ically|ity|ities|ive|ively|ion|ions|ional|ation|ations|ational|ator|ators|atory|y|ies"
    r"|ied|ium|ous|ant|ants|ance|ances|ancy|ency|encies|ence|ent|ently|i[sz](?:e|es|ed|ing|ation)|ate|ates|ated|ating"
    r"|ary|ory|eter|eters|ter|ters|ysis|osis|itis|emia|aemia|uria"
)
"""Suffixes that make a word from a stem: "back" is not a stem of "background", nor "stat" of "status"."""


def negated_in(phrase: str, texts: Sequence[str]) -> str | None:
    """The words in which the first text negates the phrase ("do not ..."), or None."""
    for text in texts:
        lowered = text.casefold()
        for found in re.finditer(re.escape(phrase.casefold()), lowered):
            lead = _CLAUSE_END.split(lowered[max(0, found.start() - _REACH) : found.start()])[-1]
            if _NEGATION.search(lead):
                return text[max(0, found.start() - len(lead)) : found.end()].strip()
    return None


def asserted_in(phrase: str, text: str) -> bool:
    """Whether the text contains the phrase without negating it."""
    held = find_forbidden(text, phrase, case_sensitive=False) is not None
    return held and negated_in(phrase, [text]) is None


def begins_with_verb(phrase: str) -> bool:
    """Whether the phrase begins with a verb, so that "do not" or "never" before it makes a right answer."""
    words = re.findall(r"[\w'\u2019-]+", phrase.casefold())
    return bool(words) and _NEGATION.search(phrase.casefold()) is None and _is_verb(words[0])


def _is_verb(word: str) -> bool:
    """Whether it is a known verb, also as "waiting", "gives" or "stopping"."""
    stem = word.removesuffix("ing") if word.endswith("ing") else word.removesuffix("s")
    return any(_VERBS.fullmatch(verb) for verb in (word, stem, f"{stem}e", stem[:-1]))


def is_stem(word: str, texts: Sequence[str]) -> bool:
    """Whether the word is truncated: by its ending, or because `texts` have it only as the start of derived words."""
    if len(word) < _MIN_LETTERS:
        return False
    known = {found for text in texts for found in _words(text)}
    if word in known or _WHOLE_WORDS.fullmatch(word):
        return False
    if _CUT_ENDINGS.fullmatch(word):
        return True
    longer = (found[len(word) :] for found in known if found.startswith(word))
    return len(word) >= _MIN_LETTERS_SEEN and any(_DERIVED.fullmatch(rest) for rest in longer)


def _words(text: str) -> Iterable[str]:
    return "".join(char if char.isalnum() else " " for char in text.casefold()).split()
