"""What docs/many-trials.md and docs/statistics.md show is what the commands print."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("many-trials.md", "statistics.md"))
SHOWN = re.findall(r"```text\n\$ steadyhand (.*?)\n(.*?)```", PAGE, re.DOTALL)


def steady(text):
    """Without latencies, and without the room that they take in a table: a busy machine has others, or none."""
    text = re.sub(r"^latency: .*\n(?:.*left out\n)?", "", text, flags=re.MULTILINE)
    text = re.sub(r" +([\d.]+ ms|needs \d+|latency p50)$", "", text, flags=re.MULTILINE)
    return re.sub(r" +", " ", text)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_is_printed(batch, tmp_path, command, shown):
    silent = ["--out", str(tmp_path / "runs"), "--no-progress"] if command.startswith("run ") else []
    ended = subprocess.run(
        [sys.executable, "-m", "steadyhand", *shlex.split(command), *silent],
        cwd=ROOT,
        env=batch.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    printed = steady(re.sub(r"record: .*\n", "", ended.stdout))
    shown = steady(shown)
    if shown.startswith("...\n"):
        assert printed.endswith("\n\n" + shown.removeprefix("...\n"))
    else:
        assert printed == shown
    assert ended.returncode == (1 if "1 failed" in shown.splitlines()[-1] else 0)


def test_the_page_shows_trials_a_matrix_and_a_plan():
    assert len(SHOWN) == 5
