"""What a scenario's players are is decided once in a run, whoever asks for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

from support.shell import AGENT

WATCH = """
import collections, json, os, sys

CHOOSING = ("Casts._cast", "Casts._chosen", "ScenarioRegistries.plugins", "ScenarioRegistries.registry")
calls = collections.Counter()

def note(frame, event, _):
    if event == "call" and frame.f_code.co_qualname in CHOOSING:
        values = frame.f_locals
        role = values.get("role")
        calls[f"{frame.f_code.co_qualname}{f' {role}' if role else ''} {values['scenario'].id}"] += 1

def leave(code, end=os._exit):
    sys.setprofile(None)
    with open("calls.json", "w") as file:
        json.dump([code, calls], file)
    end(code)

os._exit = leave
sys.setprofile(note)
from steadyhand.cli.main import main
main()
"""
JUDGED = """\
id: judged
name: Judged
description: A judge decides, a user is simulated, and a rubric could be scored.
environment: {type: local}
run:
  - input: Hello
    conversation:
      max_turns: 2
      user_simulator: {persona: p, objective: o}
      final_evaluations: [{type: llm_judge, prompt: Polite?, expected: "yes"}]
judgment: {strategy: all_pass}
"""
YES = 'rules:\n  - {purpose: judge, json: {judgment: "yes", confidence: 1, reasoning: fine}}\n  - reply: hello\n'


def test_every_role_is_chosen_once(tmp_path):
    (tmp_path / "a.scenario.yaml").write_text("id: plain\n" + AGENT)
    (tmp_path / "b.scenario.yaml").write_text(JUDGED)
    (tmp_path / "replies.yaml").write_text(YES)
    given = ("--model", "scripted/replies.yaml", "--judge", "scripted/replies.yaml", "--trials", "3")
    command = [sys.executable, "-c", WATCH, "run", "a.scenario.yaml", "b.scenario.yaml", *given]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (tmp_path / "calls.json").exists(), done.stderr
    code, calls = json.loads((tmp_path / "calls.json").read_text())
    assert (code, "6 trials" in done.stdout) == (0, True), done.stdout + done.stderr
    roles = ("agent", "model", "judge", "user_model", "environment", "rubric")
    once = [f"Casts._chosen {role}" for role in roles] + ["Casts._cast", "ScenarioRegistries.plugins"]
    assert Counter(calls) == Counter(f"{what} {scenario}" for what in once for scenario in ("plain", "judged"))
