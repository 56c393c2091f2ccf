"""What the built-in agent is told about itself."""

from __future__ import annotations

from steadyhand.records.scenario import Character

_TASK = "Do what the user asks, with your tools where they help, and then answer the user."


def system_prompt(character: Character | None) -> str:
    """The character's own `system`, under its name and above its bio; without a `system`, a short general one."""
    parts: list[str] = []
    if character is not None and character.name:
        parts.append(f"You are {character.name}.")
    parts.append(character.system if character is not None and character.system else _TASK)
    if character is not None and character.bio:
        parts.append("About you:\n" + "\n".join(f"- {line}" for line in character.bio))
    return "\n\n".join(parts)
