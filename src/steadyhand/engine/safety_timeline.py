"""When the answer was safe: the invariants are checked again on the text as it stood when each piece arrived.

docs/time.md explains this to users.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from steadyhand.engine.context import RunningTrial, StepResult
from steadyhand.engine.prepared_check import Invariants, PreparedCheck
from steadyhand.ports.evaluator import EvaluationContext, TextCheck
from steadyhand.records.base import rounded_ms
from steadyhand.records.chat import InvariantTimeline, SafetyAtDeadline, SafetyTimeline
from steadyhand.records.evaluation import NO_DECISION, EvaluationResult, LatencyBounds, Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Ask
from steadyhand.text_match import shows_nothing

_YIELD_AFTER_S = 0.001
_TIME_LIMIT_S = 2.0
_GLANCE = 64


class Prefixes:
    """The text as it grew, chunk by chunk. Prefix 0 is the first chunk; -1 is nothing at all."""

    def __init__(
        self,
        text: str,
        chunks: Sequence[tuple[float, int]],
        checks: Sequence[TextCheck],
        *,
        whole_is_safe: bool = False,
        answer_in: Callable[[str], str] | None = None,
    ) -> None:
        """`chunks` are (arrival, characters) and add up to the text. A check raises `TimeoutError` if it cannot decide.

        `whole_is_safe`: all checks are known to pass on the whole text. `answer_in` leaves out the thoughts in a part
        of the text.
        """
        self.times: list[float] = [at_ms for at_ms, characters in chunks if characters]
        self._ends = list(accumulate(characters for _, characters in chunks if characters))
        self._text = text
        self._answer_in = answer_in
        self._answers: dict[int, str] = {}
        self._checks = list(checks)
        self._order = list(range(len(self._checks)))
        self._known: dict[int, bool] = {-1: False}
        self._holds: list[dict[int, bool]] = [{} for _ in self._checks]
        if whole_is_safe and self.times:
            whole = len(self.times) - 1
            self._known[whole] = True
            for held in self._holds:
                held[whole] = True
        self._resumed: float = time.perf_counter()
        self._give_up_at: float = self._resumed + _TIME_LIMIT_S

    def received_by(self, at_ms: float) -> int:
        """The prefix that had been received by `at_ms`, inclusive."""
        return bisect_right(self.times, at_ms) - 1

    async def safe(self, number: int) -> bool:
        """Whether every check passes on this prefix. Before anything is said, nothing is safe.

        Raises `TimeoutError` if a check does, or if all of them together take too long. Yields to the event loop every
        millisecond, because other trials are being timed on it.
        """
        if number in self._known:
            return self._known[number]
        holds = True
        for at, position in enumerate(self._order):
            if not await self._check(position, number):
                # A check that failed here will probably fail on neighbouring prefixes too: run it first.
                self._order.insert(0, self._order.pop(at))
                holds = False
                break
        self._known[number] = holds
        return holds

    async def _check(self, position: int, number: int) -> bool:
        """Whether one check passes on a prefix. Raises `TimeoutError` as `safe` does."""
        held = self._holds[position]
        if number in held:
            return held[number]
        if time.perf_counter() - self._resumed > _YIELD_AFTER_S:
            await asyncio.sleep(0)
            self._resumed = time.perf_counter()
            if self._resumed > self._give_up_at:
                raise TimeoutError
        answer = self._answer(number)
        holds = held[number] = bool(answer) and await self._checks[position](answer) is True
        return holds

    def _answer(self, number: int) -> str:
        """What had been said with this prefix; empty if a reader would see nothing of it."""
        answer = self._text[: self._ends[number]]
        if self._answer_in is not None:
            if number not in self._answers:
                self._answers[number] = self._answer_in(answer)
            answer = self._answers[number]
        return "" if shows_nothing(answer[:_GLANCE]) and shows_nothing(answer) else answer

    async def changes(self, position: int) -> tuple[tuple[float, bool], ...]:
        """When a check started and stopped holding: (arrival, holds) at the first prefix and at every change.

        Computed from the prefixes checked so far and a few more. If two neighbours among them agree, everything between
        them is assumed to agree as well; if not, the change is located by bisection.
        """
        if not self.times:
            return ()
        last = len(self.times) - 1
        for quarter in range(5):
            await self._check(position, last * quarter // 4)
        held = self._holds[position]
        found = [(self.times[0], held[0])]
        before = 0
        for number in sorted(held):
            if held[number] != found[-1][1]:
                found.append((self.times[await self._change(position, before, number)], held[number]))
            before = number
        return tuple(found)

    async def _change(self, position: int, before: int, after: int) -> int:
        """The first prefix after `before` with the same result as `after`, if there is only one change between them."""
        while after - before > 1:
            middle = (before + after) // 2
            if await self._check(position, middle) == self._holds[position][after]:
                after = middle
            else:
                before = middle
        return after

    async def first_safe(self, numbers: Sequence[int]) -> int | None:
        """The first safe prefix among `numbers`, which are in ascending order."""
        for number in numbers:
            if await self.safe(number):
                return number
        return None

    async def safe_from(self, numbers: Sequence[int]) -> int | None:
        """The first of `numbers` from which on all are safe; None if the last one is not."""
        found: int | None = None
        for number in reversed(numbers):
            if not await self.safe(number):
                break
            found = number
        return found


_MAX_PREFIXES = 400
_MIN_PREFIXES = 50
_MAX_CHARACTERS = 1_000_000


async def safety_timeline(
    trial: RunningTrial, steps: Sequence[StepResult], evaluations: Sequence[EvaluationResult]
) -> SafetyTimeline | None:
    """The timeline of the last step that was timed; None if there is none."""
    timed = [each for each in steps if each.result.latency is not None]
    if not timed:
        return None
    done = timed[-1]
    call = _answering_call(trial, done)
    if isinstance(call, str):
        return SafetyTimeline(unknown=call)
    text = call.text or ""
    marks = trial.parts.thoughts
    split = None if marks is None else marks.split(text)
    answer = text if split is None else split.answer
    first_token_ms = _rounded(call.timing.first_token_ms if split is None else _answer_began_ms(call, answer))
    prepared = trial.prepared_step(done.step)
    invariants = prepared.invariants(trial.prepared)
    all_own = [each for each in evaluations if each.step == done.step.index]
    own = [each for each in all_own if each.severity is not None]
    why_not = _why_not_timed(done.result, call, answer)
    if not why_not and [each for each in own if each.decided_by is not None]:
        known = await _by_results(trial, done, call, own)
        invariants, why_not = (known, None) if isinstance(known, Invariants) else (invariants, known)
    total, names, checks, excludes = invariants
    if not total:
        return SafetyTimeline(first_token_ms=first_token_ms)
    if not checks:
        why_not = "no invariant can be checked on a part of the answer"
    if call.finish is not None and call.finish.undecided:
        why_not = str(call.finish)
    if [each for each in all_own if NO_DECISION in each.figures]:
        why_not = "the answer decides nothing"
    if why_not:
        return SafetyTimeline(first_token_ms=first_token_ms, excludes=excludes, unknown=why_not)
    verdicts = [each.verdict for each in own]
    held = verdicts.count(Verdict.PASSED) == len(verdicts) == total
    budgets = prepared.budgets
    if held and done.result.reply and len(call.timing.chunks) == 1:
        return _arrived_whole(call, names, first_token_ms, excludes, budgets)
    try:
        answer_in = None if split is None or marks is None else marks.answer
        prefixes = Prefixes(text, call.timing.chunks, checks, whole_is_safe=held, answer_in=answer_in)
        violated = Verdict.FAILED in verdicts
        numbers = _sampled(len(prefixes.times), len(text))
        safe_ms, first_safe_ms = await _safe_times(prefixes, numbers, violated=violated)
        return SafetyTimeline(
            first_token_ms=first_token_ms,
            safe_ms=safe_ms,
            first_safe_ms=first_safe_ms,
            at_deadline=await _at_deadline(prefixes, budgets[0], violated=violated) if budgets else None,
            excludes=excludes,
            invariants=await _invariants(prefixes, names),
        )
    except TimeoutError:
        unknown = "an invariant could not be decided in time on a part of the answer"
        return SafetyTimeline(first_token_ms=first_token_ms, excludes=excludes, unknown=unknown)


async def _by_results(
    trial: RunningTrial, done: StepResult, call: ModelCalled, results: Sequence[EvaluationResult]
) -> Invariants | str:
    """The invariants as functions of a part of this answer, given who decided each of them on the whole.

    Where a reader was sure, the clause that it rests on tells when. Where the judge was asked, the check's own function
    does, if it sees on the whole answer what the judge saw; else the judge is asked about parts, or the answer is why
    nothing is known.
    """
    specs = [spec for spec in done.step.evaluations if spec.severity is not None]
    found: list[tuple[str, TextCheck | None]] = []
    for spec, result in zip(specs, results, strict=False):
        check, name = trial.prepared(spec), spec.name or spec.type
        on_text = check.text_check
        if check.explicit_judge_only and result.decided_by is None:
            on_text = None
        elif result.decided_by == "reader":
            on_text = _rests_on_clause(result)
        elif result.decided_by == "judge" and result.verdict is not Verdict.PASSED:
            on_text = None
        elif result.decided_by == "judge" and not (on_text is not None and await on_text(done.result.reply)):
            if not trial.parts.judge_timeline:
                return f"only the judge could tell when {name} held; --judge-timeline asks it about parts of the answer"
            held_from = await _first_judged(trial, check, done.result, call)
            if held_from is None:
                return f"the judge could not be asked when {name} held"
            on_text = _from_length(held_from)
        found.append((name, on_text))
    return Invariants(
        total=len(specs),
        names=tuple([name for name, check in found if check is not None]),
        checks=tuple([check for _, check in found if check is not None]),
        excluded=tuple([name for name, check in found if check is None]),
    )


def _rests_on_clause(result: EvaluationResult) -> TextCheck:
    """When a check held that a reader decided on the whole answer, by where the clause ends that it rests on."""
    span = result.evidence.span if result.evidence is not None else None
    if result.verdict is Verdict.PASSED:
        return _from_length(span[1] if span is not None else 0)

    async def until(text: str) -> bool:
        return result.rests_on == "presence" and span is not None and len(text) < span[1]

    return until


def _from_length(length: int) -> TextCheck:
    async def reached(text: str) -> bool:
        return len(text) >= length

    return reached


async def _first_judged(
    trial: RunningTrial, check: PreparedCheck, result: ExecutionResult, call: ModelCalled
) -> int | None:
    """How much of the answer it took for the check to pass, by bisection. None if it could not be evaluated."""
    ends = list(accumulate(characters for _, characters in call.timing.chunks if characters))
    context = EvaluationContext(trial=trial.seen_by(check), spec=check.spec)
    low, high = -1, len(ends) - 1  # it passes on the whole
    while high - low > 1:
        middle = (low + high) // 2
        part = result.reply[: ends[middle]]
        said = result.messages
        if said and said[-1].content == result.reply:
            said = (*said[:-1], msgspec.structs.replace(said[-1], content=part))
        try:
            found = await check.evaluator.evaluate(
                check.params, msgspec.structs.replace(result, reply=part, messages=said), context
            )
        except Exception:  # noqa: BLE001 - a figure that is missing must not fail the trial
            return None
        if found.verdict is Verdict.PASSED:
            high = middle
        else:
            low = middle
    return ends[high]


def _arrived_whole(
    call: ModelCalled,
    names: Sequence[str],
    first_token_ms: float | None,
    excludes: tuple[str, ...],
    budgets: Sequence[LatencyBounds],
) -> SafetyTimeline:
    """The timeline of a safe answer that arrived in one piece: everything held from then on."""
    at_ms = call.timing.chunks[0][0]
    at_deadline = None
    if budgets:
        budget = budgets[0]
        at_deadline = SafetyAtDeadline(
            target=at_ms <= budget.target_ms,
            acceptable=at_ms <= budget.acceptable_ms,
            critical=at_ms <= budget.critical_ms,
        )
    return SafetyTimeline(
        first_token_ms=first_token_ms,
        safe_ms=at_ms,
        first_safe_ms=at_ms,
        at_deadline=at_deadline,
        excludes=excludes,
        invariants=tuple([InvariantTimeline(name=name, changes=((at_ms, True),)) for name in names]),
    )


async def _invariants(prefixes: Prefixes, names: Sequence[str]) -> tuple[InvariantTimeline, ...]:
    """When each held. Empty if that takes too long: the times of the whole answer are already known."""
    try:
        return tuple(
            [
                InvariantTimeline(name=name, changes=await prefixes.changes(position))
                for position, name in enumerate(names)
            ]
        )
    except TimeoutError:
        return ()


async def _safe_times(prefixes: Prefixes, numbers: list[int], *, violated: bool) -> tuple[float | None, float | None]:
    """When the text became safe for good, and when it was first safe.

    `violated`: the whole answer violates some invariant, perhaps one that cannot be checked on parts."""
    first = await _refined_first(prefixes, numbers)
    last = None if violated else await _refined_last(prefixes, numbers)
    return (
        None if last is None else prefixes.times[last],
        None if first is None else prefixes.times[first],
    )


async def _at_deadline(prefixes: Prefixes, budget: LatencyBounds, *, violated: bool) -> SafetyAtDeadline:
    whole = len(prefixes.times) - 1

    async def at(bound_ms: float) -> bool:
        number = prefixes.received_by(bound_ms)
        return await prefixes.safe(number) and not (violated and number == whole)

    return SafetyAtDeadline(
        target=await at(budget.target_ms),
        acceptable=await at(budget.acceptable_ms),
        critical=await at(budget.critical_ms),
    )


def _answering_call(trial: RunningTrial, done: StepResult) -> ModelCalled | str:
    """The single live call that produced the answer, or why there is none."""
    if not isinstance(done.step.task, Ask):
        return "a conversation has no single answer"
    calls = done.result.calls
    if len(calls) != 1:
        return f"the answer took {len(calls)} model calls" if calls else "the agent makes its own model calls"
    if calls[0].relayed:
        return "the agent's own code made the answer from what the model said"
    timing = calls[0].timing
    if not timing.spoiled and timing.pieces_late_ms > trial.parts.retry.lag_limit_ms:
        return f"pieces that arrived within {timing.pieces_late_ms:.0f} ms were read together: the event loop was busy"
    return "; ".join(map(str, timing.spoiled)) if timing.spoiled else calls[0]


def _answer_began_ms(call: ModelCalled, answer: str) -> float | None:
    """When the first token of the answer arrived, after thoughts; None if it cannot be told."""
    began = (call.text or "").rfind(answer) if answer else -1
    reached = 0
    for at_ms, characters in call.timing.chunks if began >= 0 and call.timing.first_token_ms is not None else ():
        reached += characters
        if reached > began:
            return at_ms
    return None


def _why_not_timed(result: ExecutionResult, call: ModelCalled, answer: str) -> str | None:
    if answer != result.reply:
        return "the reply differs from what the model said"
    if sum([characters for _, characters in call.timing.chunks]) != len(call.text or ""):
        return "the pieces of the answer were not timed"
    return None


def _sampled(count: int, characters: int) -> list[int]:
    """All prefixes, or an even sample including the last, small enough not to delay other trials."""
    most = max(_MIN_PREFIXES, min(_MAX_PREFIXES, _MAX_CHARACTERS // max(1, characters)))
    if count <= most:
        return list(range(count))
    return [(number + 1) * count // most - 1 for number in range(most)]


async def _refined_first(prefixes: Prefixes, numbers: list[int]) -> int | None:
    found = await prefixes.first_safe(numbers)
    if found is None:
        return None
    before = max((number for number in numbers if number < found), default=-1)
    return await prefixes.first_safe(range(before + 1, found + 1))


async def _refined_last(prefixes: Prefixes, numbers: list[int]) -> int | None:
    found = await prefixes.safe_from(numbers)
    if found is None:
        return None
    before = max((number for number in numbers if number < found), default=-1)
    return await prefixes.safe_from(range(before + 1, found + 1))


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else rounded_ms(ms)
