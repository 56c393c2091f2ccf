"""Copies of a process. Each test does it in a process of its own, which has one thread."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from steadyhand.children.nursery import can_be_copied

SOURCE = Path(__file__).parents[3] / "src"
PRELUDE = """
import os, signal, socket, sys, time
from pathlib import Path
from steadyhand.children.nursery import Nursery, can_be_copied

loaded = "what the first process has loaded"

def main(fd):
    connection = socket.socket(fileno=fd)
    while told := connection.recv(100):
        match told:
            case b"say":
                connection.sendall(f"{loaded} {os.getpid()}".encode())
            case b"print":
                print("printed", flush=True)
                connection.sendall(b"done")
            case b"files":
                found = [Path(f"/proc/self/fd/{name}").resolve().name for name in os.listdir("/proc/self/fd")]
                connection.sendall(b"open" if "secret" in found else b"none")
            case b"end":
                os._exit(3)
    os._exit(0)

def ask(copy, told):
    copy.connection.sendall(told)
    return copy.connection.recv(1000).decode()

def alive(pid):
    try:
        return "State:\\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False

def gone(*pids):
    while any(map(alive, pids)):
        time.sleep(0.001)
    return "gone"
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers start from nothing")


def said(code):
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env={"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_copies_have_what_was_loaded_and_are_apart():
    told = said("""
    nursery = Nursery(main)
    loaded = "changed later"
    first, second = nursery.start("workers.1"), nursery.start("workers.2")
    print(ask(first, b"say") == f"what the first process has loaded {first.pid}", ask(second, b"say") != "")
    print(ask(first, b"print"), first.output.text(), second.output.text() == "")
    print(os.getsid(first.pid) == first.pid, os.getpgid(second.pid) == second.pid)
    first.kill()
    print(first.how_it_ended(wait_s=9), second.alive, ask(second, b"say") != "")
    for each in (first, second):
        each.bury()
    nursery.close()
    print(gone(first.pid, second.pid))
    """)
    assert told == ["True True", "done printed True", "True True", " by SIGKILL True True", "gone"]


def test_the_end_of_a_copy_is_told_and_its_id_kept_until_it_is_buried():
    told = said("""
    nursery = Nursery(main)
    copy = nursery.start("workers.1")
    copy.connection.sendall(b"end")
    print(copy.how_it_ended(wait_s=9), copy.alive, "State:\\tZ" in Path(f"/proc/{copy.pid}/status").read_text())
    copy.bury()
    while Path(f"/proc/{copy.pid}").exists():
        time.sleep(0.001)
    nursery.close()
    """)
    assert told == [" with exit code 3 False True"]


def test_copies_end_with_the_nursery_which_then_starts_no_more():
    told = said("""
    nursery = Nursery(main)
    copy = nursery.start("workers.1")
    os.kill(nursery._pid, signal.SIGKILL)
    print(copy.how_it_ended(wait_s=9))
    try:
        nursery.start("workers.2")
    except OSError as error:
        print(error)
    copy.bury()
    nursery.close()
    """)
    assert told == [" by SIGKILL", "the process that makes workers has ended"]


def test_a_nursery_that_is_stopped_is_woken():
    told = said("""
    nursery = Nursery(main)
    os.kill(nursery._pid, signal.SIGSTOP)
    copy = nursery.start("workers.1")
    print(ask(copy, b"print"))
    copy.connection.sendall(b"end")
    os.kill(nursery._pid, signal.SIGSTOP)
    print(copy.how_it_ended(wait_s=9))
    copy.bury()
    os.kill(nursery._pid, signal.SIGSTOP)
    nursery.close()
    """)
    assert told == ["done", " with exit code 3"]


def test_everything_ends_with_the_first_process():
    told = said("""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        nursery = Nursery(main)
        copy = nursery.start("workers.1")  # without a reference its connection is closed, and it ends
        os.write(write, f"{nursery._pid} {copy.pid}".encode())
        time.sleep(60)
    below = [int(each) for each in os.read(read, 100).split()]
    print(all(map(alive, below)))
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    print(gone(*below))
    """)
    assert told == ["True", "gone"]


def test_copies_hold_no_file_of_the_first_process(tmp_path):
    told = said(f"""
    held = open({str(tmp_path / "secret")!r}, "w")
    nursery = Nursery(main)
    copy = nursery.start("workers.1")
    print(ask(copy, b"files"))
    copy.bury()
    nursery.close()
    """)
    assert told == ["none"]


def test_a_process_with_threads_or_an_event_loop_is_not_copied():
    told = said("""
    import asyncio, threading
    print(can_be_copied())
    async def inside():
        print(can_be_copied())
    asyncio.run(inside())
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    print(can_be_copied())
    over.set()
    other.join()
    """)
    assert told == ["True", "False", "False"]


async def test_an_event_loop_is_enough():
    assert not can_be_copied()
