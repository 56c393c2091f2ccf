"""Who answers a question about what an agent said and did."""

from __future__ import annotations

from typing import Any, Protocol

from steadyhand.ports.agent import TrialContext
from steadyhand.records.base import Record
from steadyhand.records.evaluation import JudgeNote, Material
from steadyhand.records.event import Visible

__all__ = ["Judge", "Judgement", "Material", "NoJudgement", "Question"]


class Question(Record):
    """What to judge. `json_schema` replaces the answer's own schema; `votes` is how often to ask.

    `unseen` is what the materials cannot show of what was done. The judge fills it in from the trial, and says whether
    its answer depends on it.
    """

    prompt: str
    materials: tuple[Material, ...]
    capabilities: tuple[str, ...] = ()
    json_schema: dict[str, Any] | None = None
    model_type: str | None = None
    temperature: float | None = None
    votes: int | None = None
    unseen: tuple[Visible, ...] = ()


class Judgement(Record):
    """The judge's word, validated. `fields` is the whole object it answered with.

    `confidence` is how sure the judge is that the answer is yes: 0 certainly no, 1 certainly yes. `needs_unseen` says
    that the answer depends on what could not be shown: `Question.unseen`.
    """

    judgment: str
    note: JudgeNote
    confidence: float | None = None
    reasoning: str = ""
    achieved: dict[str, bool] = {}
    fields: dict[str, Any] = {}
    needs_unseen: bool = False


class NoJudgement(Exception):
    """There is no judgement to be had: no judge, an outage, or an answer that stayed unreadable. Inconclusive."""

    def __init__(self, reason: str, *, note: JudgeNote | None = None) -> None:
        super().__init__(reason)
        self.note: JudgeNote | None = note


class Judge(Protocol):
    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    def self_judged(self) -> bool:
        """Whether the model under test is its own judge."""
        ...

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        """Raises `NoJudgement`."""
        ...
