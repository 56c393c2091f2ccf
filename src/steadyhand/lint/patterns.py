"""What the text of a check shows: parts of a pattern that never match, what it forbids, and how broadly it matches.

Also English phrases: forbidden ones that a right answer contains ("do not wait for it"), and truncated words.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import regex

from steadyhand.text_match import compiled, is_forbidden, search_now

TokenKind = Literal["literal", "escape", "class", "anchor", "dot", "open", "close", "or", "repeat"]
TOO_MUCH = 0.8
READABLE = 120
"""As many characters of a pattern as a person can check by eye."""
SENTENCES = (
    "The library opens at nine on weekdays.",
    "She planted tomatoes along the southern wall.",
    "Our train was cancelled because of snow.",
    "Basalt forms when lava cools quickly.",
    "He repaired the violin with hide glue.",
    "Tickets cost twelve euros, children pay half.",
    "A red kite circled above the valley!",
    "The recipe asks for two cups of flour.",
    "Their band plays in Lisbon next month.",
    "Most ferries run twice a day in winter.",
    "I forgot my umbrella at the cinema.",
    "Old maps show a river that no longer exists.",
    "Paper was expensive in the Middle Ages.",
    "Which of the two keys fits this door?",
    "The cat sleeps on the radiator.",
    "Prices rose by 3.2 percent last year.",
    "They painted the boat blue and white.",
    "Clouds of dust hid the far hills.",
    "My neighbour keeps bees on the roof.",
    "The committee met for three hours.",
    "Honey does not spoil if it is kept dry.",
    "We walked home along the canal.",
    "A sonnet has fourteen lines.",
    "Copper turns green in damp air.",
    "The museum lent its best vase to Vienna.",
    "Nobody answered the telephone.",
    "Swallows return in April.",
    "This bridge was built in 1887.",
    "The tailor shortened both sleeves.",
    "Rain is expected towards evening.",
)
_FLAGS = re.compile(r"\(\?[a-zA-Z0-9]*(?:-[a-zA-Z]+)?\)")
_OPEN = re.compile(r"\((?:\?(?:<[=!]|[:=!>|]|P?<\w+>|[a-zA-Z]*(?:-[a-zA-Z]+)?:))?")
_COMMENT = re.compile(r"\(\?#[^)]*\)")
_REPEAT = re.compile(r"(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[xuU][0-9a-fA-F]+|[pPN]\{[^}]*\}|.)", re.DOTALL)
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_KINDS: dict[str, TokenKind] = {")": "close", "|": "or", "^": "anchor", "$": "anchor", ".": "dot"}
_ANCHORS = frozenset((r"\A", r"\Z", r"\b", r"\B"))
_EMPTY_CLASSES = frozenset((r"[^\s\S]", r"[^\S\s]", r"[^\w\W]", r"[^\W\w]", r"[^\d\D]", r"[^\D\d]"))
_CONSUMING = frozenset((r"\w", r"\d", r"\S"))
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_SEARCH_S = 0.2
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


_WORD = re.compile(r"[^\W_]+")


class Token(NamedTuple):
    """`text` as written in the pattern; for a literal, the character it matches."""

    kind: TokenKind
    text: str


class Pattern:
    """A compiled regular expression and its tokens. Raises `regex.error` when the pattern does not compile."""

    def __init__(self, source: str, *, case_sensitive: bool) -> None:
        self.source: str = source
        self._case_sensitive: bool = case_sensitive
        flags = compiled(source, case_sensitive=case_sensitive).flags
        self.multiline: bool = bool(flags & regex.MULTILINE)
        self.dotall: bool = bool(flags & regex.DOTALL)
        self._verbose: bool = bool(flags & regex.VERBOSE)

    @functools.cached_property
    def tokens(self) -> list[Token]:
        return tokenize(self.source, verbose=self._verbose)

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches in the text; a search that times out counts as no match."""
        try:
            found = search_now(self.source, text, case_sensitive=self._case_sensitive, timeout_s=_SEARCH_S)
        except TimeoutError:
            return False
        return found is not None

    @property
    def forbidden(self) -> list[list[Token]]:
        """The bodies of the negative lookaheads, if the pattern is only a prohibition over the whole text."""
        tokens = self.tokens
        if not tokens or not _is_anchor(tokens[0], "^", r"\A") or (tokens[0].text == "^" and self.multiline):
            return []
        bodies: list[list[Token]] = []
        at = 1
        while at < len(tokens) and tokens[at].text == "(?!":
            end = closing(tokens, at)
            bodies.append(tokens[at + 1 : end])
            at = end + 1
        return bodies if all(_matches_anything(token) for token in tokens[at:]) else []

    @property
    def reads_first_line_only(self) -> bool:
        """Whether a prohibition's `.` stops at the first line break."""
        starts = [body[:2] for body in self.forbidden if len(body) > 1]
        return not self.dotall and any(first.kind == "dot" and then.kind == "repeat" for first, then in starts)


