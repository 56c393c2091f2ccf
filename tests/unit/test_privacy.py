"""The user's other programs can read neither our environment nor our memory, and nothing of ours breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.ordinary_user import python_of_an_ordinary_user, run_as_ordinary_user

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to look into")]

KEY = "a-key-that-nobody-may-find"
PROGRAM = """
import ctypes, json, os, subprocess, sys
from steadyhand.children.daemons import current_owner
from steadyhand.privacy import close_to_others

LOOK = '''
import ctypes, json, os
def read(name):
    try:
        return open(f"/proc/{os.getppid()}/{name}", "rb").read().replace(bytes(1), b" ").decode()
    except OSError as error:
        return type(error).__name__
attached = ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0) == 0
print(json.dumps(
    {"environ": read("environ"), "maps": read("maps")[:17], "attached": attached, "key": os.environ["KEY"]}
))
'''
def look():
    return json.loads(subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True).stdout)

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
before, owner = look(), current_owner()
close_to_others(keep={"KEPT"})
print(json.dumps({
    "before": before, "after": look(), "same_owner": current_owner() == owner, "python": os.environ["KEY"],
    "c": libc.getenv(b"KEY").decode(), "open": len(os.listdir("/proc/self/fd")) > 2,
}))
"""


def looked_at(**given: str) -> dict:
    """As an ordinary user, to whom `PR_SET_DUMPABLE` applies."""
    python = python_of_an_ordinary_user()
    if python is None:
        pytest.skip("no Python of this version that an ordinary user may start")
    done = run_as_ordinary_user([python, "-c", PROGRAM], KEY=KEY, KEPT="kept", **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_another_process_of_the_user_reads_nothing_of_ours():
    told = looked_at()
    assert KEY in told["before"]["environ"]
    assert told["after"]["environ"] == "PermissionError"
    assert told["after"]["maps"] == "PermissionError"
    assert not told["after"]["attached"]


def test_our_own_code_still_finds_what_it_needs():
    told = looked_at()
    assert (told["python"], told["c"], told["after"]["key"]) == (KEY, KEY, KEY)
    assert told["same_owner"]
    assert told["open"]


def test_a_debugger_is_let_in_on_request_and_finds_no_variables_in_proc():
    told = looked_at(STEADYHAND_DUMPABLE="1")
    assert KEY not in told["after"]["environ"]
    assert "KEPT=kept" in told["after"]["environ"]
    assert told["after"]["maps"] != "PermissionError"


def test_the_environment_block_is_blank_for_root_too():
    variables = {**os.environ, "KEY": KEY, "KEPT": "kept"}
    told = json.loads(
        subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, check=True).stdout
    )
    assert KEY in told["before"]["environ"]
    assert KEY not in told["after"]["environ"]
    assert (told["python"], told["c"], told["after"]["key"]) == (KEY, KEY, KEY)


def test_the_library_leaves_the_process_of_its_user_alone():
    """Running scenarios from Python is no reason to block debuggers from somebody else's process."""
    program = (
        "import ctypes, steadyhand\n"
        "run = steadyhand.run\n"
        "import steadyhand.compose.run, steadyhand.builtin.agents.python_process\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), 'KEY=' in open('/proc/self/environ').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "KEY": KEY}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 True\n"


def test_descriptors_we_were_started_with_go_no_further(tmp_path):
    """uvloop passes on inheritable descriptors; a folder among them would lead out of the sandbox."""
    (tmp_path / "secret.txt").write_text("mine")
    program = (
        "import sys, uvloop\n"
        "from pathlib import Path\n"
        "from steadyhand.builtin.environments.local import LocalEnvironment\n"
        "from steadyhand.plugins.plugin import EnvironmentSettings\n"
        "from steadyhand.privacy import close_to_others\n"
        "async def main():\n"
        "    environment = LocalEnvironment(EnvironmentSettings(root=Path(sys.argv[1]), trial_id='t'))\n"
        "    print('secret.txt' in (await environment.run('ls -l /proc/$$/fd')).stdout)\n"
        "    await environment.teardown()\n"
        "uvloop.run(main())\n"
        "close_to_others()\n"
        "uvloop.run(main())\n"
    )
    with (tmp_path / "secret.txt").open() as secret:
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "root")],
            pass_fds=(secret.fileno(),),
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.split() == ["True", "False"]
