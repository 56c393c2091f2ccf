"""Completion in the shells themselves, as docs/start.md sets it up."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support.shell import Shell

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


def _completed(name: str, shell: Shell, *words: str) -> set[str]:
    """What the shell of this name offers for the last word."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[name].format(
        words=" ".join(f'"{word}"' for word in words), count=len(words), line=" ".join(words)
    )
    plain = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",), "fish": ("--no-config",)}[name]
    programs = shell.program("bin/steadyhand").parent
    environment = shell.environment(PATH=f"{programs}:/usr/bin:/bin", HOME=str(shell.folder))
    ran = subprocess.run(
        [program, *plain, "-c", script], cwd=shell.folder, env=environment, capture_output=True, text=True, check=True
    )
    return {line.replace("\t", ":").partition(":")[0].strip() for line in ran.stdout.splitlines() if line.strip()}


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_commands_options_and_files_are_completed(name: str, shell: Shell):
    (shell.folder / "scenarios").mkdir()
    assert "validate" in _completed(name, shell, "steadyhand", "va")
    assert {"--model", "--max-cost", "--max-tokens"} <= _completed(name, shell, "steadyhand", "run", "--m")
    files = _completed(name, shell, "steadyhand", "run", "scen")
    assert files & {"files", "scenarios/", "scenarios"}, files
