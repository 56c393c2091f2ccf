import os
import signal
import subprocess
import sys

import pytest

from steadyhand.records.evaluation import Verdict

pytestmark = pytest.mark.system


def test_once_finishes_what_is_in_flight_and_reports(batch):
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 300\n")
    process = batch.start("run", "untimed.yaml", "--trials", "40", "--concurrency", "4")
    batch.wait_for(4, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    reader = batch.reader()
    done = sum(reader.counts().values())
    assert 4 <= done < 40
    assert reader.counts()[Verdict.PASSED] == done
    assert reader.status == "interrupted"
    assert "interrupt again to stop immediately" in err
    assert f"steadyhand resume {reader.header.id}" in err
    assert f"{done} passed" in out
    batch.replies("rules:\n  - reply: I call for help now.\n")
    assert batch("resume", "last", "--no-progress", "--force").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == 40


def test_twice_stops(batch):
    quick, never = "{contains: What now, reply: I call for help.}", "{reply: I call for help., delay_ms: 600000}"
    batch.replies(f"rules:\n  - {quick}\n  - {never}\n")
    batch.decision("two.yaml", id="SCN-C-002", prompt="Never answered?")
    process = batch.start("run", "untimed.yaml", "two.yaml", "--concurrency", "2")
    batch.wait_for(1, process)
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "interrupt again" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert batch.reader().status == "interrupted"
    assert [row.key.scenario_id for row in batch.reader().rows()] == ["untimed"]
    batch.replies(f"rules:\n  - {quick}\n  - {{reply: I call for help.}}\n")
    ended = batch("resume", "last", "--no-progress", "--force")
    assert (ended.code, "1 of 2 trials left to run" in ended.err) == (0, True), ended
    assert batch.reader().finished


AGENT = """\
import json, sys, time
for line in sys.stdin:
    time.sleep(0.5)
    print(json.dumps({"type": "reply", "text": "I call for help now."}), flush=True)
"""
MOCKED = """\
id: mocked
name: Mocked
description: A script answers for a service.
agent: python:./caller.py:agent
environment: {type: local}
setup:
  mocks:
    - {service: clock, method: now, responseFn: "() => 'call for help at ' + 12"}
run:
  - input: What now?
    evaluations: [{type: string_contains, value: call for help}]
judgment: {strategy: all_pass}
"""
CALLER = """\
import asyncio

async def agent(text, get_service):
    await asyncio.sleep(0.5)
    return await get_service("clock").now()
"""


@pytest.mark.parametrize("kind", ["command", "script"])
def test_an_interrupt_from_the_keyboard_does_not_end_what_works_for_a_trial(batch, kind):
    """A terminal sends it to every process in the foreground, ours and theirs."""
    text = (batch.folder / "untimed.yaml").read_text()
    command = text.replace("agent: model", f"agent: command:{sys.executable} ./agent.py")
    batch.write("untimed.yaml", command if kind == "command" else MOCKED)
    batch.write("agent.py", AGENT)
    batch.write("caller.py", CALLER)
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand", "run", "untimed.yaml", "--trials", "6", "--concurrency", "2"],
        cwd=batch.folder,
        env=batch.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    batch.wait_for(2, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    counts = batch.reader().counts()
    assert 2 <= counts[Verdict.PASSED] == sum(counts.values()) < 6, out
    assert batch("resume", "last", "--no-progress").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == 6
