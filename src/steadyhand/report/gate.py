"""The result of a gate: on the terminal, and as annotations for GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from steadyhand.errors import ExitCode
from steadyhand.judging.gate import Doubt, GateResult, Rule, Violation
from steadyhand.records.base import counted, first_few
from steadyhand.report.github import annotation
from steadyhand.report.table import Page, Quote, no_commands, one_line, visible

_WORDS: dict[Rule, str] = {
    Rule.DROP: "the pass rate dropped",
    Rule.NEW_CLASS_A: "a failure of class A where the baseline has none",
    Rule.VANISHED_SCENARIO: "in the baseline, but not in the run",
    Rule.VANISHED_CHECK: "in the baseline, but not in any trial of the run",
    Rule.CHANGED_SCENARIO: "the scenario differs from the baseline's",
    Rule.CHANGED_JUDGE: "the judge differs from the baseline's",
    Rule.LOST_TIER: "fewer than half of the trials still meet the latency tier",
    Rule.STALE_BASELINE: "the baseline is too old; write a new one with `steadyhand baseline`",
    Rule.EMPTY_BASELINE: "no trial of the baseline was decided; write a new one with `steadyhand baseline`",
}
_DOUBTS: dict[Doubt, str] = {
    "nothing_to_compare": "No scenario could be compared with the baseline.",
    "too_few_trials": "Too few trials: not even failing all of them would be significant. Run more with --trials.",
    "no_decided_trial": "No trial was decided in",
    "unfinished": "The run is not finished; `steadyhand resume` finishes it.",
    "stopped_early": "Trials ended when their pass rate was decided, which biases the test. Gate runs without --until.",
    "not_whole": "Not a whole record: that of run",
    "undecided_trials": "If the undecided trials count as not passed, the pass rate dropped",
}
_CONCLUSIONS = {
    ExitCode.PASSED: "passed",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "no usable baseline",
    ExitCode.UNDECIDED: "too little data to say",
}
_STYLES = {ExitCode.PASSED: "passed", ExitCode.FAILED: "failed"}
_LISTED = 20


def conclusion(result: GateResult) -> str:
    return _CONCLUSIONS[result.exit_code]


def violation_groups(result: GateResult) -> Iterator[tuple[Rule, str, list[Violation]]]:
    """Broken rules, their descriptions, and the scenarios that broke them."""
    for rule in Rule:
        found = [each for each in result.violations if each.rule is rule]
        if found:
            yield rule, _WORDS[rule], found


def doubt_sentences(result: GateResult, quote: Quote) -> Iterator[str]:
    for doubt in result.doubts:
        units = first_few(map(quote, doubt.units), _LISTED)
        doubted = _DOUBTS[doubt.kind]
        if doubt.kind == "undecided_trials":
            doubted = f"{doubted} in {units}." if units else f"{doubted}."
            yield f"{doubted} `steadyhand resume` retries errors."
        else:
            yield f"{doubted} {units}." if units else doubted


def statistics_sentences(result: GateResult, quote: Quote) -> Iterator[str]:
    test = result.statistics
    yield (
        f"Statistical rule over {counted(len(test.scenarios), 'scenario')}: a run that is no worse fails with a "
        f"chance of at most {result.alpha:g}."
    )
    if result.catches is not None:
        yield (
            f"With this many trials, a drop of {result.catches * 100:.0f} points in every scenario is caught with a "
            f"chance of {result.power:.0%}."
        )
    if result.new_units:
        yield f"Not in the baseline, so not compared: {', '.join(quote(each) for each in result.new_units[:_LISTED])}."
    if result.ignored:
        yield f"Rules switched off: {', '.join(result.ignored)}."


def render_gate(result: GateResult, page: Page) -> Iterator[str]:
    """The lines for the terminal."""
    return no_commands(_render(result, page))


def _render(result: GateResult, page: Page) -> Iterator[str]:
    head = page.paint(f"gate {conclusion(result)}", _STYLES.get(result.exit_code, "inconclusive"))
    yield f"{head}: run {one_line(result.run)}, baseline {one_line(result.baseline)}"
    for rule, words, violations in violation_groups(result):
        yield f"  {page.paint(rule, 'bad')}: {words}"
        for each in violations[:_LISTED]:
            yield f"    - {' '.join(filter(None, (one_line(each.unit), one_line(each.detail))))}".rstrip(" -")
        if len(violations) > _LISTED:
            yield f"    and {len(violations) - _LISTED} more"
    for sentence in (*doubt_sentences(result, one_line), *statistics_sentences(result, one_line)):
        yield from (f"  {line}" for line in page.wrap(sentence, indent=2))


def github_annotations(result: GateResult, folder: Path) -> Iterator[str]:
    """Commands for GitHub: an error at the scenario's line for every broken rule. File names are relative to
    `folder`."""
    for rule, words, violations in violation_groups(result):
        for each in violations:
            message = ": ".join(filter(None, (words, visible(each.unit), visible(each.detail))))
            yield annotation("error", message, title=f"steadyhand gate: {rule}", place=each.place, folder=folder)
    if result.exit_code is ExitCode.UNDECIDED:
        for sentence in doubt_sentences(result, visible):
            yield annotation("warning", sentence, title="steadyhand gate")
