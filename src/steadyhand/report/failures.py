"""What did not pass: similar failures are grouped into one block, with a count and one example. A few blocks are shown
in full, many are abbreviated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from steadyhand.judging.trial import described, label
from steadyhand.records.base import counted, first_few
from steadyhand.records.evaluation import EvaluationResult, Verdict, check_ids
from steadyhand.records.run import TrialRecord
from steadyhand.report.details import check_text, explained_classes, render_details
from steadyhand.report.table import Page, cells, clip, one_line, visible
from steadyhand.report.transcript import Transcripts, ending_line
from steadyhand.report.wording import scenario_label

_LINES_IN_FULL = 60
_BLOCKS = 20
_KEPT = 100
_LINES_IN_SHORT = 105
_CHECKS = 10
_LISTED = 4
_MOST_TELLING = ("judge", "excerpt", "found", "expected")
_NUMBER = re.compile(r"\d+")
_ORDER = (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE)


class _Block(msgspec.Struct):
    """Trials that did not pass for the same reasons. `example` is the first of them."""

    example: TrialRecord
    trials: dict[str, list[int]] = {}

    def add(self, trial: TrialRecord) -> None:
        self.trials.setdefault(trial.key.scenario_id, []).append(trial.key.index)

    @property
    def count(self) -> int:
        return sum(map(len, self.trials.values()))

    def counted(self, planned: Mapping[str, int]) -> str:
        """Such as `2 of 3 trials: #0, #2`; nothing for a scenario of one trial."""
        if len(self.trials) > 1:
            names = first_few(map(one_line, self.trials), _LISTED)
            return f"{self.count} trials of {len(self.trials)} scenarios: {names}"
        ((scenario_id, numbers),) = self.trials.items()
        total = planned.get(scenario_id, 0)
        if total <= 1:
            return ""
        listed = ", ".join(f"#{each}" for each in numbers[:_LISTED])
        return f"{self.count} of {total} trials: {listed}{', …' if len(numbers) > _LISTED else ''}"


class Failures(msgspec.Struct):
    """Collects trials that did not pass, in planned order, and keeps one example per block. `unkept` is how many are in
    none."""

    singly: bool
    blocks: dict[str, _Block] = {}
    unkept: int = 0

    def add(self, trial: TrialRecord) -> None:
        key = str(trial.key) if self.singly else repr(_alike(trial))
        block = self.blocks.get(key)
        if block is None and (self.singly or len(self.blocks) < _KEPT):
            block = self.blocks[key] = _Block(trial)
        if block is None:
            self.unkept += 1
        else:
            block.add(trial)

    def render(
        self, page: Page, planned: Mapping[str, int], *, run_id: str, short: bool, transcripts: Transcripts | None
    ) -> Iterator[str]:
        """The blocks, failed ones first; in full if requested or short enough."""
        blocks = sorted(self.blocks.values(), key=lambda each: _ORDER.index(each.example.judged.verdict))
        if self.singly:
            for number, block in enumerate(blocks):
                yield from [""] if number else []
                yield from _in_full(block, page, planned, transcripts, whole=True)
            return
        full: list[str] | None = None if short else self._in_full(blocks, page, planned, transcripts)
        if full is not None:
            yield from full
            return
        shown = blocks[:_BLOCKS]
        room = _room(shown)
        for block in shown:
            yield from _in_short(block, page, planned, room)
        left = blocks[_BLOCKS:]
        if left:
            trials = sum(block.count for block in left) + self.unkept
            yield f"{counted(trials, 'more trial')} did not pass, for other reasons"
        yield page.paint(f"to see each of them in full: steadyhand show {run_id} --all", "faint")

    def _in_full(
        self, blocks: list[_Block], page: Page, planned: Mapping[str, int], transcripts: Transcripts | None
    ) -> list[str] | None:
        """None if it takes too many lines."""
        lines: list[str] = []
        for number, block in enumerate(blocks):
            lines += [""] if number else []
            lines += _in_full(block, page, planned, transcripts)
            if len(blocks) > 1 and len(lines) > _LINES_IN_FULL:
                return None
        return lines


def _alike(trial: TrialRecord) -> object:
    """Equal for trials of a scenario in which the same checks did not pass, and for errors with the same reason."""
    names = check_ids(trial.evaluations)
    checks = tuple(
        (name, check.verdict)
        for name, check in zip(names, trial.evaluations, strict=True)
        if check.verdict is not Verdict.PASSED
    )
    verdict = trial.judged.verdict
    if checks:
        return trial.key.scenario_id, verdict, checks
    reason = _NUMBER.sub("0", trial.judged.reason)
    return (verdict, reason) if verdict is Verdict.ERROR else (trial.key.scenario_id, verdict, reason)


def _in_full(
    block: _Block, page: Page, planned: Mapping[str, int], transcripts: Transcripts | None, *, whole: bool = False
) -> Iterator[str]:
    trial = block.example
    count = "" if whole else block.counted(planned)
    several = not count and planned.get(trial.key.scenario_id, 0) > 1
    yield from render_details(
        trial,
        page,
        numbered=several,
        transcript=transcripts != "none",
        whole=whole,
        count=count,
        named=len(block.trials) == 1,
        remarked=True,
    )


class _Room(NamedTuple):
    """The contents of an abbreviated block: the worst check's result, and a line for each of `others` more."""

    quoted: bool
    others: int


