"""Several answers to one question -> one judgement. A majority is more than half of all that were asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steadyhand.builtin.judges.answer import Answer
from steadyhand.builtin.judges.prompt import shortened
from steadyhand.ports.agent import Judgement, NoJudgement
from steadyhand.records.base import Record
from steadyhand.records.evaluation import JudgeNote

_SEPARATOR = "\n\n----\n\n"
_RAW_LIMIT = 20_000


class Vote(Record):
    """What came of asking once. Without an `answer` it is an abstention, and `problem` says why."""

    raw: str
    answer: Answer | None = None
    problem: str | None = None
    repaired: bool = False


class Ballot(Record):
    """Who was asked, and with which prompt."""

    model: str
    prompt_hash: str
    self_judged: bool
    capabilities: tuple[str, ...]


def decide(votes: Sequence[Vote], ballot: Ballot) -> Judgement:
    """Raises `NoJudgement` when there is no majority."""
    answers = [vote.answer for vote in votes if vote.answer is not None]
    counts = Counter(answer.judgment.casefold() for answer in answers)
    word, most = counts.most_common(1)[0] if counts else ("", 0)
    if 2 * most <= len(votes):
        raise NoJudgement(_no_majority(votes, counts), note=_note(votes, ballot, [], {}))
    winners = [answer for answer in answers if answer.judgment.casefold() == word]
    achieved = {name: 2 * sum(answer.achieved[name] for answer in answers) > len(votes) for name in ballot.capabilities}
    note = _note(votes, ballot, winners, achieved)
    return Judgement(
        judgment=winners[0].judgment,
        note=note,
        confidence=note.confidence,
        reasoning=winners[0].reasoning,
        achieved=achieved,
        fields=winners[0].fields,
        needs_unseen=any(answer.needs_unseen for answer in winners),
    )


def _note(votes: Sequence[Vote], ballot: Ballot, winners: Sequence[Answer], achieved: dict[str, bool]) -> JudgeNote:
    sure = [answer.confidence for answer in winners if answer.confidence is not None]
    return JudgeNote(
        model=ballot.model,
        prompt_hash=ballot.prompt_hash,
        raw=_SEPARATOR.join(_kept(vote.raw) for vote in votes),
        self_judged=ballot.self_judged,
        confidence=round(sum(sure) / len(sure), 6) if sure else None,
        reasoning=winners[0].reasoning if winners else None,
        capabilities=achieved,
        votes=tuple(vote.answer.judgment if vote.answer else "abstained" for vote in votes) if len(votes) > 1 else (),
        repaired=any(vote.repaired for vote in votes),
    )


def _no_majority(votes: Sequence[Vote], counts: Counter[str]) -> str:
    problems = [vote.problem for vote in votes if vote.problem]
    if len(votes) == 1 or len(problems) == len(votes):
        return problems[0]
    tally = [f"{count} {word!r}" for word, count in counts.most_common()]
    if problems:
        tally.append(f"{len(problems)} without an answer (first: {problems[0]})")
    return f"the judge's votes have no majority of {len(votes)}: {', '.join(tally)}"


def _kept(raw: str) -> str:
    """What can be stored: valid Unicode, and of a size that does not swell the record."""
    return shortened(raw.encode("utf-8", "replace").decode("utf-8"), _RAW_LIMIT)
