"""Addresses of hosts: as the loop finds them, without waiting for a name server that never answers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from steadyhand.http.name_lookup import connected_socket, look_up


async def test_an_address_needs_no_thread():
    threads = threading.active_count()
    ((family, _, _, _, address),) = await look_up("127.0.0.1", 80, type=socket.SOCK_STREAM)
    assert (family, address, threading.active_count()) == (socket.AF_INET, ("127.0.0.1", 80), threads)


async def test_a_name_is_found_as_the_loop_finds_it():
    loop = asyncio.get_running_loop()
    asked = {"type": socket.SOCK_STREAM}
    assert await look_up("localhost", 80, **asked) == await loop.getaddrinfo("localhost", 80, **asked)
    with pytest.raises(socket.gaierror):
        await look_up("no-such-host.invalid", 80, **asked)


async def test_the_next_address_is_tried_and_the_last_failure_raised():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await connected_socket("localhost", port)
        server.listen()
        made = await connected_socket("localhost", port)  # ::1 comes first, where there is one
        assert made.getpeername() == ("127.0.0.1", port)
        made.close()


HANGING = """
import asyncio, os, socket, sys, threading
from steadyhand.compose.run import quick_loop
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.77", 53))

async def main():
    loop = asyncio.get_running_loop()
    try:
        await asyncio.wait_for(loop.getaddrinfo("slow.example", 80), 0.2)
    except TimeoutError:
        print("gave up", flush=True)

with asyncio.Runner(loop_factory=quick_loop()) as runner:
    runner.run(main())
print([each.name for each in threading.enumerate() if each.name.startswith("look up")], flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root has a name server of its own")
def test_the_end_of_the_loop_does_not_wait_for_a_name_server(tmp_path: Path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.77\noptions timeout:20 attempts:3\n")
    script = f'mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec "$@"'
    own = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", HANGING]
    done = subprocess.run(own, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.splitlines() == ["gave up", "['look up slow.example']"], done.stderr
