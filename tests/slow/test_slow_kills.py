"""kill -9 a thousand times, at random moments in runs of 500 trials, each followed by a resume.

The record says what finished, the model server what was requested: nothing that finished is lost or requested again.
`STEADYHAND_KILLS` and `STEADYHAND_KILLS_S` set other bounds.
"""

from __future__ import annotations

import os
import random
import shutil
import time

import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.store.schema import never_begun
from steadyhand.testing import Answer
from support.command_server import CommandServer
from support.loopback import Loopback
from support.shell import Batch

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("STEADYHAND_KILLS", "1000"))
SECONDS = float(os.environ.get("STEADYHAND_KILLS_S", "2400"))
TRIALS = 500
LATEST_S = 0.6
"""The latest moment of a kill, initially. It is postponed while nothing gets done, as on a busy machine."""
OPTIONS = ("--no-progress", "--concurrency", "16")


def finished_trials(batch: Batch) -> dict:
    """What the record holds, or nothing if the process died before there was one."""
    found = list((batch.folder / ".steadyhand" / "runs").glob("*.sqlite"))
    if not found or never_begun(found[0]):
        return {}
    return {trial.key: trial for trial in batch.reader().trials()}


def kill_until_done(batch: Batch, server: Loopback, chance: random.Random) -> tuple[int, int]:
    """One run; how often it was killed, and how many trials were requested twice because they had not finished."""
    kills, asked, kept, latest_s = 0, 0, {}, LATEST_S
    while True:
        before = server.received
        command = ("resume", "last")
        if not kept:
            shutil.rmtree(batch.folder / ".steadyhand", ignore_errors=True)
            command = ("run", "untimed.yaml", "--trials", str(TRIALS), "--seed", "7")
        ended = batch.killed_after(chance.uniform(0.0, latest_s), *command, *OPTIONS)
        seeds = server.seeds_after(before)
        asked += len(seeds)
        again = {trial.seed for trial in kept.values()} & set(seeds)
        assert not again, f"{len(again)} finished trials were asked for again"
        now = finished_trials(batch)
        assert all(now.get(key) == trial for key, trial in kept.items()), "a finished trial was lost or changed"
        latest_s = LATEST_S if len(now) > len(kept) else latest_s * 1.3
        kept = now
        if ended.code == -9:
            kills += 1
            continue
        assert ended.code == 0, ended
        break
    reader = batch.reader()
    assert [key.index for key in kept] == list(range(TRIALS))
    assert reader.counts() == {**dict.fromkeys(Verdict, 0), Verdict.PASSED: TRIALS}
    assert reader.finished
    assert len({trial.seed for trial in kept.values()}) == TRIALS
    return kills, asked - TRIALS


def test_nothing_is_lost_and_nothing_done_twice_over_a_thousand_kills(tmp_path, capsys):
    chance = random.Random(11)
    commands, end = CommandServer(), time.monotonic() + SECONDS
    kills = runs = again = 0

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\r{text}", end="", flush=True)

    try:
        with Loopback(Answer(text="I call for help now.", delay_s=0.005)) as server:
            while kills < KILLS and time.monotonic() < end:
                batch = Batch(tmp_path / str(runs), commands)
                batch.fill()
                batch.write(
                    "steadyhand.toml",
                    f'model = "here/m"\n[providers.here]\nbase_url = "{server.url}"\nsend_seed = true\n',
                )
                killed, repeated = kill_until_done(batch, server, chance)
                kills, runs, again = kills + killed, runs + 1, again + repeated
                shutil.rmtree(batch.folder)
                say(f"{kills} kills in {runs} runs of {TRIALS} trials; {again} unfinished trials were asked for again")
    finally:
        commands.close()
    assert kills >= KILLS or time.monotonic() >= end
