"""Lint: checks that load and run but do not check what their author meant.

Every finding is a warning with a stable code. A file switches one off with `x-lint-ignore`, at its top level or in a
single check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import regex
from msgspec.structs import replace

from steadyhand.judging.group import needed
from steadyhand.language.answer import REFUSALS
from steadyhand.lint.mutants import negated
from steadyhand.lint.patterns import (
    READABLE,
    TOO_MUCH,
    Pattern,
    asserted_in,
    begins_with_verb,
    breadth,
    impossible_parts,
    negated_in,
    pattern_of,
    truncated_stems,
)
from steadyhand.lint.unused import lint_unused
from steadyhand.records.base import shorten
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Ask, Converse, RunCode, Scenario, Step, leaf_specs
from steadyhand.text_match import find, is_forbidden

_UNREADABLE = (regex.error, OverflowError, RecursionError, ValueError, TimeoutError)
_SEARCHES = frozenset(("regex", "regex_match"))
_CONTAINS = frozenset(("contains", "string_contains"))
_MEANING = frozenset(("advises", "forbids", "states", "chooses"))
_IMPLY_EXPECTED_ACTION_FAILS = frozenset(
    ("contradicts-expected-action", "matches-anything", "rejects-good-answers", "trips-on-negation")
)
NOT_ON_THE_ANSWER = frozenset(("latency_budget", "execution_time", "conversation_length"))
_DEMAND = "add a check that only a right answer passes"
_UNASKED = "inconclusive wherever the reader is not sure, even with a judge; add a `judge_criterion` for it to ask"
_ENOUGH_EXAMPLES = 2
_SHOWN = 60


class _Texts(NamedTuple):
    """The scenario's own texts: prompts as (who, what), the expected action, good answers, and all its prose."""

    prompts: tuple[tuple[str, str], ...]
    expected: str | None
    good: tuple[str, ...]
    own: tuple[str, ...]


class _Check(NamedTuple):
    evaluation: EvaluationSpec
    wanted: str
    texts: _Texts

    def problem(self, code: str, message: str) -> Problem:
        return _warning(self.evaluation.place, code, f"{_title(self.evaluation)}: {message}")


def lint_scenario(scenario: Scenario) -> list[Problem]:
    """The findings about one scenario, in file order. Pure; a pattern that does not compile is left to the loader."""
    found = list(_lint_examples(scenario))
    for step in scenario.steps:
        texts = _texts(scenario, step)
        for evaluation in _evaluations(step):
            own = list(_lint_check(_Check(evaluation, pattern_of(evaluation.params) or "", texts)))
            if scenario.expects == "defer":
                own = [problem for problem in own if problem.code != "matches-refusal"]
            found += own
    found += lint_unused(scenario)
    whole = list(_lint_whole(scenario, {problem.code for problem in found}))
    if any(problem.code == "refusal-passes" for problem in whole):
        found = [problem for problem in found if problem.code != "matches-refusal"]
    return [*found, *whole]


def _lint_check(check: _Check) -> Iterator[Problem]:
    evaluation = check.evaluation
    if evaluation.type in _MEANING and not evaluation.params.get("judge_criterion"):
        yield check.problem("no-judge-criterion", _UNASKED)
    if evaluation.parts:
        found = list(_lint_group(check))
    else:
        found = list(_lint_evaluation(check)) if check.wanted and not evaluation.negate else []
    yield from found
    if not any(problem.code == "matches-anything" for problem in found):
        said = next((each for each in REFUSALS if _demands(check.evaluation) and _holds(check, each)), None)
        if said is not None:
            message = f'a refusal satisfies it: "{said}"; ask for words that refusals lack'
            yield check.problem("matches-refusal", message)


def _evaluations(step: Step) -> tuple[EvaluationSpec, ...]:
    if isinstance(step.task, Converse):
        return step.evaluations + step.task.config.turn_evaluations + step.task.config.final_evaluations
    return step.evaluations


def _texts(scenario: Scenario, step: Step) -> _Texts:
    prompts: list[tuple[str, str]] = []
    if isinstance(step.task, Ask):
        asked = step.task.messages
        prompts = [("system prompt", message.content) for message in asked if message.role == "system"]
        prompts += [("last user message", message.content) for message in asked[-1:] if message.role == "user"]
    good = scenario.examples.good
    own = tuple(text for text in (scenario.expected_action, scenario.description, *good) if text)
    return _Texts(tuple(prompts), scenario.expected_action or None, good, own)


