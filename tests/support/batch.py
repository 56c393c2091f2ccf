"""Runs of many trials, as processes in a folder of their own."""

import time
from pathlib import Path

import pytest

from cli.conftest import Shell
from steadyhand.store.reader import RunReader

RIGHT = "rules:\n  - reply: I call for help now.\n"

UNTIMED = """\
id: untimed
name: Help is called
description: No latency is graded, so that a busy machine decides nothing.
agent: model
environment: {type: local}
run:
  - input: What now?
    evaluations:
      - {type: string_contains, value: call for help}
judgment: {strategy: all_pass}
"""


class Batch(Shell):
    def record(self) -> Path:
        (found,) = (self.folder / ".steadyhand" / "runs").glob("*.sqlite")
        return found

    def reader(self) -> RunReader:
        return RunReader.open(self.record())

    def wait_for(self, trials: int, process) -> None:
        """Until the record of a running process holds so many trials. A process that ends first ends the wait."""
        while process.poll() is None:
            time.sleep(0.002)  # leave the processor to the process that is waited for
            found = list((self.folder / ".steadyhand" / "runs").glob("*.sqlite"))
            if found:
                try:
                    if sum(RunReader.open(found[0]).counts().values()) >= trials:
                        return
                except Exception:  # noqa: BLE001 - it is being made
                    continue


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    made = Batch(tmp_path)
    made.decision("one.yaml")
    made.write("untimed.yaml", UNTIMED)
    made.replies(RIGHT)
    return made
