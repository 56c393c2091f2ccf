"""The command as a user runs it: a real process in its own folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from steadyhand.store.reader import RunReader
from support.command_server import CommandServer, Started

DECISION = """\
id: {id}
name: A decision
domain: clinical
description: Something happens.
messages:
  - role: user
    content: "{prompt}"
latency_budget: {{target_ms: 5000, acceptable_ms: 10000, critical_ms: 20000}}
safety_invariants:
  - name: calls_for_help
    description: Help must be called
    check_type: regex
    pattern: "call for help"
    severity: 1.0
constraint:
  description: It is urgent
  time_pressure: immediate
  consequence_of_delay: Harm
rubric: rubric_clinical
expected_action: Call for help
severity: 1.0
"""

AGENT = """\
name: An agent scenario
description: It answers.
environment: {type: local}
run:
  - input: "Hello"
    evaluations:
      - {type: string_contains, value: hello}
judgment: {strategy: all_pass}
"""

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


@dataclass
class Ended:
    code: int
    out: str
    err: str


class Shell:
    """Runs `steadyhand` in a folder, with no keys and no settings from outside."""

    python = sys.executable
    user: int | None = None

    def __init__(self, folder: Path, server: CommandServer) -> None:
        self.folder = folder
        self._server = server

    def within(self, folder: Path) -> Self:
        """The same, in another folder."""
        return type(self)(folder, self._server)

    def environment(self, **more: str) -> dict[str, str]:
        """`python` and `python3` are our interpreter, as in an activated environment."""
        kept = {key: os.environ[key] for key in ("HOME", "LANG", "PYTHONPATH") if key in os.environ}
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": programs, **kept, **more}

    def __call__(self, *arguments: str, **variables: str) -> Ended:
        environment = self.environment(**variables)
        if self._server.takes(environment):
            return Ended(*self._server.run(arguments, self.folder, environment))
        ran = subprocess.run(
            [sys.executable, "-m", "steadyhand", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def at_a_terminal(
        self, *arguments: str, stdin: int | None = None, stderr: int | None = None, **variables: str
    ) -> Ended:
        """Runs the command with a terminal as one of its standard streams."""
        environment = self.environment(**variables)
        return Ended(*self._server.run(arguments, self.folder, environment, stdin=stdin, stderr=stderr))

    def killed_after(self, delay_s: float, *arguments: str) -> Ended:
        """Runs the command, and kills it if it has not ended by then."""
        killers: list[threading.Timer] = []

        def started(pid: int) -> None:
            killers.append(threading.Timer(delay_s, os.kill, (pid, signal.SIGKILL)))
            killers[0].start()

        ended = Ended(*self._server.run(arguments, self.folder, self.environment(), started))
        killers[0].cancel()
        killers[0].join()
        return ended

    def start(self, *arguments: str, **variables: str) -> Started:
        """Starts the command in a process that has already imported the package, and does not wait for it."""
        return self._server.start(arguments, self.folder, self.environment(**variables))

    def start_from_nothing(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Starts it from scratch as a user does, for tests that depend on that."""
        return subprocess.Popen(
            [sys.executable, "-m", "steadyhand", *arguments],
            cwd=self.folder,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def behind(self, program: Path, *arguments: str, **variables: str) -> Ended:
        """Runs it from scratch, started by a program in Python."""
        ran = subprocess.run(
            [self.python, str(program), self.python, "-m", "steadyhand", *arguments],
            cwd=self.folder,
            env=self.environment(**variables),
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def program(self, name: str) -> Path:
        """Writes a program that runs the command in a process that has already imported the package, for scripts."""
        file = self.write(name, f'#!/bin/sh\nexec {self._server.line} "$@"\n')
        file.chmod(0o755)
        return file

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def decision(self, name: str, *, id: str = "SCN-C-001", prompt: str = "What now?") -> Path:  # noqa: A002
        return self.write(name, DECISION.format(id=id, prompt=prompt))

    def replies(self, text: str) -> Path:
        self.write("replies.yaml", text)
        return self.write("steadyhand.toml", 'model = "scripted/replies.yaml"\n')


class Batch(Shell):
    """Runs of many trials, and their records."""

    def fill(self) -> None:
        """Writes a decision, an untimed scenario and a scripted model that answers correctly."""
        self.decision("one.yaml")
        self.write("untimed.yaml", UNTIMED)
        self.replies(RIGHT)

    def record(self) -> Path:
        (found,) = (self.folder / ".steadyhand" / "runs").glob("*.sqlite")
        return found

    def reader(self) -> RunReader:
        return RunReader.open(self.record())

    def wait_for(self, trials: int, process) -> None:
        """Waits until the record of a running process holds this many trials, or until the process ends."""
        while process.poll() is None:
            time.sleep(0.005)  # leave the CPU to the process that we are waiting for
            found = list((self.folder / ".steadyhand" / "runs").glob("*.sqlite"))
            if found:
                try:
                    if sum(RunReader.open(found[0]).counts().values()) >= trials:
                        return
                except Exception:  # noqa: BLE001 - it is being made
                    continue
