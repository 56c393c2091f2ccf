"""A regular expression cut into tokens: enough of its grammar for lint to reason about, not a parser."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

TokenKind = Literal["literal", "escape", "class", "anchor", "dot", "open", "close", "or", "repeat"]

_FLAGS = re.compile(r"\(\?[a-zA-Z0-9]*(?:-[a-zA-Z]+)?\)")
_OPEN = re.compile(r"\((?:\?(?:<[=!]|[:=!>|]|P?<\w+>|[a-zA-Z]*(?:-[a-zA-Z]+)?:))?")
_COMMENT = re.compile(r"\(\?#[^)]*\)")
_REPEAT = re.compile(r"(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[xuU][0-9a-fA-F]+|[pPN]\{[^}]*\}|.)", re.DOTALL)
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_KINDS: dict[str, TokenKind] = {")": "close", "|": "or", "^": "anchor", "$": "anchor", ".": "dot"}
_ANCHORS = frozenset((r"\A", r"\Z", r"\b", r"\B"))


class Token(NamedTuple):
    """`text` as it stands in the pattern; for a literal the character it matches."""

    kind: TokenKind
    text: str


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
