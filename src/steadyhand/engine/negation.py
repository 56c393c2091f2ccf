"""Whether words that were found are meant or negated, judged by their clause.

Rules of thumb for English, plus the negating words of some other languages. When in doubt, the answer is "not meant":
words that may say the opposite never count as satisfaction or as advice.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

import regex

from steadyhand.text_fold import UNSPACED, fold, is_unspaced


class Reading(StrEnum):
    """How a word is used. `DOUBTFUL`: something near it is negated, but it is unclear what. `OPEN`: it is part of a
    question, a wish, a condition or a report, or it is contradicted."""

    MEANT = "meant"
    NEGATED = "negated"
    DOUBTFUL = "doubtful"
    OPEN = "open"


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'])(?:{'|'.join(alternatives)})(?![\w'])")


_ENGLISH = (
    r"not|no|never|neither|nor|none|nothing|nobody|nowhere|noone|without|hardly|barely|scarcely|rarely|seldom|cannot"
    r"|\w+n't|(?:ca|do|does|did|is|was|are|were|wo|would|could|should|have|has|had|ai)nt"
)
_ELSEWHERE = (
    r"nicht|kein\w*|nie|niemals|nichts|ohne|kaum|weder|ne|n'\w+|pas|jamais|rien|aucune?|sans|nunca|nada|ning[uú]n\w*"
    r"|sin|tampoco|ni|non|niente|nulla|nessun\w*|senza|n[aã]o|nenhum\w*|sem|niet|geen|nooit|niets|inte|ikke|nigdy|nic"
    r"|не|нет|никогда|ничего|ни"
)
_FALLING_SHORT = (
    r"far from|anything but|opposite of|so much for|(?:stopped|quit) being|0 ?%"
    r"|less|least|(?:has|have|had|is|are) yet to|(?:remains?|still) to|instead of|rather than"
    r"|unable|impossible|fail(?:s|ed|ing)?|refuse[sd]?|lack(?:s|ed|ing)?|doubt(?:s|ed|ful)?|den(?:y|ies|ied)|used to"
    r"|(?<!a )(?:little|few)|zero"
)
_NEGATOR = _words(_ENGLISH, _ELSEWHERE, _FALLING_SHORT)
_UNSPACED_NEGATOR = re.compile(r"[不没沒未無无别]|非(?!常)|な(?:い|く|かっ)|ませ?ん|않|못|없|안 ")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_AT_THE_END = (
    r"(?=\s*(?:(?:at all|whatsoever|so far|now|any ?more|today|here|there|for now|from me)\s*)?(?:[^\w\s'\"]|$))"
)
_HARMLESS = re.compile(
    r"\bnot (?:only|just|merely|bad|to mention|to worry)\b|\bin no time\b|\bno doubt\b|\bnever ?mind\b"
    r"|\b(?:do not|don't) (?:worry|hesitate|mind)\b|\bnothing (?:but|short of)\b|\blast but not least\b"
    r"|\b(?:could|can)(?:n't| ?not) (?:be|have been|agree|ask for|wish for|thank)\b[^.,;!?]{0,60}?"
    r"\b(?:more|better|happier|enough|\w+er)\b"
    r"|\bnever (?:been|felt|was|were) (?:so|more|better|happier|\w+er)\b"
    r"|\b(?:no|not an?|without|without an?|without any|not any) (?:\w+ )?"
    rf"(?:problem|worrie|worry|issue|trouble|error|question|complaint|hassle|delay|fail)s?\b{_AT_THE_END}"
    r"|\bnothing (?:else |more |further )?to (?:add|ask)\b|\bcan(?:n't| ?not) complain\b"
    rf"|\b(?:nothing|nobody|no ?one) (?:else|more|further)\b{_AT_THE_END}"
    r"|\b(?:do not|don't|dont) (?:have|need) (?:any(?:thing)?|some(?:thing)?) ?"
    rf"(?:else|more|other|further)?(?: \w+)?{_AT_THE_END}"
)
"""Negations that do not negate what is next to them: "no problem", "not only", "nothing else"."""

_EMPHASIS = str.maketrans("*_~`", "    ")
_SENTENCE = re.compile(r"[!?\n;\u2026\u3002\uff01\uff1f\uff1b]+|\.(?!\w)")
_PIECE = re.compile(r"[,:()\"\u2013\u2014\uff0c\u3001\uff1a]|\s-+\s|--")
_CONTRAST = _words("(?<!anything )but", "however", "although", "though", "nevertheless", "except", "whereas")
_ANSWER = re.compile(r"\s*(?:oh|well|ah|um)?\s*(?:no|nope|nah)\s*")
_ANSWER_BEFORE = re.compile(
    r"\s*(?:no|nope|nah)\s+(?=(?:i|it|that|this|you|we|they|all|everything)(?:'\w+)?\b)(?!\w+ \w+n't)"
)
_AFTERTHOUGHT = re.compile(
    r"[\s.,!\"')(\u2026-]*(?:(?:well|um|actually),? )?(?:not(?: (?:really|at all|quite|exactly|yet|so much|much))?"
    r"|hardly|never|as if|yeah,? right|no|nope|nah)\s*(?:[.!)\u2026\n]|$)"
)
_ASKED = re.compile(
    r"\s*(?:(?:so|and|but|then)\s+)?"
    r"(?:(?:how|why|when|where|who) (?:is|are|was|were|do|does|did|can|could|would|will|come)"
    r"|(?:is|are|was|were|do|does|did|can|could|will|would|has|have) (?:i|you|it|that|this|we|they|the|my|your))\b"
)
_OPEN = _words(
    r"if|unless|until|till|once|when|whenever|whether|would|could|should|will|might|may|hop(?:e|es|ing)|wish|wants?",
    r"needs?|please|expect(?:s|ing)?|supposed(?:ly)?|before|try|trying|almost|nearly|part(?:ly|ially)|\w+'d|\w+'ll",
    r"(?:to|must|can) (?:be|get)|half|temporarily|somewhat|(?:kind|sort) of|as(?=\s*$)|how(?=\s*$)",
    # reports, and what somebody took to be so
    r"say|says|said|saying|tell(?:s|ing)?|told|claim(?:s|ed|ing)?|promis(?:e|ed|es|ing)|stat(?:e|ed|es|ing)",
    r"assur(?:e|ed|es|ing)|insist(?:s|ed|ing)?|pretend(?:s|ed|ing)?|mark(?:s|ed|ing)",
    r"call(?:s|ed|ing)? (?:it|this|that)|allegedly|apparently|thought|assum(?:e|ed|es|ing)|believed|figured",
    r"imagin(?:e|ed|es|ing)|guess(?:ed)?|suppose|bet",
    r"seem(?:s|ed)?|appear(?:s|ed)?|(?:you|they|he|she) (?:really )?(?:think|believe)s?|miss|(?:sick|tired) of",
    # requests
    r"(?:make|making|be) sure|ensure|see to it|so that|get (?:it|this|that|me|us|my|our|the|some(?:one|body))",
    r"(?:help|show|find|give|send|bring|make) (?:me|us)|fix (?:it|this|that)|prove|demand(?:s|ed|ing)?",
    r"let me know|request(?:ed|ing)?|requir(?:e|ed|es|ing)|ask(?:ed|ing)?|wait(?:ed|ing)?|await(?:ing)?",
    r"look(?:ing)? for(?:ward)?|ought|as soon as|after (?:it|this|that)(?:'s| is| has been| gets| was)",
)
_OPEN_FOR_THANKS = _words(r"if|unless|until|once|when|would(?! like)|\w+'d(?! like)|will|\w+'ll|before")
_OPEN_AFTER = _words(
    "if", "unless", "until", "once", "when", "whether", "in advance", "any ?way", "regardless", "for trying",
    "according to", "my (?:foot|ass|arse)",
)  # fmt: skip
_DUE_TO = re.compile(r"\s*to (?!you(?: (?:all|both|guys|so much|very much|again))?\s*(?:[^\w\s]|$))")
"""After "thanks": a cause, good or bad."""

_COMPLAINT = _words(r"broke|(?:is|are|it's|still) broken|crash(?:es|ed|ing)?|wrong|worse|stopped|gone|lost")
_ALONE = re.compile(r"(?:^|[.!?\n])\s*(?:not|never|hardly|barely|far from)\s*[.!\u2026]+\s*$")
"""A negation that is a sentence of its own: "Not. Helpful."."""

_CONDITION = re.compile(r"\s*(?:and |so |or )?(?:if|unless|once|until|as soon as|in case)\b")
_SUBJECT = re.compile(
    r"\s*(?:(?:and|so|now|then|well|yes|ok|okay|oh|wow)\s+)*(?:i|it|this|that|these|those|you|we|he|she|they|everything"
    r"|everyone|all|the|my|your|our|his|her|their|an?|there)\b"
)
_NEW_CLAUSE = re.compile(r"\b(?:and|so|because|since|now|which|who|then|that's why)\b")
_DANGLING = re.compile(
    rf"\b(?:{_ENGLISH}|is|was|are|were|be|been|has|have|had|do|does|did|would|think|believe|feel|find|say|said|see"
    r"|suppose|guess|consider|call|agree|claim|sure|convinced|certain|that|of|this|these|those)\s*$"
)


_SENTENCE_REACH = 1000
_CLAUSE_REACH = 400
_MOST_PLACES = 200


def readings(text: str, keyword: str) -> set[Reading]:
    """All the ways in which the keyword is used in the text, which must be `normal`."""
    found = places(text, keyword)
    read = {reading(text, *place) for place in found[:_MOST_PLACES]}
    # Nobody says it that often. One of the rest might be negated, so nothing is claimed.
    return read | {Reading.NEGATED} if len(found) > _MOST_PLACES else read


def reading(text: str, start: int, end: int) -> Reading:
    """How the words at `text[start:end]` are used; the text must have straight quotation marks.

    No sentence is longer than `_SENTENCE_REACH`, so nothing farther away is read.
    """
    shift = max(0, start - _SENTENCE_REACH)
    text, start, end = text[shift : end + _SENTENCE_REACH], start - shift, end - shift
    text = text.lower().translate(_EMPHASIS) if len(text.lower()) == len(text) else text.translate(_EMPHASIS)
    first, last, asked = _sentence(text, start, end)
    if _UNSPACED.search(text, start, end):
        return Reading.DOUBTFUL if _UNSPACED_NEGATOR.search(text[first:start] + " " + text[end:last]) else _plain(asked)
    sentence = _HARMLESS.sub(lambda found: " " * len(found[0]), text[first:last])
    only = re.search(r"\bnot (?:only|just|merely)\b", text[first:start])
    pieces, here = _pieces(sentence, start - first)
    before, after = sentence[pieces[here][0] : start - first], sentence[end - first : pieces[here][1]]
    earlier = [sentence[slice(*piece)] for piece in pieces[:here]]
    before, earlier = _since_the_contrast(before, earlier)
    thanks = text.startswith("thank", start)
    found = _in_clause(before, after, thanks=thanks)
    if not earlier and not before.strip() and _ALONE.search(text[:first]):
        return Reading.NEGATED
    if found is Reading.MEANT:
        later = [sentence[slice(*piece)] for piece in pieces[here + 1 :]]
        found = _carried(before, earlier, later, thanks=thanks)
    if found is not Reading.MEANT:
        return found
    if _AFTERTHOUGHT.match(text, last if not sentence[end - first :].strip() else end):
        return Reading.DOUBTFUL
    rest = sentence[end - first :] + _next_opening(text, last)
    complained = not thanks and _COMPLAINT.search(sentence, end - first)
    if asked or complained or (not only and _CONTRAST.search(rest)) or _is_open(before, after, earlier, thanks=thanks):
        return Reading.OPEN
    return Reading.MEANT


def _plain(asked: bool) -> Reading:
    return Reading.OPEN if asked else Reading.MEANT


def _sentence(text: str, start: int, end: int) -> tuple[int, int, bool]:
    """Where the sentence begins and ends, and whether it is a question."""
    first = max((found.end() for found in _SENTENCE.finditer(text, 0, start)), default=0)
    closing = _SENTENCE.search(text, end)
    if closing is None:
        return first, len(text), bool(_ASKED.match(text, first))
    asked = "?" in closing[0] or "\uff1f" in closing[0] or bool(_ASKED.match(text, first))
    return first, closing.start(), asked


def _next_opening(text: str, last: int) -> str:
    """Whether the next sentence opens with "But" or "However"."""
    opening = re.match(r"[\W_]*(but|however)\b", text[last:])
    return f" {opening[1]}" if opening else ""


def _pieces(sentence: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """The sentence split at commas and dashes, and the index of the piece that contains `at`."""
    edges = [0]
    for cut in _PIECE.finditer(sentence):
        edges += [cut.start(), cut.end()]
    edges.append(len(sentence))
    pieces = list(zip(edges[::2], edges[1::2], strict=True))
    return pieces, next((index for index, (_, stop) in enumerate(pieces) if at < stop), len(pieces) - 1)


def _since_the_contrast(before: str, earlier: list[str]) -> tuple[str, list[str]]:
    """The text before the words, back to the last "but". A "but" between two commas is an aside and does not count."""
    if found := list(_CONTRAST.finditer(before)):
        return before[found[-1].end() :], []
    for index in range(len(earlier) - 1, -1, -1):
        found = list(_CONTRAST.finditer(earlier[index]))
        if found and _CONTRAST.sub("", earlier[index]).strip():
            return before, [earlier[index][found[-1].end() :], *earlier[index + 1 :]]
    return before, earlier


def _in_clause(before: str, after: str, *, thanks: bool) -> Reading:
    """How the words are used within their own clause."""
    if thanks and re.search(r"\b(?:no|nope)\s*$", before):
        return Reading.DOUBTFUL
    answer = _ANSWER_BEFORE.match(before)
    negators = list(_NEGATOR.finditer(before, answer.end() if answer else 0))
    if len(negators) > 1 or (not negators and _NEGATOR.search(after)):
        return Reading.DOUBTFUL
    if not negators:
        return Reading.MEANT
    return Reading.DOUBTFUL if _NEW_CLAUSE.search(before, negators[0].end()) else Reading.NEGATED


def _carried(before: str, earlier: list[str], later: list[str], *, thanks: bool) -> Reading:
    """The effect of a negation across a comma: "Nothing, to be honest, was helpful", "Great, nothing works"."""
    if not _SUBJECT.match(before) and any(_NEGATOR.search(piece) for piece in later):
        return Reading.DOUBTFUL
    negated = [piece for piece in earlier if _NEGATOR.search(piece) and not _ANSWER.fullmatch(piece)]
    if not negated or (thanks and not before.strip()):
        return Reading.MEANT
    if _SUBJECT.match(before):
        return Reading.NEGATED if _DANGLING.search(negated[-1]) else Reading.MEANT
    return Reading.DOUBTFUL


def _is_open(before: str, after: str, earlier: list[str], *, thanks: bool) -> bool:
    wished = _OPEN_FOR_THANKS if thanks else _OPEN
    return bool(
        (thanks and _DUE_TO.match(after))
        or wished.search(before)
        or _OPEN_AFTER.search(after)
        or any(_CONDITION.match(piece) for piece in earlier[-1:])
    )


_CLAUSE = re.compile(
    r"[.,;:!?()\n\u2013\u2014]|\s-\s|\b(?:but|however|although|though|because|until|unless)\b"
    r"|(?<!not )(?<!n't )\byet\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w']+")
_NOT = re.compile(_ENGLISH)
_NOT_MY_VIEW = re.compile(
    rf"(?<![\w'])(?:{_ENGLISH}) (?:\w+ ){{0,2}}"
    r"(?:think|believe|feel|see|recommend|suggest|advise|suppose|expect|reason)\b"
)
_UNDONE_BY = re.compile(r"only|hesitate|wait|delay|forget|fail|postpone|worry|doubt|afraid|stop|just|merely")
_REACH = 4
_ADVISED_AGAINST = re.compile(
    r"(?<![\w'])(?:rather than|instead of|refrain(?:ing)? from|hold(?:ing)? off|against|overreaction|overkill"
    r"|too (?:early|soon)|premature|little (?:point|use|sense)|(?<!to )avoid(?:ing)?|(?<!not )(?<!n't )(?<!never )"
    r"(?:stop|postpone|cancel|skip)(?:ping|ing)?)(?: (?!and\b|then\b)[\w']+){0,4} ?$"
)
_ASIDE = re.compile(r"(?:(?<![\w'])(?:not|never|no (?:need|reason|point))|n't),[^,.;:!?\n]{1,80}(?:,|$)", re.IGNORECASE)
"""Words between commas that part a negation from what it negates: "Do not, whatever happens, call"."""


def is_negated(text: str, start: int) -> bool:
    """Whether the words at `start` are negated by one of the few words before them, or by a denied opinion, in their
    clause.

    "do not call" and "I don't think that you really need to call" are; "no, call" and "do not hesitate to call" are
    not. Advice is often a list of acts, so a negation does not reach across the whole clause.
    """
    before = _clause_before(text, start)
    if _NOT_MY_VIEW.search(before):
        return True
    for word in reversed(_WORD.findall(before)[-_REACH:]):
        if _UNDONE_BY.fullmatch(word):
            return False
        if _NOT.fullmatch(word):
            return True
    return False


def is_advised_against(text: str, start: int) -> bool:
    """Whether an act at `start` is negated, or named as the wrong one: "rather than call", "too early to call"."""
    return is_negated(text, start) or _ADVISED_AGAINST.search(_clause_before(text, start)) is not None


def _clause_before(text: str, start: int) -> str:
    nearby = _ASIDE.sub(lambda aside: aside[0].partition(",")[0], text[max(0, start - _CLAUSE_REACH) : start])
    first = max((boundary.end() for boundary in _CLAUSE.finditer(nearby)), default=0)
    return nearby[first:].casefold()


_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_WIDTHLESS = dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF))
_NORMAL = _QUOTES | _WIDTHLESS


def straight(text: str) -> str:
    """The text as a pattern of the user's is matched with it: accented letters normalised, quotation marks straight,
    and without soft hyphens and spaces of no width."""
    return unicodedata.normalize("NFC", text).translate(_NORMAL)


def normal(text: str) -> str:
    """The text in the form that keywords are compared in: folded, with its case."""
    return fold(text, case_sensitive=True)


def says(text: str, keyword: str) -> bool:
    """Whether the text contains the keyword as whole words; any run of white space counts as one space."""
    return bool(places(normal(text), keyword))


def places(text: str, keyword: str) -> list[tuple[int, int]]:
    """The spans of the keyword in `text`, which is already `normal`."""
    words = normal(keyword).split()
    if not words:
        return []
    pattern = r"\s+".join(re.escape(word) for word in words)
    if not is_unspaced(words[0][0]):
        # A hyphen joins, and emphasis does not part: "un-resolved" and "un*resolved*" are not "resolved".
        pattern = rf"(?<!{_SPACED_LETTER}[*_~`]*+)(?<!{_SPACED_LETTER}-)" + pattern
    if not is_unspaced(words[-1][-1]):
        pattern += rf"(?!{_SPACED_LETTER})(?!-{_SPACED_LETTER})(?!'t\b)"
    return [match.span() for match in regex.finditer(pattern, text, regex.IGNORECASE | regex.FULLCASE)]


_SPACED_LETTER = rf"[^\W{UNSPACED}]"
