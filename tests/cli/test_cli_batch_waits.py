"""What a user sees while calls wait, and what remains of it in the record."""

import json
import os
import pty
import shutil
import threading
from pathlib import Path

from steadyhand.testing import Answer
from support.loopback import Loopback
from support.shell import DECISION

EXAMPLES = Path(__file__).parents[2] / "examples"
RIGHT = Answer(text="I call for help now.")


class Terminal:
    """Runs a command with a terminal as its stderr."""

    def __init__(self, batch):
        self._batch = batch

    def __call__(self, *arguments, **variables):
        master, slave = pty.openpty()
        pieces = []

        def read():
            try:
                while piece := os.read(master, 4096):
                    pieces.append(piece)
            except OSError:  # the other end has been closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        ended = self._batch.at_a_terminal(*arguments, stderr=slave, TERM="xterm-256color", COLUMNS="140", **variables)
        os.close(slave)
        reader.join()
        os.close(master)
        return ended.code, ended.out, b"".join(pieces).decode()


def server_in(batch, url, **settings):
    given = "".join(f"{name} = {value}\n" for name, value in settings.items())
    batch.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{url}"\n{given}')


def incidents(batch, kind):
    batch("show", "last", "--json", "all.json")
    trials = json.loads((batch.folder / "all.json").read_text())["trials"]
    every = [*trials, *(earlier for trial in trials for earlier in trial["earlier"])]
    return [each for trial in every for each in trial["incidents"] if each["type"] == kind]


def test_a_pause_that_the_server_asks_for_is_shown_while_it_lasts(batch):
    with Loopback([Answer(status=429, headers={"Retry-After": "2"}), RIGHT]) as server:
        server_in(batch, server.url)
        run = ("run", "untimed.yaml", "--model", "openai/m", "--trials", "3", "--concurrency", "3")
        code, out, shown = Terminal(batch)(*run, OPENAI_API_KEY="none")
    assert code == 0, out + shown
    assert "waiting 2 s: openai " in shown
    assert "1 retry" in shown
    (retry,) = incidents(batch, "retry")
    assert (retry["ms"], retry["model"], retry["purpose"]) == (2000, "openai/m", "agent")
    ended = batch("show", "last")
    assert "retries  1 x 127.0.0.1:" in ended.out
    assert "is rate limiting us (429)" in ended.out


def test_a_provider_that_is_down_is_shown_until_it_is_back(batch):
    with Loopback([Answer(status=500)] * 13 + [RIGHT]) as server:
        server_in(batch, server.url)
        run = ("run", "untimed.yaml", "--model", "openai/m", "--trials", "12", "--concurrency", "12")
        code, out, shown = Terminal(batch)(*run, OPENAI_API_KEY="none")
    assert code == 0, out + shown
    assert "openai is down, retrying in " in shown
    assert "openai is back" in shown
    waits = incidents(batch, "wait")
    assert {wait["reason"] for wait in waits} == {"openai is down"}
    assert "waits    " in batch("show", "last").out


def test_a_loop_that_lags_is_an_event_and_shown(batch):
    blocking = "import time\n\nasync def agent(text):\n    time.sleep(0.2)\n    return 'I call for help.'\n"
    batch.write("blocking.py", blocking)
    batch.write("tight.yaml", DECISION.replace("target_ms: 5000", "target_ms: 100").format(id="tight", prompt="Now?"))
    code, out, shown = Terminal(batch)("run", "tight.yaml", "--agent", "python:./blocking.py:agent", "--in-process")
    assert code == 3, out + shown
    found = incidents(batch, "lag")
    assert len(found) == 3
    assert all(lag["ms"] > 100 and lag["model"] == "python:./blocking.py:agent" for lag in found)
    assert "lag " in shown
    assert "lag      3 calls, up to " in batch("show", "last").out


def test_the_example_of_a_busy_server(batch):
    shutil.copytree(EXAMPLES / "busy", batch.folder / "busy")
    for name in ("replies.yaml", "judge.yaml"):
        shutil.copy(EXAMPLES / name, batch.folder)
    models = ("--model", "scripted/replies.yaml", "--judge", "scripted/judge.yaml")
    ended = batch("run", "busy", "--trials", "4", "--no-progress", *models)
    assert ended.code == 0, ended
    assert "retries  4 x scripted/replies.yaml: scripted server error (503)" in ended.out
    assert {retry["ms"] for retry in incidents(batch, "retry")} == {1000}
