"""A text as a sequence of clauses: where each stands, its words, its language, and what keeps it from being plain.

Every character outside the clauses is white space or structure: punctuation, list markers, headings, Markdown emphasis,
the braces and quotation marks of JSON. Nothing else is dropped, so that a rule can say whether it has read everything.
Takes linear time.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import regex

from steadyhand.language.english import ENGLISH
from steadyhand.language.french import FRENCH
from steadyhand.language.german import GERMAN
from steadyhand.language.lexicon import Lexicon, Mark, Marked, Phrase, marked, word_set
from steadyhand.language.spanish import SPANISH
from steadyhand.records.base import Record
from steadyhand.text_fold import fold

LEXICA: dict[str, Lexicon] = {each.code: each for each in (ENGLISH, GERMAN, FRENCH, SPANISH)}


class Word(Record, gc=False):
    """A word, number or symbol at `text[start:end]`; `text` is its folded form."""

    start: int
    end: int
    text: str


class Clause(Record):
    """The part of a text at `text[start:end]`, from its first word to its last.

    `text` is what a person reads there, without markup. `language` is None if it cannot be told or is not supported.
    `closing` is the punctuation after it. Clauses of one sentence have the same `sentence`.
    """

    start: int
    end: int
    text: str
    words: tuple[Word, ...]
    language: str | None
    closing: str
    marks: frozenset[Mark]
    sentence: int

    @property
    def folded(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


_LETTER = r"[\p{L}\p{N}\p{M}]"
_UNSEEN = r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_ENTITY = r"&\#?\w{1,31};"
_SINGLE = "'\u2018\u2019\u201a\u201b\u02bc\u00b4\uff07"
_DOUBLE = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u300c\u300d\u300e\u300f\uff02'
_TAG = (
    r"</?(?i:[biupa]|em|strong|br|hr|div|span|[uo]l|li|h[1-6]|code|pre|table|t[rdh]|su[bp]|del|s|strike|ins|mark|small)"
    r"(?:\ [\w\-]{1,30}=[^<>\s]{0,300}){0,5}\ ?/?> | \]\([^()\s]{0,1000}\)"
)
_WORD = rf"""
    (?:{_LETTER}|{_ENTITY})++
    (?:
      (?: [{_UNSEEN}]++ | [*_~`]{{1,3}} | [{_SINGLE}] | [\-\u2010\u2011/]
        | (?<=\p{{N}})[.,:](?=\p{{N}}) | \.(?=\p{{Ll}}) | (?<=(?<!{_LETTER})\p{{L}})\.(?=\p{{L}}(?!\p{{L}})) )
      (?:{_LETTER}|{_ENTITY})++
    )*+
"""
_TOKEN = regex.compile(
    rf"""
    (?P<block> ^[^\S\n]*(?:```|~~~)[\w+.\-]{{0,20}}[^\S\n]*$
      | ^[^\S\n]*(?=[^\n]{{0,8}}[-*_=]{{2}})[-*_=|:+\ ]{{3,}}$ )
  | (?P<item> ^[^\S\n]*(?:[-*+\u2022\u2023\u25e6\u25aa\u2013\u2014]|\(?\p{{N}}{{1,3}}[.)]|\(?\p{{L}}[.)])(?=\s)
        (?:\s*\[[\ xX]\](?=\s))?
      | ^[^\S\n]*\#{{1,6}}(?=\s) )
  | (?P<cited> ^[^\S\n]*>[>\ ]* )
  | (?P<line> [^\S\n]*+\n )
  | (?P<space> [^\S\n]++ | [{_UNSEEN}]++ )
  | (?P<tag> {_TAG} )
  | (?P<link> (?:https?://|www\.)[^\s<>()",;]++(?<![.!?:]) )
  | (?P<face> [:;=]['\-]?[()DPpO/\\|](?!\w) )
  | (?P<word> {_WORD} )
  | (?P<end> [.!?;\u2026\u3002\uff01\uff1f\uff1b\u037e\u061f\u0964]++ )
  | (?P<soft> [,:()\[\]{{}}|\u2013\u2014\u3001\uff0c\uff1a\uff08\uff09]|-{{2,}}+|-(?=\s) )
  | (?P<asked> [\u00bf\u00a1]++ )
  | (?P<double> \\?[{_DOUBLE}] )
  | (?P<single> [{_SINGLE}] )
  | (?P<markup> [*_~`\\\#]++ )
  | (?P<symbol> (?P<one>\X)(?P=one)*+ )
    """,
    regex.VERBOSE | regex.MULTILINE | regex.DOTALL | regex.VERSION1,
)
_MARKUP = regex.compile(
    rf"""
    ^[^\S\n]*(?:[-*+\u2022]\s|\#{{1,6}}\s|>[>\ ]*) | {_TAG}
  | [*`\\\[\]{_UNSEEN}]++ | (?<!{_LETTER})_++ | _++(?!{_LETTER}) | ~~
    """,
    regex.VERBOSE | regex.MULTILINE | regex.VERSION1,
)
_ELISION = regex.compile(r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu)'(?=\p{L})")
_STRAIGHT = str.maketrans(dict.fromkeys(_SINGLE, "'") | {"\u2010": "-", "\u2011": "-"})
_INSIDE = regex.compile(rf"[{_UNSEEN}*_~`]+")
_STRIKING = regex.compile(r"(?i)</?(?:del|s|strike)\b")
_SKIN = regex.compile(r"[\ufe0e\ufe0f\u200d\U0001f3fb-\U0001f3ff]")
_JSON = regex.compile(r"\s*(?:```\w*\s*)?(?:\{\s*[\"}]|\[\s*[\"{\[\]])")
_TITLES = word_set("dr mr mrs ms prof st mme mlle sr sra dra hr fr")
_ABBREVIATED = word_set(
    """
    vs etc approx ca bzw usw ggf evtl inkl max min fig vol nr tel abs ud uds resp incl excl dept est al cf no inc ltd
    """
)
_PARTING = word_set("but although though whereas aber sondern obwohl mais quoique pero aunque sino")
_ELSEWHERE = word_set(
    """
    não nao nenhum nenhuma nem sem nunca nada non niente nulla nessun nessuno nessuna senza mai niet geen nooit niets
    zonder inte ingen inget aldrig ikke aldri ei emme eivät ette koskaan mitään nie nigdy nic bez brak soha не нет
    никогда ничего ни без değil yok asla όχι δεν μη لا ليس لم لن لא אין 不 没 没有 ない
    """
)
"""Negating words of other languages: a clause that has one is never plain."""


class _Draft:
    """A clause while its words are collected."""

    def __init__(self, sentence: int) -> None:
        self.words: list[Word] = []
        self.quoted = self.struck = False
        self.closing = ""
        self.sentence = sentence


class _Reader:
    """Collects clauses from the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.drafts: list[_Draft] = []
        self.asked: set[int] = set()
        self.current = _Draft(0)
        self.quoted = self.single = self.cited = self.wrapped = self.struck = False
        self.json = _JSON.match(text) is not None
        self.text = text.replace("\\n", " \n").replace("\\t", "  ") if self.json else text

    def part(self, closing: str, *, sentence: bool) -> None:
        """Ends the clause, and the sentence if so."""
        here = self.current
        if here.words:
            here.closing = closing
            self.drafts.append(here)
        elif self.drafts and self.drafts[-1].sentence == here.sentence and closing:
            self.drafts[-1].closing += closing
        ended = sentence and bool(self.drafts) and self.drafts[-1].sentence == here.sentence
        self.current = _Draft(here.sentence + 1 if ended else here.sentence)
        if sentence:
            self.single = False

    def word(self, start: int, end: int, text: str) -> None:
        if self.current.words and text in _PARTING:
            self.part("", sentence=False)
        self.current.words.append(Word(start=start, end=end, text=text))
        self.current.quoted |= self.quoted or self.single or self.cited
        self.current.struck |= self.struck

    def line(self) -> None:
        """A line break in the middle of a sentence is white space, if the next line goes on in lower case."""
        if self.wrapped or self.json:
            self.part("\n", sentence=True)
            self.quoted = self.quoted and self.json
        self.wrapped, self.cited = True, False

    def unwrap(self, kind: str, token: str) -> None:
        if kind in ("space", "line", "markup", "tag"):
            return
        if kind != "word" or not token[0].islower():
            self.part("\n", sentence=True)
            self.quoted = False
        self.wrapped = False

    def ends(self, stop: str, at: int) -> bool:
        """Whether a full stop ends the sentence, or belongs to an abbreviation."""
        if stop != "." or not self.current.words or self.current.words[-1].end != at:
            return True
        before = self.current.words[-1].text
        measured = len(self.current.words) > 1 and self.current.words[-2].text[-1].isdigit()  # "80 ms. Let it run."
        if before in _TITLES and not measured:
            return False
        following = self.text[at + 1 : at + 4].lstrip()[:1]
        if before == "no":
            return not following.isdigit()
        short = before in _ABBREVIATED or "." in before or (len(before) == 1 and before.isalpha() and before != "i")
        return not (short and (following.islower() or following.isdigit() or following in tuple("(,;:")))

    def is_structure(self, start: int, end: int) -> bool:
        """Whether a double quotation mark belongs to JSON."""
        if not self.json or self.text[start] == "\\":
            return False
        before, after = self.text[max(0, start - 40) : start].rstrip()[-1:], self.text[end : end + 40].lstrip()[:1]
        return before in tuple("{[,:") or after in tuple("}],:") or not after


@functools.lru_cache(maxsize=8)
def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of the text, in order."""
    reader = _Reader(text)
    for token in _TOKEN.finditer(reader.text):
        kind, said = token.lastgroup or "symbol", token[0]
        if reader.wrapped:
            reader.unwrap(kind, said)
        if kind == "word":
            _add(reader, token.start(), token.end(), said)
        elif kind in ("link", "face", "symbol"):
            reader.word(token.start(), token.end(), _SKIN.sub("", said)[:1] if kind == "symbol" else said)
        elif kind in ("tag", "markup"):
            reader.struck ^= said == "~~" or _STRIKING.match(said) is not None
        elif kind != "space":
            _punctuate(reader, kind, token.span(), said)
    reader.part("", sentence=True)
    return _finished(reader)


def _punctuate(reader: _Reader, kind: str, span: tuple[int, int], said: str) -> None:
    match kind:
        case "end":
            if reader.ends(said, span[0]):
                reader.part(said, sentence=True)
        case "soft":
            reader.part(said, sentence=reader.json and said in "{}[]")
        case "line":
            reader.line()
        case "block" | "item" | "cited":
            reader.part("", sentence=True)
            reader.cited = kind == "cited"
        case "asked":
            if "\u00bf" in said:
                reader.asked.add(reader.current.sentence)
        case "double":
            if reader.is_structure(*span):
                reader.part("", sentence=True)
            else:
                reader.quoted = not reader.quoted
        case _:
            before, after = reader.text[span[0] - 1 : span[0]], reader.text[span[1] : span[1] + 1]
            reader.single = after.isalpha() and (reader.single or not before.isalnum())


def _add(reader: _Reader, start: int, end: int, said: str) -> None:
    if said.isascii() and said.isalnum():
        reader.word(start, end, said.lower())
        return
    folded = fold(_INSIDE.sub("", said))
    if elided := _ELISION.match(folded):
        reader.word(start, start + elided.end(), elided[0])
        start, folded = min(start + elided.end(), end - 1), folded[elided.end() :]
    reader.word(start, end, folded)


def _finished(reader: _Reader) -> tuple[Clause, ...]:
    drafts = reader.drafts
    for draft in drafts:
        if "?" in draft.closing or "\uff1f" in draft.closing or "\u061f" in draft.closing:
            reader.asked.add(draft.sentence)
    scores = [_scores([word.text for word in draft.words]) for draft in drafts]
    overall = sum(scores, Counter[str]())
    found: list[Clause] = []
    for draft, score in zip(drafts, scores, strict=True):
        start, end = draft.words[0].start, draft.words[-1].end
        words = tuple(word.text for word in draft.words)
        language = None if _is_foreign(reader.text, draft.words) else _language(score, overall, len(words))
        around = {Mark.QUOTATION} if draft.quoted else set[Mark]()
        if draft.struck:
            around.add(Mark.RETRACTION)
        if draft.sentence in reader.asked:
            around.add(Mark.QUESTION)
        found.append(
            Clause(
                start=start,
                end=end,
                text=" ".join(_MARKUP.sub("", reader.text[start:end]).split()),
                words=tuple(draft.words),
                language=language,
                closing=draft.closing.strip(),
                marks=marks_of(words, language) | around,
                sentence=draft.sentence,
            )
        )
    return tuple(found)


_OTHER_SCRIPT = regex.compile(r"[\p{L}--\p{Latin}]", regex.VERSION1)


def _is_foreign(text: str, words: Sequence[Word]) -> bool:
    """Whether a letter is not Latin. The supported languages are all written in Latin letters."""
    return _OTHER_SCRIPT.search(text, words[0].start, words[-1].end) is not None


@functools.cache
def _telling() -> dict[str, tuple[str, ...]]:
    """The languages that each small word belongs to."""
    found: dict[str, list[str]] = {}
    for code, each in LEXICA.items():
        for word in each.telling():
            found.setdefault(word, []).append(code)
    return {word: tuple(codes) for word, codes in found.items()}


def _scores(words: Sequence[str]) -> Counter[str]:
    telling = _telling()
    return Counter(code for word in words for code in telling.get(word, ()))


def _language(score: Counter[str], overall: Counter[str], words: int) -> str | None:
    """The language with the most small words; among equals, that of the whole text."""
    best = max(score.values(), default=0)
    tied = [code for code in LEXICA if score[code] == best]
    if len(tied) == 1 and best * 4 >= words:
        return tied[0]
    ranked = sorted(((overall[code], code) for code in LEXICA), reverse=True)
    return ranked[0][1] if ranked[0][0] > ranked[1][0] and ranked[0][1] in tied else None


@functools.cache
def _any_marks() -> Marked:
    """The marks of all the languages."""
    found: dict[str, tuple[tuple[Phrase, Mark], ...]] = {}
    for each in LEXICA.values():
        for first, listed in each.marks.items():
            found[first] = found.get(first, ()) + listed
    return found


@functools.cache
def _negating() -> frozenset[str]:
    single = {first for first, found in _any_marks().items() if ((first,), Mark.NEGATION) in found}
    return frozenset(single | _ELSEWHERE)


def marks_of(words: tuple[str, ...], language: str | None) -> frozenset[Mark]:
    """The marks that the words of a clause bear."""
    own = None if language is None else LEXICA[language]
    marks = marked(words, _any_marks() if own is None else own.marks)
    if any(_negates(word) and (own is None or word not in own.closed) for word in words):
        marks.add(Mark.NEGATION)
    if (len(words) > 1 and own is not None and words[0] in own.asked) or _inverted(words):
        marks.add(Mark.QUESTION)
    if len(words) > 1 and words[0] == "so":
        marks.add(Mark.IRONY)
    return frozenset(marks)


def _negates(word: str) -> bool:
    return word in _negating() or word.endswith("n't")


_VERBS = word_set("is are was were does did can could will would has should am")
_PERSONS = word_set("i you we they these those anyone anybody")
_SUBJECTS = _PERSONS | word_set("it that this he she the my your there a an")


def _inverted(words: tuple[str, ...]) -> bool:
    """Whether it opens like an English question, which some write without its mark: "is it fixed"."""
    rest = words[1:] if words[0] in ("so", "and", "but", "then", "or", "well") else words
    if len(rest) < 2:
        return False
    verb = rest[0].removesuffix("n't")
    # "Do it" and "have the patient sit" are instructions.
    return rest[1] in _SUBJECTS if verb in _VERBS else verb in ("do", "have") and rest[1] in _PERSONS
