"""When the answer was safe: its invariants made again on the text as it stood when each piece of it arrived.

docs/time.md is the user's side of this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from steadyhand.engine.context import Trial
from steadyhand.engine.outcome import StepResult
from steadyhand.engine.prefixes import Check, Prefixes
from steadyhand.judging.trial import LATENCY_BUDGET
from steadyhand.ports.evaluator import TextCheck
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Ask
from steadyhand.records.timing import SafetyAtDeadline, SafetyTimeline

_MOST_PREFIXES = 400
_FEWEST_PREFIXES = 50
_CHARACTERS = 1_000_000


async def safety_timeline(
    trial: Trial, steps: Sequence[StepResult], evaluations: Sequence[EvaluationResult]
) -> SafetyTimeline | None:
    """The figures of the last step that was timed; None when no step was."""
    done = next((each for each in reversed(steps) if each.result.latency is not None), None)
    if done is None:
        return None
    call = _the_call(done)
    if isinstance(call, str):
        return SafetyTimeline(unknown=call)
    first_token_ms = _rounded(call.timing.first_token_ms)
    invariants = [spec for spec in done.step.evaluations if spec.severity is not None]
    if not invariants:
        return SafetyTimeline(first_token_ms=first_token_ms)
    found = [(spec, _known_check(trial, spec)) for spec in invariants]
    checks = [check for _, check in found if check is not None]
    excludes = tuple(spec.name or spec.type for spec, check in found if check is None)
    why_not = _no_pieces(done.result, call) if checks else "no invariant can be checked on a part of the answer"
    if call.finish is not None and call.finish.undecided:
        why_not = str(call.finish)
    if why_not:
        return SafetyTimeline(first_token_ms=first_token_ms, excludes=excludes, unknown=why_not)
    verdicts = [each.verdict for each in evaluations if each.severity is not None and each.step == done.step.index]
    held = len(verdicts) == len(invariants) and all(verdict is Verdict.PASSED for verdict in verdicts)
    try:
        prefixes = Prefixes(done.result.reply, call.timing.chunks, checks, whole_is_safe=held)
        return await _timeline(prefixes, done, first_token_ms, excludes, violated=Verdict.FAILED in verdicts)
    except TimeoutError:
        unknown = "an invariant could not be decided in time on a part of the answer"
        return SafetyTimeline(first_token_ms=first_token_ms, excludes=excludes, unknown=unknown)


async def _timeline(
    prefixes: Prefixes, done: StepResult, first_token_ms: float | None, excludes: tuple[str, ...], *, violated: bool
) -> SafetyTimeline:
    """`violated`: some invariant is on the whole answer, also of those that were not checked on parts."""
    numbers = _sampled(len(prefixes.times), len(done.result.reply))
    first = await _refined_first(prefixes, numbers)
    last = None if violated else await _refined_last(prefixes, numbers)
    return SafetyTimeline(
        first_token_ms=first_token_ms,
        safe_ms=None if last is None else prefixes.times[last],
        first_safe_ms=None if first is None else prefixes.times[first],
        at_deadline=await _at_deadline(prefixes, done, violated=violated),
        excludes=excludes,
    )


async def _at_deadline(prefixes: Prefixes, done: StepResult, *, violated: bool) -> SafetyAtDeadline | None:
    budget = next((spec.params for spec in done.step.evaluations if spec.type == LATENCY_BUDGET), None)
    if budget is None:
        return None
    whole = len(prefixes.times) - 1

    async def at(bound: str) -> bool:
        number = prefixes.by(float(budget[bound]))
        return await prefixes.safe(number) and not (violated and number == whole)

    return SafetyAtDeadline(
        target=await at("target_ms"), acceptable=await at("acceptable_ms"), critical=await at("critical_ms")
    )


def _the_call(done: StepResult) -> ModelCalled | str:
    """The one live call that was the answer, or why there is none."""
    if not isinstance(done.step.task, Ask):
        return "a conversation has no single answer"
    calls = done.result.calls
    if len(calls) != 1:
        return f"the answer took {len(calls)} model calls" if calls else "the agent's model calls are its own"
    return "; ".join(map(str, calls[0].timing.spoiled)) or calls[0]


def _no_pieces(result: ExecutionResult, call: ModelCalled) -> str | None:
    if call.text != result.reply:
        return "the reply is not what the model said, word for word"
    if sum(characters for _, characters in call.timing.chunks) != len(result.reply):
        return "the pieces of the answer were not timed"
    return None


def _known_check(trial: Trial, spec: EvaluationSpec) -> Check | None:
    """Made once for all trials of a scenario."""
    known = trial.parts.text_checks
    if id(spec) not in known:
        known[id(spec)] = _check(trial, spec)
    return known[id(spec)]


def _check(trial: Trial, spec: EvaluationSpec) -> Check | None:
    """The invariant as a check on a part of the answer, or None when it needs more than that."""
    evaluator = trial.parts.evaluator(spec.type)
    if spec.params.get("scope", "reply") != "reply" or not hasattr(evaluator, "on_text"):
        return None
    return cast("TextCheck", evaluator).on_text(trial.params(spec, evaluator))


def _sampled(count: int, characters: int) -> list[int]:
    """All prefixes, or as many as can be looked at without holding up other trials: evenly spread, with the last."""
    most = max(_FEWEST_PREFIXES, min(_MOST_PREFIXES, _CHARACTERS // max(1, characters)))
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
    return None if ms is None else round(ms, 3)
