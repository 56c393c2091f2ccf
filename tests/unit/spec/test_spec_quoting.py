"""Values in commands: what a real shell makes of them, or the error that says why they cannot stand there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from steadyhand.spec.quoting import CannotQuote, quoting

VALUE = "a[$(touch ran)]"
"""Runs a command where the shell computes with it, even if it is quoted."""


def written(command: str) -> str:
    before, _, after = command.partition("@")
    return before + quoting("shell", before, after)(VALUE) + after


@pytest.mark.parametrize(
    "command",
    [
        "[[ @ -gt 3 ]]", "if [[ -n x && @ -gt 3 ]]; then :; fi", "let x=@", "let x+=@", "A=1 eval echo @",
        "true; eval @", "(let x=@)", "arr=(1 2); echo ${arr[@]}", "x[@]=1", "declare -i x=@", "printf -v @ hi",
        "test -v @", "[ -v @ ]",
        "read @ < /dev/null", "bash -c @", "/bin/sh -ec @", "trap @ EXIT", "y=@; [[ $y -gt 1 ]]", "y=@; echo $((y))",
        "if true; then let x=@; fi", "command eval @",
    ],
)  # fmt: skip
def test_no_value_stands_where_a_shell_would_run_it(command):
    with pytest.raises(CannotQuote):
        written(command)


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    "command",
    [
        "printf %s @",
        "echo let; printf %s @",
        "grep -c let /dev/null; printf %s @",
        'x=@; printf %s "$x"',
        "if test -n x; then printf %s @; fi",
        'printf %s "$(pwd)" >/dev/null; printf %s @',
        'echo "[[ eval"; printf %s @',
        'for each in @; do printf %s "$each"; done',
        'eval "true; true"; printf %s @',
        "sh -c 'exit 0'; printf %s @",
    ],
)
def test_a_value_is_one_word_everywhere_else(command, shell, tmp_path: Path):
    done = subprocess.run([shell, "-c", written(command)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.endswith(VALUE), done.stderr
    assert list(tmp_path.iterdir()) == []