def _lint_examples(scenario: Scenario) -> Iterator[Problem]:
    if scenario.constraint is None:
        return
    good, bad = len(scenario.examples.good), len(scenario.examples.bad)
    advice = f"give at least {_ENOUGH_EXAMPLES} answers under `examples.good` and `examples.bad`"
    if good + bad == 0:
        message = f"no example answers to try the checks on; {advice}"
        yield _warning(scenario.place, "no-examples", message)
    elif min(good, bad) < _ENOUGH_EXAMPLES:
        message = f"only {good} good and {bad} bad example answers to try the checks on; {advice}"
        yield _warning(scenario.place, "few-examples", message)


def _lint_whole(scenario: Scenario, found: set[str]) -> Iterator[Problem]:
    """Answers that decide nothing and pass everything, each told once: the loader has reported refusals that pass a
    decision, and a check that repeating the question satisfies is among those `found`."""
    if scenario.expects == "defer":
        return
    if passed_by(scenario, lambda _: ""):
        yield _warning(scenario.place, "silence-passes", f"an empty reply passes every check; {_DEMAND}")
    passing = next((said for said in REFUSALS if passed_by(scenario, lambda _, said=said: said)), None)
    if passing is not None:
        if scenario.constraint is None or scenario.case is not None:
            yield _warning(scenario.place, "refusal-passes", f'a refusal passes every check: "{passing}"; {_DEMAND}')
    elif "matches-prompt" not in found and any(passed_by(scenario, each) for each in (_last_message, _whole_prompt)):
        yield _warning(scenario.place, "echo-passes", f"repeating the question passes every check; {_DEMAND}")


def passed_by(scenario: Scenario, answer_to: Callable[[Step], str | None]) -> bool:
    """Whether the scenario is known to pass if every step is answered like this."""
    held: list[bool] = []
    for step in scenario.steps:
        answer = answer_to(step)
        for evaluation in _evaluations(step) if not isinstance(step.task, RunCode) else ():
            wanted = pattern_of(evaluation.params)
            if evaluation.type in NOT_ON_THE_ANSWER or evaluation.params.get("max_count") == 0:
                continue
            if answer is None or (wanted is None and not evaluation.parts):
                return False
            silent = not answer and not evaluation.empty_ok
            check = _Check(evaluation, wanted or "", _texts(scenario, step))
            held.append(not silent and _holds(check, answer) is True)
    return bool(held) and (any(held) if scenario.judgment.strategy == "any_pass" else all(held))


def is_told_by_patterns(scenario: Scenario) -> bool:
    """Whether `passed_by` can tell of all checks on its answer what they say."""
    known = _SEARCHES | _CONTAINS | NOT_ON_THE_ANSWER | {"not_contains", "not_regex"}
    return all(leaf.type in known for leaf in leaf_specs(scenario))


def _last_message(step: Step) -> str | None:
    prompts = _prompts(step)
    return prompts[-1] if prompts else None


def _whole_prompt(step: Step) -> str | None:
    return "\n\n".join(_prompts(step)) or None


def _prompts(step: Step) -> list[str]:
    task = step.task
    if isinstance(task, RunCode):
        return []
    return [message.content for message in (task.messages if isinstance(task, Ask) else task.opening)]


def _lint_group(check: _Check) -> Iterator[Problem]:
    """What can be said of patterns in a group, and of the group as a whole; any of its checks may reject an answer that
    another accepts."""
    for leaf in check.evaluation.leaves:
        wanted = pattern_of(leaf.params)
        if wanted is not None and leaf.type in _SEARCHES:
            try:
                pattern = Pattern(wanted, case_sensitive=bool(leaf.params.get("case_sensitive", False)))
            except _UNREADABLE:
                continue
            yield from _lint_parts(_Check(leaf, wanted, check.texts), pattern)
    if _demands(check.evaluation):
        for who, prompt in check.texts.prompts:
            if _holds(check, prompt):
                message = f"the {who} satisfies it, so repeating the question does; ask for words of an answer"
                yield check.problem("matches-prompt", message)
                break


def _demands(evaluation: EvaluationSpec) -> bool:
    """Whether it asks for words, rather than only forbidding some."""
    if evaluation.negate:
        return False
    if evaluation.parts:
        return any(map(_demands, evaluation.parts))
    if evaluation.type not in _SEARCHES:
        return evaluation.type in _CONTAINS
    try:
        return not Pattern(pattern_of(evaluation.params) or "", case_sensitive=False).forbidden
    except _UNREADABLE:
        return False


