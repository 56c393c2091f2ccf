"""A check, a group of checks and a step, with what is the same about them in every trial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from steadyhand.judging.group import needed
from steadyhand.language.answer import REFUSALS
from steadyhand.ports.agent import Visible
from steadyhand.ports.evaluator import (
    AnyEvaluator,
    Spoken,
    TextCheck,
    deterministic,
    embeds_with,
    explicit_judge_only,
    fails_for_good,
    latency_bounds,
    needs_judge,
    only_forbids,
    reads_of,
    run_file,
    script_of,
    text_check,
    text_read,
)
from steadyhand.records.evaluation import EvaluationSpec, LatencyBounds, spec_digest
from steadyhand.records.scenario import Converse, Step


class PreparedCheck:
    """A check and what is the same in every trial: its evaluator, its parameters, and what they declare.

    `budget` is the latency budget that the check grades, if any.
    """

    __slots__ = (
        "_text_check", "budget", "digest", "embeds_with", "evaluator", "fails_for_good", "only_forbids", "params",
        "reads", "runs_file", "spec", "spoken",
    )  # fmt: skip

    def __init__(self, spec: EvaluationSpec, evaluator: AnyEvaluator) -> None:
        """Raises whatever the evaluator raises for invalid parameters."""
        self.spec: EvaluationSpec = spec
        """Kept alive, because checks are looked up by the identity of their specification."""
        self.evaluator: AnyEvaluator = evaluator
        self.params: Any = evaluator.params.model_validate(spec.params)
        self.reads: frozenset[Visible] = reads_of(evaluator, self.params)
        self.runs_file: bool = run_file(evaluator, self.params) is not None
        self.spoken: Spoken | None = text_read(evaluator, self.params)
        self.fails_for_good: bool = fails_for_good(evaluator)
        forbids = only_forbids(evaluator)
        is_asked = self.spoken is not None and not self.is_code
        self.only_forbids: bool = is_asked and not forbids if spec.negate else forbids
        self.embeds_with: str | None = embeds_with(evaluator, self.params)
        self.budget: LatencyBounds | None = latency_bounds(evaluator, self.params)
        self.digest: str = spec_digest(spec)
        self._text_check: tuple[TextCheck | None] | None = None

    @property
    def text_check(self) -> TextCheck | None:
        """The same check on part of an answer, if it supports that."""
        if self._text_check is None:
            found = text_check(self.evaluator, self.params)
            self._text_check = (_opposite(found) if found is not None and self.spec.negate else found,)
        return self._text_check[0]

    @property
    def needs_judge(self) -> bool:
        """Raises whatever the evaluator's declaration raises."""
        return needs_judge(self.evaluator, self.params)

    @property
    def is_code(self) -> bool:
        """Whether the author's own code decides it, so that it has to be run to know what it asks."""
        return self.runs_file or script_of(self.evaluator, self.params) is not None

    @property
    def calls_model(self) -> bool:
        """Whether it asks a judge, or a model that embeds texts."""
        return self.embeds_with is not None or self.needs_judge

    @property
    def explicit_judge_only(self) -> bool:
        return explicit_judge_only(self.evaluator)

    @property
    def deterministic(self) -> bool:
        return deterministic(self.evaluator, self.params)


class PreparedGroup(PreparedCheck):
    """A group of checks, which are made one by one: it reads nothing itself, and asks nobody."""

    __slots__ = ("parts",)

    def __init__(self, spec: EvaluationSpec, parts: Sequence[PreparedCheck]) -> None:
        self.spec = spec
        self.parts: Sequence[PreparedCheck] = parts
        self.evaluator = parts[0].evaluator
        self.params = {}
        self.reads = frozenset()
        self.runs_file = False
        self.spoken = None
        self.fails_for_good = False
        self.only_forbids = False
        self.embeds_with = None
        self.budget = None
        self.digest = spec_digest(spec)
        self._text_check = None

    @property
    def text_check(self) -> TextCheck | None:
        """None unless all the checks can be made on part of an answer."""
        checks = [part.text_check for part in self.parts]
        if None in checks:
            return None
        known = [check for check in checks if check is not None]
        least, negate = needed(self.spec), self.spec.negate

        async def holds(text: str) -> bool | None:
            found = [await check(text) for check in known]
            held = found.count(True) >= least
            if not negate or held:
                return held is not negate
            return True if len(found) - found.count(False) < least else None

        return holds

    @property
    def needs_judge(self) -> bool:
        return any(part.needs_judge for part in self.parts)

    @property
    def calls_model(self) -> bool:
        return any(part.calls_model for part in self.parts)

    @property
    def explicit_judge_only(self) -> bool:
        return any(part.explicit_judge_only for part in self.parts)

    @property
    def deterministic(self) -> bool:
        return all(part.deterministic for part in self.parts)


