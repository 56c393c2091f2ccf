"""What docs/many-trials.md shows is what the commands print."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "many-trials.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```text\n\$ steadyhand (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_is_printed(batch, tmp_path, command, shown):
    ended = subprocess.run(
        [sys.executable, "-m", "steadyhand", *shlex.split(command), "--out", str(tmp_path / "runs"), "--no-progress"],
        cwd=ROOT,
        env=batch.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    printed = re.sub(r"record: .*\n", "", ended.stdout)
    if shown.startswith("...\n"):
        assert printed.endswith("\n\n" + shown.removeprefix("...\n"))
    else:
        assert printed == shown
    assert ended.returncode == (1 if "1 failed" in shown.splitlines()[-1] else 0)


def test_the_page_shows_trials_a_matrix_and_a_plan():
    assert len(SHOWN) == 3