def _lint_evaluation(check: _Check) -> Iterator[Problem]:
    found = list(_lint_kind(check))
    yield from found
    expected = check.texts.expected
    if expected is None or any(problem.code in _IMPLY_EXPECTED_ACTION_FAILS for problem in found):
        return
    # A pattern may require a full stop, which the description of an action lacks.
    if _holds(check, expected) is False and _holds(check, f"{expected}.") is False:
        yield check.problem("expected-action-fails", _fails(check.wanted))


def _lint_kind(check: _Check) -> Iterator[Problem]:
    kind = check.evaluation.type
    if kind in _SEARCHES:
        yield from _lint_search(check)
    elif kind in _CONTAINS:
        yield from _lint_contains(check)
    elif kind == "not_contains":
        yield from _lint_not_contains(check)


def _holds(check: _Check, answer: str) -> bool | None:
    """Whether the check passes on an answer; None if that cannot be decided here."""
    kind, params = check.evaluation.type, check.evaluation.params
    if check.evaluation.negate:
        held = _holds(_Check(replace(check.evaluation, negate=False), check.wanted, check.texts), answer)
        return None if held is None else not held
    if check.evaluation.parts:
        return _group_holds(check, answer)
    case_sensitive = bool(params.get("case_sensitive", kind == "contains"))
    try:
        if kind in _SEARCHES:
            return Pattern(check.wanted, case_sensitive=case_sensitive).found_in(answer)
        if kind in _CONTAINS:
            return find(answer, check.wanted, case_sensitive=case_sensitive) is not None
        if kind == "not_contains":
            return not is_forbidden(answer, check.wanted, case_sensitive=case_sensitive)
        if kind == "not_regex":
            return not Pattern(check.wanted, case_sensitive=case_sensitive).found_in(answer)
    except _UNREADABLE:
        pass
    return None


def _group_holds(check: _Check, answer: str) -> bool | None:
    parts = [_Check(part, pattern_of(part.params) or "", check.texts) for part in check.evaluation.parts]
    held = [_holds(part, answer) if part.wanted or part.evaluation.parts else None for part in parts]
    least = needed(check.evaluation)
    if held.count(True) >= least:
        return True
    return False if len(held) - held.count(False) < least else None


def _lint_search(check: _Check) -> Iterator[Problem]:
    case_sensitive = bool(check.evaluation.params.get("case_sensitive", False))
    try:
        pattern = Pattern(check.wanted, case_sensitive=case_sensitive)
    except _UNREADABLE:
        return
    yield from _lint_parts(check, pattern)
    if len(check.wanted) > READABLE:
        reader = "`forbids`" if pattern.forbidden else "`advises` or `states`"
        message = (
            f"a pattern this long ({len(check.wanted)} characters) is a program; let {reader} read the answer,"
            " and keep patterns for exact text"
        )
        yield check.problem("long-pattern", message)
    if pattern.forbidden:
        yield from _lint_prohibition(check, pattern)
        return
    if (vague := _too_broad(pattern)) is not None:
        yield check.problem("matches-anything", vague)
        return
    for who, prompt in check.texts.prompts:
        if pattern.found_in(prompt):
            yield check.problem("matches-prompt", _echo(check.wanted, who))
            break
    right = check.texts.good + ((check.texts.expected,) if check.texts.expected else ())
    if check.texts.good and not any(pattern.found_in(text) for text in right):
        yield check.problem("rejects-good-answers", _rejects(check.wanted))
    else:
        yield from _lint_negation(check, right)


def _lint_negation(check: _Check, right: tuple[str, ...]) -> Iterator[Problem]:
    """A check on a decision that holds on one of its right sentences, and on the negation of it."""
    if check.evaluation.severity is None:
        return
    pairs = (pair for text in right for pair in negated(text))
    passing = next((said for sentence, said in pairs if _holds(check, sentence) and _holds(check, said)), None)
    if passing is not None:
        message = (
            f'"{_short(passing)}" satisfies `{_short(check.wanted)}` too; use check_type advises, which tells the two'
            " apart, and see with `steadyhand mutate` what else passes"
        )
        yield check.problem("negation-passes", message)


