"""Runs of many trials, as processes in a folder of their own."""

from pathlib import Path

import pytest

from cli.conftest import Shell
from holdfast.store.reader import RunReader

RIGHT = "rules:\n  - reply: I call for help now.\n"


class Batch(Shell):
    def record(self) -> Path:
        (found,) = (self.folder / ".holdfast" / "runs").glob("*.sqlite")
        return found

    def reader(self) -> RunReader:
        return RunReader.open(self.record())

    def wait_for(self, trials: int, process) -> None:
        """Until the record of a running process holds so many trials. A process that ends first ends the wait."""
        while process.poll() is None:
            found = list((self.folder / ".holdfast" / "runs").glob("*.sqlite"))
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
    made.replies(RIGHT)
    return made
