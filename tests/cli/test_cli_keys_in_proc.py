"""A run with a key: no program that the run starts finds it in `/proc`, except where it was passed on purpose."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to look into")]

KEY = "canary-4f1d8e27c0b94a"
LOOK = """
import glob, os
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if b"4f1d8e27c0b94a" in open(path, "rb").read():
            found.append(path.split("/")[2:])
    except OSError:
        pass
print("found in", found) if found else print("nothing found")
"""
COMMAND_AGENT = """
import json, subprocess, sys
for line in sys.stdin:
    looked = subprocess.run([sys.executable, "look.py"], capture_output=True, text=True, check=True, cwd=sys.argv[1])
    print(json.dumps({"type": "reply", "text": looked.stdout}), flush=True)
"""
PYTHON_AGENT = """
import os, subprocess, sys

def agent(message):
    look = [sys.executable, os.path.dirname(__file__) + "/look.py"]
    looked = subprocess.run(look, env={}, capture_output=True, text=True)
    return looked.stdout + " and the key is " + os.environ["SHOP_API_KEY"][:6]
"""
SCENARIO = """\
name: {name}
description: It looks around.
agent: {agent}
environment: {{type: local}}
run:
  - {step}
    evaluations:
      - {{type: string_contains, value: nothing found}}
judgment: {{strategy: all_pass}}
"""


def test_no_program_finds_the_key_and_a_python_agent_has_it_all_the_same(shell):
    shell.write("look.py", LOOK)
    shell.write("command.py", COMMAND_AGENT)
    shell.write("mine.py", PYTHON_AGENT)
    command, python = f"command:{sys.executable} ./command.py {shell.folder}", "python:./mine.py:agent"
    code = f'lang: sh\n    code: "{sys.executable} {shell.folder}/look.py"'
    steps = {"command agent": (command, "input: look"), "python agent": (python, "input: look"), "code": (python, code)}
    for name, (agent, step) in steps.items():
        shell.write(f"{name}.scenario.yaml", SCENARIO.format(name=name, agent=agent, step=step))
    run = shell.start_from_nothing("run", ".", "--json", "r.json", SHOP_API_KEY=KEY)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    trials = json.loads((shell.folder / "r.json").read_text())["trials"]
    found = {trial["scenario"]["name"]: json.dumps(trial) for trial in trials}
    assert set(found) == set(steps)
    assert "and the key is canary" in found["python agent"]