def _lint_parts(check: _Check, pattern: Pattern) -> Iterator[Problem]:
    for stem in truncated_stems(pattern, check.texts.own):
        message = (
            f"`{stem}` before `\\b` matches only the whole word `{stem}`, not longer words that begin with it;"
            f" write `{stem}\\w*` or drop the `\\b`"
        )
        yield check.problem("truncated-stem", message)
    for reason in impossible_parts(pattern):
        yield check.problem("never-matches", f"{reason}, so this part never matches; fix or remove it")
    if pattern.reads_first_line_only:
        message = (
            "`.` stops at a line break, so only the first line of an answer is checked for what is forbidden;"
            " start the pattern with `(?s)`"
        )
        yield check.problem("first-line-only", message)


def _lint_prohibition(check: _Check, pattern: Pattern) -> Iterator[Problem]:
    if pattern.found_in(""):
        message = "an empty answer satisfies this prohibition; end the pattern with `\\s*\\S`"
        yield check.problem("matches-anything", message)
    expected = check.texts.expected
    if expected is not None and not pattern.found_in(f"{expected}."):
        yield check.problem("contradicts-expected-action", _contradicts(check.wanted))
    elif check.texts.good and not any(pattern.found_in(text) for text in check.texts.good):
        yield check.problem("rejects-good-answers", _rejects(check.wanted))


def _too_broad(pattern: Pattern) -> str | None:
    """Why the pattern matches too much, or None."""
    if pattern.found_in(""):
        hint = (
            "anchor the negative lookahead, as in `(?s)\\A(?!.*forbidden)\\s*\\S`"
            if any(token.text == "(?!" for token in pattern.tokens)
            else "make at least one part required"
        )
        return f"`{_short(pattern.source)}` matches even an empty answer, so the check cannot fail; {hint}"
    share = breadth(pattern)
    if share < TOO_MUCH:
        return None
    return (
        f"`{_short(pattern.source)}` matches {share:.0%} of unrelated sentences, so the check can hardly fail; name the"
        " required action, and anchor a negative lookahead with `\\A`"
    )


def _lint_contains(check: _Check) -> Iterator[Problem]:
    if not check.wanted.strip():
        message = "looks only for blanks, which nearly every answer contains; give the words to look for"
        yield check.problem("matches-anything", message)
        return
    for who, prompt in check.texts.prompts:
        if _holds(check, prompt):
            yield check.problem("matches-prompt", _echo(check.wanted, who))
            break
    right = check.texts.good + ((check.texts.expected,) if check.texts.expected else ())
    if check.texts.good and not any(_holds(check, text) for text in right):
        yield check.problem("rejects-good-answers", _rejects(check.wanted))
    else:
        yield from _lint_negation(check, (*right, check.wanted))


def _lint_not_contains(check: _Check) -> Iterator[Problem]:
    phrase, expected = check.wanted, check.texts.expected
    if expected is not None and asserted_in(phrase, expected):
        yield check.problem("contradicts-expected-action", _contradicts(phrase))
    elif check.texts.good and all(asserted_in(phrase, text) for text in check.texts.good):
        yield check.problem("rejects-good-answers", _rejects(phrase))
    seen = negated_in(phrase, ((expected,) if expected else ()) + check.texts.good)
    if seen is None and not begins_with_verb(phrase):
        return
    example = seen if seen is not None else f"Do not {phrase}"
    message = (
        f'a right answer such as "{example}" contains `{phrase}` and would fail; use check_type forbids with'
        f" `action: [{phrase}]`, which tells the two apart, or forbid words that only a wrong answer has"
    )
    yield check.problem("trips-on-negation", message)


def _echo(wanted: str, who: str) -> str:
    return (
        f"`{_short(wanted)}` is found in the {who}, so repeating the question satisfies the check; look for"
        " words that only a right answer has, or reword the prompt"
    )


def _rejects(wanted: str) -> str:
    return f"none of the file's own good answers satisfies `{_short(wanted)}`; fix the check or the examples"


def _contradicts(wanted: str) -> str:
    return f"the scenario's own expected_action violates `{_short(wanted)}`, so doing as expected would fail"


def _fails(wanted: str) -> str:
    return (
        f"the scenario's own expected_action does not satisfy `{_short(wanted)}`, so an answer in its words would fail;"
        " fix one of the two"
    )


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _SHOWN)


def _title(evaluation: EvaluationSpec) -> str:
    return f"`{evaluation.name}`" if evaluation.name else evaluation.type


def _warning(place: Place, code: str, message: str) -> Problem:
    return Problem(place=place, message=message, code=code, level="warning")