def _matches_anything(token: Token) -> bool:
    return token.kind in ("dot", "repeat", "class") or token.text in (r"\s", r"\S") or _is_anchor(token, "$", r"\Z")


def _is_anchor(token: Token, *texts: str) -> bool:
    """Whether it is one of these anchors rather than the escaped character."""
    return token.kind == "anchor" and token.text in texts


def pattern_of(params: dict[str, Any]) -> str | None:
    """The text a check looks for, whatever its parameter is called."""
    value = params.get("pattern", params.get("value"))
    return value if isinstance(value, str) and value else None


def breadth(pattern: Pattern) -> float:
    """The share of unrelated sentences that the pattern matches."""
    return sum(pattern.found_in(sentence) for sentence in SENTENCES) / len(SENTENCES)


def truncated_stems(pattern: Pattern, texts: Sequence[str]) -> list[str]:
    """Alternatives before `\\b` that are truncated words."""
    found: list[str] = []
    for index, token in enumerate(pattern.tokens):
        if token.text == r"\b":
            found.extend(word for word in _words_before(pattern.tokens[:index]) if is_stem(word, texts))
    return list(dict.fromkeys(found))


def _words_before(tokens: list[Token]) -> Iterator[str]:
    """The words, in plain letters, that the tokens can end with."""
    if not tokens:
        return
    if tokens[-1].kind == "close":
        start = opening(tokens, len(tokens) - 1)
        if not tokens[start].text.startswith(_LOOKAROUND):
            for part in alternatives(tokens[start + 1 : -1]):
                yield from _words_before(part)
        return
    letters: list[str] = []
    rest = list(tokens)
    while rest and rest[-1].kind == "literal" and rest[-1].text.isalpha():
        letters.append(rest.pop().text)
    starts_here = not rest or rest[-1].kind in ("or", "open", "anchor") or not _is_wordish(rest[-1])
    if letters and starts_here:
        yield "".join(reversed(letters)).casefold()


def _is_wordish(token: Token) -> bool:
    """Whether letters after this token may continue a word."""
    if token.kind == "literal":
        return token.text.isalnum() or token.text == "_"
    return token.text != r"\s"


def impossible_parts(pattern: Pattern) -> list[str]:
    """Parts that can never match, as written in the pattern, with the reason."""
    tokens = pattern.tokens
    found: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.kind == "class" and token.text in _EMPTY_CLASSES:
            found.append(f"`{token.text}` is an empty character class")
        elif _is_anchor(token, "$", r"\Z") and _ends_too_early(pattern, token, tokens[index + 1 : index + 3]):
            found.append(f"`{token.text}` is the end of the text, but more must follow it")
        elif _is_anchor(token, "^", r"\A") and before and _begins_too_late(pattern, token, before):
            found.append(f"`{token.text}` is the start of the text, but something must precede it")
        elif token.text == r"\b" and before and after and _is_letter(before) and _is_letter(after):
            if not _is_optional(tokens[index + 2 : index + 3]):
                found.append(f"`{before.text}\\b{after.text}` requires a word boundary between two letters")
        elif token.text in ("(?=", "(?!") and (clash := _clash(tokens, index)):
            found.append(clash)
    return found


def _is_letter(token: Token) -> bool:
    return token.kind == "literal" and (token.text.isalnum() or token.text == "_")


def _consumes(token: Token) -> bool:
    return (token.kind == "literal" and token.text != "\n") or token.text in _CONSUMING


def _is_optional(rest: Sequence[Token]) -> bool:
    return bool(rest) and rest[0].kind == "repeat" and rest[0].text.startswith(("*", "?", "{0", "{,"))


