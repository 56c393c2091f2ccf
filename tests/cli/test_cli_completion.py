"""Completion in the shells themselves, as docs/start.md sets it up."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = """\
eval "$(_STEADYHAND_COMPLETE=bash_source steadyhand)"
complete -p steadyhand >/dev/null || exit 1
ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _steadyhand_completion steadyhand; }}
compopt() {{ COMPREPLY=("files: $*"); }}
ask {words}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """\
compdef() {{ :; }}
eval "$(_STEADYHAND_COMPLETE=zsh_source steadyhand)"
_describe() {{ print -l -- "${{(P)3}}" ${{${{(P)3}}[@]}}; }}
compadd() {{ shift $(( ${{@[(i)-a]}} )); print -l -- ${{(P)1}}; }}
_path_files() {{ print -- "files: -o default"; }}
words=({words}) CURRENT={count} commands[steadyhand]=1
_steadyhand_completion
"""
FISH = """\
_STEADYHAND_COMPLETE=fish_source steadyhand | source
complete -C "{line}"
"""


def _completed(shell: str, folder: Path, *words: str) -> set[str]:
    """What the shell offers for the last word. The command is the one of this environment."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(
        words=" ".join(f'"{word}"' for word in words), count=len(words), line=" ".join(words)
    )
    plain = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",), "fish": ("--no-config",)}[shell]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    ran = subprocess.run(
        [program, *plain, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return {line.replace("\t", ":").partition(":")[0].strip() for line in ran.stdout.splitlines() if line.strip()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_files_are_completed(shell: str, tmp_path: Path):
    (tmp_path / "scenarios").mkdir()
    assert "validate" in _completed(shell, tmp_path, "steadyhand", "va")
    assert {"--model", "--max-cost", "--max-tokens"} <= _completed(shell, tmp_path, "steadyhand", "run", "--m")
    files = _completed(shell, tmp_path, "steadyhand", "run", "scen")
    assert files & {"files", "scenarios/", "scenarios"}, files
