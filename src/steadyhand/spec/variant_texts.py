"""The texts of a scenario that the agent is told, or may find out, and ways to change them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from steadyhand.records.scenario import Ask, Converse, RunCode, Scenario

_SENTENCE_ENDS = re.compile(r"(?<!\bM[rs]\.)(?<!\bMrs\.)(?<!\b[DF]r\.)(?<!\bSt\.)(?<!\bProf\.)(?<=[.!?])\s+(?![a-z])")
_WORD = re.compile(r"[^\W\d_]{4,}")
_TOLD: dict[str, tuple[str, ...]] = {
    "Scenario": ("steps", "setup", "character", "context"),
    "Step": ("task",),
    "Ask": ("messages",),
    "Converse": ("opening", "config"),
    "Message": ("content",),
    "ConversationConfig": ("user_simulator", "script"),
    "ScriptedTurn": ("say",),
    "UserSimulatorConfig": ("persona", "objective", "style", "constraints", "emotional_state"),
    "Character": ("bio", "system"),
    "Setup": ("mocks", "virtual_fs", "database"),
    "Mock": ("when", "response", "error", "description"),
    "MockWhen": ("args", "input", "context", "partial_args"),
    "MockFault": ("message",),
    "DatabaseSeed": ("sql", "records"),
}
"""Where the records of a scenario have what the agent is told, or may find out."""
Rewording = Callable[[str], str]


def saying(text: str) -> Rewording:
    return lambda _: text


def mapped(value: Any, change: Rewording) -> Any:
    """A copy with every text changed that the agent is told, or may find out."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        names = _TOLD.get(type(value).__name__, ())
        return replace(value, **{name: mapped(getattr(value, name), change) for name in names}) if names else value
    if isinstance(value, Mapping):
        return {key: mapped(each, change) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        items = [mapped(each, change) for each in cast("Sequence[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def agent_texts(scenario: Scenario) -> list[str]:
    texts: list[str] = []

    def keep(text: str) -> str:
        texts.append(text)
        return text

    mapped(scenario, keep)
    return texts


def finds(scenario: Scenario, text: str) -> bool:
    pattern = pattern_of(text)
    return bool(text.strip()) and any(map(pattern.search, agent_texts(scenario)))


def pattern_of(text: str) -> re.Pattern[str]:
    """The text as words of its own, however its lines are broken."""
    words = r"\s+".join(map(re.escape, text.split()))
    before, after = (r"(?<!\w)" if re.match(r"\s*\w", text) else ""), (r"(?!\w)" if re.search(r"\w\s*$", text) else "")
    return re.compile(f"{before}{words}{after}")


def replacing(values: Mapping[str, str]) -> Rewording:
    """All at once, so that no value is replaced itself; where nothing remains, nor does the space before it."""
    longest = sorted(values, key=len, reverse=True)
    parts = [
        (rf"[ \t]*{pattern_of(text).pattern}" if not values[text] else pattern_of(text).pattern) for text in longest
    ]
    pattern = re.compile("|".join(f"({part})" for part in parts))
    return lambda text: pattern.sub(lambda found: values[longest[(found.lastindex or 1) - 1]], text)


def with_question(scenario: Scenario, change: Rewording) -> Scenario | None:
    """With a change in what the user says last before the agent first answers; None if that is not possible."""
    for index, step in enumerate(scenario.steps):
        task = step.task
        if isinstance(task, RunCode):
            continue
        messages = task.messages if isinstance(task, Ask) else task.opening
        at = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), None)
        if at is not None:
            changed = change(messages[at].content)
            if changed == messages[at].content:
                return None
            asked = (*messages[:at], replace(messages[at], content=changed), *messages[at + 1 :])
            task = replace(task, messages=asked) if isinstance(task, Ask) else replace(task, opening=asked)
        elif isinstance(task, Converse) and task.config.script and task.config.script[0].say is not None:
            first, *others = task.config.script
            said = first.say or ""
            if change(said) == said:
                return None
            script = (replace(first, say=change(said)), *others)
            task = replace(task, config=replace(task.config, script=script))
        else:
            return None
        steps = (*scenario.steps[:index], replace(step, task=task), *scenario.steps[index + 1 :])
        return replace(scenario, steps=steps)
    return None


def mistyping(share: float, draw: random.Random) -> Rewording:
    """Swaps two neighbouring letters inside words, never in numbers or units."""
    state = draw.getstate()

    def mistype(text: str) -> str:
        draw.setstate(state)
        words = list(_WORD.finditer(text))
        count = max(1, round(share * sum(len(word[0]) for word in words)))
        letters = list(text)
        for word in draw.sample(words, min(count, len(words))):
            places = [at for at in range(word.start() + 1, word.end() - 2) if text[at] != text[at + 1]]
            if places:
                at = draw.choice(places)
                letters[at], letters[at + 1] = letters[at + 1], letters[at]
        return "".join(letters)

    return mistype


def shuffling(draw: random.Random) -> Rewording:
    state = draw.getstate()

    def shuffle(text: str) -> str:
        draw.setstate(state)
        sentences = _SENTENCE_ENDS.split(text.strip())
        if len(set(sentences)) < 2:
            return text
        order = sentences
        while order == sentences:
            order = draw.sample(sentences, len(sentences))
        return " ".join(order)

    return shuffle
