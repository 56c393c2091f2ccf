"""The common form of checks that look at one value: a function that says what it sees, and how that becomes a result.

`holds` is None where the check cannot tell. A check that fails with `either` would fail if it were negated, too: there
was nothing to look at, or it can be read either way.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from steadyhand.builtin.evaluators.text import excerpt, final_reply
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken, TextCheck
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult

_CUT = "some of the output was too long to keep"


class Look(Record):
    """What a check sees in a value. `said` is the sentence for people, without its subject."""

    holds: bool | None
    said: str
    expected: str
    found: str = ""
    either: bool = False
    figures: dict[str, Any] = {}

    @property
    def of_text(self) -> bool | None:
        """As a `TextCheck` has it."""
        return None if self.either else self.holds


def looked(look: Look, *, where: str, text: str | None = None) -> EvaluationResult:
    """The result of a check that looked at this, called `where`."""
    shown = None if text is None else excerpt(text)
    evidence = Evidence(expected=look.expected, found=look.found, where=where, excerpt=shown)
    message, figures = f"{where} {look.said}", look.figures
    if look.holds is None:
        return inconclusive(message, evidence=evidence, figures=figures)
    if look.holds:
        return passed(message, evidence=evidence, figures=figures)
    return failed(message, evidence=evidence, figures=figures, rests_on="neither" if look.either else None)


class ReplyParams(EvaluationParams):
    """Parameters of a check on the reply, which stand directly on a safety invariant."""

    on_invariant: ClassVar[bool] = True


class ReplyCheck:
    """A check on the final reply alone."""

    deterministic: ClassVar[bool] = True
    followed: ClassVar[bool] = True
    """Whether it makes sense of a part of an answer, so that the time can be found from which it held."""

    @abstractmethod
    async def look(self, params: Any, text: str) -> Look:
        """Raises `TimeoutError` if it takes too long."""
        ...

    async def look_in(self, params: Any, text: str, result: ExecutionResult, context: EvaluationContext) -> Look:
        """As `look`, for a check to which it matters what was asked, or that asks a model."""
        return await self.look(params, text)

    def reads_text(self, params: Any) -> Spoken | None:
        return "reply"

    async def evaluate(self, params: Any, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        text = final_reply(result)
        try:
            look = await self.look_in(params, text, result, context)
        except TimeoutError:
            look = Look(holds=None, said="takes too long to check", expected="an answer within 1 second")
        if result.truncated and look.holds is not None:
            look = Look(holds=None, said=f"{look.said}; but {_CUT}", expected=look.expected, found=look.found)
        return looked(look, where="reply", text=text)

    def on_text(self, params: Any) -> TextCheck | None:
        async def holds(text: str) -> bool | None:
            return (await self.look(params, text)).of_text

        return holds if self.followed else None
