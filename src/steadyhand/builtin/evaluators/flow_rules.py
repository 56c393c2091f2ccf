"""Patterns of a conversation by plain rules, for where there is no judge."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from steadyhand.engine.negation import is_negated
from steadyhand.records.result import ConversationTurn

_PROBLEM = re.compile(
    r"\b(?:problem|issue|error|trouble|help|fail(?:s|ed|ing)?|broken?|wrong|stuck|lost|missing|charged|overcharged"
    r"|complain\w*|(?:can|could|does|do|did|is|was|has|have|wo)(?:n't| ?not)|unable)\b",
    re.IGNORECASE,
)
_SOLUTION = re.compile(
    r"\b(?:follow these|here(?:'s| is| are) (?:how|what|the steps)|step 1|first,"
    r"|please (?:try|go|click|open|restart|call)"
    r"|you can (?:fix|solve|resolve|try|do)|to (?:fix|solve|resolve) (?:this|it|that)"
    r"|i(?:'ve| have) (?:issued|refunded|fixed|resolved|corrected|reset|updated|cancelled|arranged|sent)"
    r"|i(?:'ll| will) (?:refund|issue|fix|correct|reset|replace|send|cancel|arrange)"
    r"|(?:is|has been|are|have been) (?:resolved|fixed|refunded|corrected|reversed))\b|^\s*1[.)]\s",
    re.IGNORECASE | re.MULTILINE,
)
_EMPATHY = re.compile(
    r"\b(?:(?:i'm|i am|we're|we are) (?:so |very |really |truly )?sorry|i apologi[sz]e|my apologies|i understand"
    r"|i can (?:see|imagine|understand)|that (?:must|sounds)|frustrating|i know how)\b",
    re.IGNORECASE,
)
_ESCALATION = re.compile(
    r"\b(?:escalat\w+|transfer(?:ring)? you|connect(?:ing)? you (?:with|to)|put(?:ting)? you through"
    r"|pass(?:ing)? (?:you|this) on"
    r"|hand(?:ing)? (?:you|this) over|supervisor|a manager|specialist|human agent|emergency services)\b",
    re.IGNORECASE,
)

Turns = Sequence[ConversationTurn]


def found_by_rules(pattern: str, turns: Turns) -> str | None:
    """Where the pattern was found, such as `turns 1-2`, or None."""
    return _RULES[pattern](turns)


def _exchanges(turns: Turns) -> list[int]:
    """The turns in which the agent asks something that the user then answers."""
    return [
        turn.turn_number
        for turn, following in itertools.pairwise(turns)
        if "?" in turn.agent_response and _answers(following.user_input)
    ]


def _answers(text: str) -> bool:
    """A question back is no answer."""
    return bool(re.search(r"\w", text)) and not text.strip().endswith("?")


def _question_then_answer(turns: Turns) -> str | None:
    asked = _exchanges(turns)
    return f"turns {asked[0]}-{asked[0] + 1}" if asked else None


def _clarification_cycle(turns: Turns) -> str | None:
    asked = _exchanges(turns)
    return f"turns {asked[0]}-{asked[-1] + 1}" if len(asked) > 1 else None


def _problem_then_solution(turns: Turns) -> str | None:
    stated = next((turn.turn_number for turn in turns if _PROBLEM.search(_plain(turn.user_input))), None)
    if stated is None:
        return None
    solved = next(
        (turn.turn_number for turn in turns[stated - 1 :] if _SOLUTION.search(_plain(turn.agent_response))), 0
    )
    return f"turns {stated}-{solved}" if solved else None


def _empathy_then_solution(turns: Turns) -> str | None:
    shown: int | None = None
    for turn in turns:
        reply = _plain(turn.agent_response)
        felt = _EMPATHY.search(reply)
        solution = _SOLUTION.search(reply, felt.end() if felt and shown is None else 0)
        if felt and shown is None:
            shown = turn.turn_number
        if shown is not None and solution:
            return f"turns {shown}-{turn.turn_number}"
    return None


def _escalation_pattern(turns: Turns) -> str | None:
    for turn in turns:
        reply = _plain(turn.agent_response)
        if any(not is_negated(reply, match.start()) for match in _ESCALATION.finditer(reply)):
            return f"turn {turn.turn_number}"
    return None


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


_RULES: dict[str, Callable[[Turns], str | None]] = {
    "question_then_answer": _question_then_answer,
    "problem_then_solution": _problem_then_solution,
    "clarification_cycle": _clarification_cycle,
    "empathy_then_solution": _empathy_then_solution,
    "escalation_pattern": _escalation_pattern,
}