def _room(blocks: Sequence[_Block]) -> _Room:
    """Every check has its line if the page does not get too long; quotations are dropped first."""
    others = [min(len(_by_weight(block.example)) - 1, _CHECKS) for block in blocks]
    for quoted, lines in ((True, 4), (False, 3)):
        if lines * len(blocks) + sum(others) <= _LINES_IN_SHORT:
            return _Room(quoted, _CHECKS)
    room = _LINES_IN_SHORT - 4 * len(blocks)
    fits = (most for most in range(_CHECKS, 1, -1) if sum(min(each, most) for each in others) <= room)
    return _Room(quoted=True, others=next(fits, 1))


def _by_weight(trial: TrialRecord) -> list[EvaluationResult]:
    """The checks that did not pass, the worst first."""
    checks = [check for check in trial.evaluations if check.verdict is not Verdict.PASSED]
    return sorted(checks, key=lambda check: (_ORDER.index(check.verdict), -(check.severity or 0.0)))


def _in_short(block: _Block, page: Page, planned: Mapping[str, int], has_room: _Room) -> Iterator[str]:
    """The heading, the first check that decided with what it found, and the others."""
    trial = block.example
    verdict = trial.judged.verdict
    count = block.counted(planned)
    room = page.width - len(verdict) - 2
    heading = count
    if len(block.trials) == 1:
        left = max(room - (len(count) + 2 if count else 0), 12)
        name = visible(scenario_label(trial, numbered=False)).replace("\n", " ")
        own = one_line(trial.key.scenario_id)
        # The end of a long id is what tells combinations and targets apart.
        name = clip(name, left) if cells(own) <= left else f"…{own[-(left - 1) :]}"
        heading = "  ".join(filter(None, (name, count)))
    heading = clip(heading, room)
    yield f"{page.paint(verdict.upper(), verdict)}  {page.paint(heading, 'strong')}"
    checks = _by_weight(trial)
    if not checks:
        yield from (f"  {line}" for line in page.wrap(trial.judged.reason, indent=2, most=2))
        return
    yield from _check_in_short(checks[0], trial, page, quoted=has_room.quoted)
    yield from (clip(f"  {line}", page.width) for line in _others(checks[1:], trial.judged.verdict, has_room.others))
    for talk in trial.conversations:
        yield clip(f"  ended by {one_line(ending_line(talk))}", page.width)


def _others(checks: Sequence[EvaluationResult], verdict: Verdict, most: int) -> Iterator[str]:
    """At most this many lines: the result of each check, and on the last line the names of the rest."""
    lines: Counter[str] = Counter()
    names: dict[str, str] = {}
    for check in checks:
        name = one_line(label(check)) + ("" if check.verdict is verdict else f" ({check.verdict})")
        line = f"also {name}: {one_line(described(check, check_text(check).message))}"
        lines[line] += 1
        names[line] = name
    kept = len(lines) if len(lines) <= most else most - 1
    for line, count in list(lines.items())[:kept]:
        yield line if count == 1 else f"{line} ({count} times)"
    if rest := list(dict.fromkeys(names[line] for line in list(lines)[kept:])):
        yield f"also {', '.join(rest)}"


def _check_in_short(check: EvaluationResult, trial: TrialRecord, page: Page, *, quoted: bool) -> Iterator[str]:
    place = "" if check.place is None else str(check.place)
    head = one_line("  ".join(filter(None, (label(check), place))))
    classes = explained_classes(trial.judged.failure_classes[:1])
    if classes and cells(head) + len(classes) + 4 <= page.width:
        head += f"  {classes}"
    yield "  " + clip(head, page.width - 2)
    pieces = check_text(check)
    message = one_line(described(check, pieces.message))
    shown = next((pieces.fields[name] for name in _MOST_TELLING if name in pieces.fields), "")
    if message:
        yield "    " + clip(message, page.width - 4)
    if shown and quoted:
        yield "    " + page.paint(clip(one_line(shown), page.width - 4), "faint")
