"""How the code of a scenario's step is handed to its interpreter."""

from __future__ import annotations

import shutil
import sys

_SHELLS = {"bash": "bash", "sh": "sh", "shell": "bash"}
_PYTHONS = ("python", "python3", "py")
_NODES = ("node", "javascript", "js")


def code_command(lang: str | None, code: str) -> list[str]:
    """The program and arguments that run `code`. No language means bash; an unknown one is run as `<lang> -c`."""
    name = (lang or "bash").strip()
    key = name.lower()
    if key in _SHELLS:
        return [_SHELLS[key], "-c", code]
    if key in _PYTHONS:
        return ["python3" if shutil.which("python3") else sys.executable, "-c", code]
    if key in _NODES:
        return ["node", "-e", code]
    return [name, "-c", code]
