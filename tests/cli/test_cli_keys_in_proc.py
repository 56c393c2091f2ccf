"""A run with a key: no program that the run starts finds it in `/proc`, except where it was passed on purpose."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to look into")

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
name: Look
description: It looks around.
environment: {{type: local}}
run:
  - {step}
    evaluations:
      - {{type: string_contains, value: nothing found}}
judgment: {{strategy: all_pass}}
"""


def replies(shell, step: str, *options: str) -> str:
    shell.write("look.py", LOOK)
    shell.write("look.scenario.yaml", SCENARIO.format(step=step))
    run = shell.start_from_nothing("run", "look.scenario.yaml", "--json", "r.json", *options, SHOP_API_KEY=KEY)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    return json.dumps(json.loads((shell.folder / "r.json").read_text()))


def test_a_command_agent_finds_nothing(shell):
    shell.write("mine.py", COMMAND_AGENT)
    replies(shell, "input: look", "--agent", f"command:{sys.executable} ./mine.py {shell.folder}")


def test_a_python_agent_has_the_key_and_shows_it_to_nobody(shell):
    shell.write("mine.py", PYTHON_AGENT)
    assert "and the key is canary" in replies(shell, "input: look", "--agent", "python:./mine.py:agent")


def test_a_scenarios_command_finds_nothing(shell):
    shell.write("mine.py", "def agent(message): return ''\n")
    step = f'lang: sh\n    code: "{sys.executable} {shell.folder}/look.py"'
    replies(shell, step, "--agent", "python:./mine.py:agent")