def prepared_check(
    spec: EvaluationSpec, known: dict[int, PreparedCheck], evaluator: Callable[[str], AnyEvaluator]
) -> PreparedCheck:
    """Looked up in `known`, or added to it. Raises what its evaluator, or the lack of one, raises."""
    found = known.get(id(spec))
    if found is None:
        if spec.parts:
            found = PreparedGroup(spec, [prepared_check(part, known, evaluator) for part in spec.parts])
        else:
            found = PreparedCheck(spec, evaluator(spec.type))
        known[id(spec)] = found
    return found


def _opposite(check: TextCheck) -> TextCheck:
    async def holds(text: str) -> bool | None:
        found = await check(text)
        return None if found is None else not found

    return holds


class Invariants(NamedTuple):
    """The safety invariants of a step: their number, those that can be checked on part of an answer, with their names,
    and the names of the others."""

    total: int
    names: tuple[str, ...]
    checks: tuple[TextCheck, ...]
    excluded: tuple[str, ...]


class PreparedStep:
    """A step and what is the same in every trial: its latency budgets and its invariants."""

    __slots__ = ("_invariants", "_only_forbids", "budgets", "step")

    def __init__(self, step: Step, prepared: Callable[[EvaluationSpec], PreparedCheck]) -> None:
        self.step: Step = step
        """Kept alive, because steps are looked up by identity."""
        self.budgets: tuple[LatencyBounds, ...] = tuple(_budgets(step, prepared))
        self._invariants: Invariants | None = None
        self._only_forbids: bool | None = None

    def invariants(self, prepared: Callable[[EvaluationSpec], PreparedCheck]) -> Invariants:
        """Raises whatever an evaluator raises for invalid parameters."""
        if self._invariants is None:
            specs = [spec for spec in self.step.evaluations if spec.severity is not None]
            found = [(spec.name or spec.type, prepared(spec).text_check) for spec in specs]
            self._invariants = Invariants(
                total=len(specs),
                names=tuple([name for name, check in found if check is not None]),
                checks=tuple([check for _, check in found if check is not None]),
                excluded=tuple([name for name, check in found if check is None]),
            )
        return self._invariants

    def reads_refusals(self, prepared: Callable[[EvaluationSpec], PreparedCheck]) -> bool:
        """Whether an answer may have to be read for a refusal, as far as can be told without waiting."""
        specs = self.step.evaluations
        if not self.step.reply_due:
            return False
        if isinstance(self.step.task, Converse) or all(spec.severity is None for spec in specs):
            return True
        trying = self.only_forbids(prepared)
        try:
            trying.send(None)
        except StopIteration as ended:
            return ended.value is not False
        except Exception:  # noqa: BLE001 - the check itself will end in this error
            return True
        finally:
            trying.close()
        return True

    async def only_forbids(
        self, prepared: Callable[[EvaluationSpec], PreparedCheck], holds: Holds | None = None
    ) -> bool | None:
        """Whether one and the same refusal satisfies every invariant of the step, as far as can be told without a
        judge. None if `holds`, which makes a check on a text, is needed to tell."""
        if self._only_forbids is None:
            task = self.step.task
            specs = self.step.evaluations
            if isinstance(task, Converse):
                specs += task.config.turn_evaluations
            checks = [prepared(spec) for spec in specs if spec.severity is not None]
            satisfied = [_all([await _passes(check, text, holds) for check in checks]) for text in REFUSALS]
            self._only_forbids = True if True in satisfied else None if None in satisfied else False
        return self._only_forbids


Holds = Callable[[PreparedCheck, str], Awaitable[bool]]


def _all(found: Sequence[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


async def _passes(check: PreparedCheck, text: str, holds: Holds | None) -> bool | None:
    try:
        if check.text_check is not None:
            return await check.text_check(text) is True
        if isinstance(check, PreparedGroup):
            return await _group_passes(check, text, holds)
        if check.only_forbids or not check.is_code:
            return check.only_forbids
        return None if holds is None else await holds(check, text)
    except Exception:  # noqa: BLE001 - a check that cannot be tried counts as one that demands something
        return False


async def _group_passes(group: PreparedGroup, text: str, holds: Holds | None) -> bool | None:
    found = [await _passes(part, text, holds) for part in group.parts]
    least = needed(group.spec)
    if found.count(True) >= least:
        return not group.spec.negate
    return group.spec.negate if len(found) - found.count(False) < least else None


def _budgets(step: Step, prepared: Callable[[EvaluationSpec], PreparedCheck]) -> Iterator[LatencyBounds]:
    for spec in step.evaluations:
        try:
            budget = prepared(spec).budget
        except Exception:  # noqa: BLE001 - the check itself will end in this error
            budget = None
        if budget is not None:
            yield budget
