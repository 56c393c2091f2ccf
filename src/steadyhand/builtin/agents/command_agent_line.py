"""Reading `command:...`: the program, its arguments, and the variables it is given."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from steadyhand.builtin.agents.beside import file_beside
from steadyhand.errors import SetupError
from steadyhand.records.base import Record

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_INHERITED = ("PATH", "LANG", "TERM", "TZ")


class CommandLine(Record):
    """`shown` is the line without the values of its variables; `secrets` are the values that messages must not show."""

    argv: tuple[str, ...]
    shown: str
    variables: Mapping[str, str]
    secrets: tuple[str, ...] = ()

    def environment(self, folder: Path) -> dict[str, str]:
        """What the program gets to see: nothing of ours that the line does not give it."""
        inherited = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
        return {
            "PATH": os.defpath,
            **inherited,
            "HOME": str(folder),
            "PWD": str(folder),
            **self.variables,
            # The local environment ends whatever carries the name of its workspace under this mark.
            "STEADYHAND_TRIAL": folder.name,
        }

    def hidden(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def read_line(line: str, *, folder: Path, variables: Mapping[str, str]) -> CommandLine:
    """Leading `NAME=value` words are variables for the program, and `$NAME` in them is taken from ours. Words that
    begin with `./` or `../` are files beside the scenario.

    Raises `SetupError` for a line that cannot be split, a missing file or program, or a variable that is not set.
    """
    where = "agent command"
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SetupError(f"{where}:{line}: cannot be split into words: {error}") from error
    given: dict[str, str] = {}
    secrets: list[str] = []
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        given[match[1]] = _filled(match[2], variables, f"{where}: {match[1]}", secrets)
        words.pop(0)
    if not words:
        raise SetupError(f"{where}: expected command:PROGRAM ARGUMENTS, such as command:node ./agent.js")
    shown = shlex.join(words)
    where = f"agent command:{shown}"
    argv = [
        str(file_beside(word, folder, wanted_by=where)) if word.startswith(("./", "../")) else word for word in words
    ]
    program = shutil.which(argv[0], path=given.get("PATH", variables.get("PATH", os.defpath)))
    if program is None:
        hint = " (is it executable?)" if Path(argv[0]).is_file() else "; a file beside the scenario is written ./NAME"
        raise SetupError(f"{where}: there is no program {argv[0]!r}{hint}")
    return CommandLine(argv=(program, *argv[1:]), shown=shown, variables=given, secrets=tuple(secrets))


def _filled(value: str, variables: Mapping[str, str], where: str, secrets: list[str]) -> str:
    def found(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise SetupError(f"{where} is given ${name}, which is not set in the environment or the --env-file")
        if len(variables[name]) >= 6:
            secrets.append(variables[name])
        return variables[name]

    return _REFERENCE.sub(found, value)
