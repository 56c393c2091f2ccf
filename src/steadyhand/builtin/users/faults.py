"""What is wrong with a simulated user's reply: it has to be said by a user, to the agent, in this part."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import UserSimulatorConfig

_AGENT = r"(?:the\s+)?(?:agent|assistant|ai|bot|chatbot|support(?:\s+(?:agent|rep(?:resentative)?))?|representative)"
_SPEAKS_FOR_AGENT = re.compile(rf"^[\s>*_\"'\[(<]*{_AGENT}[\]*_)>]*\s*:", re.IGNORECASE | re.MULTILINE)
_SPEAKS_AGAIN = re.compile(r"\n[\s>*_\"]*(?:user|customer|you)[*_]*\s*:", re.IGNORECASE)
_NARRATES = re.compile(
    r"^\W*(?:(?:the\s+)?(?:user|customer|caller)|i|they|he|she)\s+(?:would\s+|might\s+|then\s+)?"
    r"(?:says?|repl(?:y|ies)|responds?|answers?|asks?)\s*[:,]?\s*[\"\u201c]"
    r"|^\W*(?:here(?:'s| is)|this is)\s+(?:my|the|a possible)\s+(?:next\s+)?(?:message|reply|response)\b"
    r"|\bas i (?:just )?(?:said|wrote)\s*[:,]\s*[\"\u201c]",
    re.IGNORECASE,
)
_PLAYS_AGENT = re.compile(
    r"\bhow (?:can|may|could) i (?:help|assist|be of (?:help|assistance|service))\b"
    r"|\b(?:i'm|i am) here to (?:help|assist)\b"
    r"|\b(?:i'd|i would|i'll|i will) be (?:happy|glad) to (?:help|assist)\b"
    r"|\b(?:happy|glad) to (?:help|assist) you\b"
    r"|\banything else i can (?:help|assist|do for) "
    r"|\bi can (?:help|assist) you\b"
    r"|\blet me know if you need (?:any |further |more |any further |any more )?(?:help|assistance)\b"
    r"|\b(?:thank you|thanks) for (?:contacting|reaching out|calling us|your patience)\b"
    r"|\bfeel free to (?:reach out|contact (?:us|me))\b",
    re.IGNORECASE,
)
_LEAVES_PERSONA = re.compile(
    r"\b(?:as|i am|i'm)(?: just| only| actually)? an? "
    r"(?:ai\b(?! \w+er\b)|artificial intelligence|(?:large )?language model|chatbot"
    r"|virtual assistant|simulated user|user simulator)"
    r"|\bi (?:can(?:no|')t|cannot|won't|will not) (?:role-?play|continue (?:this|the) (?:role|simulation|scenario))"
    r"|\b(?:staying|stay|remain(?:ing)?|break(?:ing)?) (?:in|out of)? ?character\b"
    r"|\bin this (?:simulation|role-?play)\b"
    r"|\bmy (?:persona|objective) (?:is|requires|says)\b",
    re.IGNORECASE,
)
_GIVES_UP = re.compile(
    r"\b(?:never ?mind|forget (?:it|about it)|i(?:'ll| will) (?:figure|sort) (?:it|this) out (?:by )?myself|good ?bye"
    r"|i give up|i no longer need|i don't need (?:any )?help any ?more)\b",
    re.IGNORECASE,
)
_MAY_GIVE_UP = re.compile(
    r"\b(?:giv(?:e|es|ing) up|leave|hang up|walk away|goodbye|never ?mind|abandon)", re.IGNORECASE
)
_REPEATED_WORDS = 5


def fault_of(text: str, history: Sequence[ConversationTurn], config: UserSimulatorConfig) -> str | None:
    """The name of the first thing that is wrong with the reply, or None."""
    plain = text.replace("\u2019", "'")
    if not plain.strip():
        return "empty"
    if _SPEAKS_FOR_AGENT.search(plain) or _SPEAKS_AGAIN.search(plain):
        return "speaks_for_agent"
    if _NARRATES.search(plain) or _repeats(plain, history):
        return "quotes_itself"
    if _LEAVES_PERSONA.search(plain):
        return "leaves_persona"
    if _PLAYS_AGENT.search(plain):
        return "plays_agent"
    if _GIVES_UP.search(plain) and not _acted(history) and not _may_give_up(config):
        return "gives_up"
    return None


REMEDY: dict[str, str] = {
    "empty": "it was empty",
    "speaks_for_agent": "it also speaks for the agent; say only your own words",
    "quotes_itself": "it quotes or repeats what you said instead of saying something to the agent",
    "leaves_persona": "it steps out of the part; you are that person and know of no simulation",
    "plays_agent": "it offers help as the agent does; you are the one who wants something",
    "gives_up": "it gives up what you want before the agent has done anything",
}


def _repeats(text: str, history: Sequence[ConversationTurn]) -> bool:
    """Whether it says again, word for word, what the user said before. A short yes may come twice."""
    words = _words(text)
    if len(words) < _REPEATED_WORDS:
        return False
    return any(words == _words(turn.user_input) for turn in history)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _acted(history: Sequence[ConversationTurn]) -> bool:
    """Whether the agent had its chance: it did something, or has answered more than once."""
    return len(history) > 1 or any(step.type == "action" for turn in history for step in turn.trajectory)


def _may_give_up(config: UserSimulatorConfig) -> bool:
    part = " ".join((config.persona, config.objective, config.style or "", *config.constraints))
    return _MAY_GIVE_UP.search(part) is not None
