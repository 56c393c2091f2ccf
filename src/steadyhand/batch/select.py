"""Choosing scenarios: by tag, and by an expression over their ids and names (`-k`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from steadyhand.errors import SetupError
from steadyhand.records.scenario import Scenario

Predicate = Callable[[str], bool]
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


def select(scenarios: Sequence[Scenario], *, tags: Sequence[str] = (), expression: str | None = None) -> list[Scenario]:
    """Those that carry every tag and match the expression. Raises `SetupError` for a malformed expression."""
    wanted = {tag.casefold() for tag in tags}
    matches = _Parser(expression).parse() if expression else None
    return [
        scenario
        for scenario in scenarios
        if wanted <= {tag.casefold() for tag in scenario.tags}
        and (matches is None or matches(f"{scenario.id} {scenario.name}".casefold()))
    ]


class _Parser:
    """`word`, `not`, `and`, `or` and parentheses, with the precedence of Python."""

    def __init__(self, text: str) -> None:
        self._text: str = text
        self._tokens: list[str] = _TOKEN.findall(text)

    def parse(self) -> Predicate:
        predicate = self._either()
        if self._tokens:
            raise self._wrong()
        return predicate

    def _either(self) -> Predicate:
        first = self._both()
        while self._take("or"):
            first = _or(first, self._both())
        return first

    def _both(self) -> Predicate:
        first = self._one()
        while self._take("and"):
            first = _and(first, self._one())
        return first

    def _one(self) -> Predicate:
        if self._take("not"):
            inner = self._one()
            return lambda text: not inner(text)
        if self._take("("):
            inner = self._either()
            if not self._take(")"):
                raise self._wrong()
            return inner
        if not self._tokens or self._tokens[0] in {")", "and", "or"}:
            raise self._wrong()
        word = self._tokens.pop(0).casefold()
        return lambda text: word in text

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def _wrong(self) -> SetupError:
        return SetupError(f"-k {self._text!r}: expected words joined by `and`, `or`, `not` and parentheses")


def _or(left: Predicate, right: Predicate) -> Predicate:
    return lambda text: left(text) or right(text)


def _and(left: Predicate, right: Predicate) -> Predicate:
    return lambda text: left(text) and right(text)