def _ends_too_early(pattern: Pattern, token: Token, rest: Sequence[Token]) -> bool:
    if token.text == "$" and pattern.multiline:
        return False
    return bool(rest) and _consumes(rest[0]) and not _is_optional(rest[1:])


def _begins_too_late(pattern: Pattern, token: Token, before: Token) -> bool:
    if token.text == "^" and pattern.multiline:
        return False
    return _consumes(before)


def _clash(tokens: list[Token], start: int) -> str | None:
    """Why the literal text of a lookahead conflicts with the literal text after it, or None."""
    end = closing(tokens, start)
    body, wanted = tokens[start + 1 : end], _plain(tokens[end + 1 :])
    negative = tokens[start].text == "(?!"
    if negative and not body:
        return "`(?!)` never matches"
    ahead = _plain(body)
    if len(ahead) != len(body) or not ahead or not wanted:
        return None
    if negative and wanted.startswith(ahead):
        return f"`(?!{ahead})` forbids the `{ahead}` that follows it"
    shared = min(len(ahead), len(wanted))
    if not negative and ahead[:shared] != wanted[:shared]:
        return f"`(?={ahead})` requires different text from the `{wanted}` that follows it"
    return None


def _plain(tokens: Sequence[Token]) -> str:
    """The literal text that the tokens begin with, without a last character that is repeated."""
    text = ""
    for index, token in enumerate(tokens):
        if token.kind != "literal" or (index + 1 < len(tokens) and tokens[index + 1].kind == "repeat"):
            break
        text += token.text
    return text.casefold()


def tokenize(pattern: str, *, verbose: bool) -> list[Token]:
    """The pattern's tokens, without flags and comments. Expects a pattern that compiles."""
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        skipped = _COMMENT.match(pattern, at) or _FLAGS.match(pattern, at)
        if skipped is None and verbose:
            skipped = _BLANK.match(pattern, at)
        if skipped is not None:
            at = skipped.end()
            continue
        token, at = _token(pattern, at)
        tokens.append(token)
    return tokens


def _token(pattern: str, at: int) -> tuple[Token, int]:
    char = pattern[at]
    if char == "\\" and (found := _ESCAPE.match(pattern, at)):
        return _escape(found[0]), found.end()
    if char == "[" and (found := _CLASS.match(pattern, at)):
        return Token("class", found[0]), found.end()
    if char == "(" and (found := _OPEN.match(pattern, at)):
        return Token("open", found[0]), found.end()
    if found := _REPEAT.match(pattern, at):
        return Token("repeat", found[0]), found.end()
    return Token(_KINDS.get(char, "literal"), char), at + 1


def _escape(text: str) -> Token:
    if text in _ANCHORS:
        return Token("anchor", text)
    if len(text) == 2 and not text[1].isalnum():
        return Token("literal", text[1])
    return Token("escape", text)


def closing(tokens: list[Token], start: int) -> int:
    """The index of the token that closes the group opened at `start`; the last index when none does."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].kind == "open") - (tokens[index].kind == "close")
        if depth == 0:
            return index
    return len(tokens) - 1


def opening(tokens: list[Token], end: int) -> int:
    """The index of the token that opens the group closed at `end`; 0 when none does."""
    depth = 0
    for index in range(end, -1, -1):
        depth += (tokens[index].kind == "close") - (tokens[index].kind == "open")
        if depth == 0:
            return index
    return 0


def alternatives(tokens: list[Token]) -> list[list[Token]]:
    """The top-level alternatives of the body of a group."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.kind == "or" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


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
    held = is_forbidden(text, phrase, case_sensitive=False)
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
    known = _known_words(tuple(texts))
    if word in known or _WHOLE_WORDS.fullmatch(word):
        return False
    if _CUT_ENDINGS.fullmatch(word):
        return True
    longer = (found[len(word) :] for found in known if found.startswith(word))
    return len(word) >= _MIN_LETTERS_SEEN and any(_DERIVED.fullmatch(rest) for rest in longer)


@functools.lru_cache(maxsize=64)
def _known_words(texts: tuple[str, ...]) -> frozenset[str]:
    """Cached: every alternative of every pattern is looked for in the scenario's own texts."""
    return frozenset(found for text in texts for found in _WORD.findall(text.casefold()))
