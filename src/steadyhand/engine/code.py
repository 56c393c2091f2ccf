"""How the author's code is run: a language and a text become a program with arguments."""

from __future__ import annotations

_PROGRAMS = {
    "bash": ("bash", "-c"),
    "sh": ("sh", "-c"),
    "python": ("python3", "-c"),
    "python3": ("python3", "-c"),
    "node": ("node", "-e"),
    "javascript": ("node", "-e"),
    "js": ("node", "-e"),
}


def code_command(lang: str, code: str) -> list[str]:
    """The program and its arguments; a language that is not known is taken to understand `-c`."""
    program, flag = _PROGRAMS.get(lang.lower(), (lang, "-c"))
    return [program, flag, code]
