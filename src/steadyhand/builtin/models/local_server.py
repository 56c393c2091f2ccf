"""The child process behind `local/...`: opens xllamacpp's OpenAI-compatible server on a loopback port.

Run as a script, by path, so that it imports nothing of ours. The first line from its connection has its settings as
JSON; once the weights are loaded and the server answers, it sends the server's address. When the connection closes,
because the parent closed it or died, it kills its process group.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any


def main() -> None:
    connection = int(sys.argv[1])
    with open(connection, "rb", closefd=False) as connected:
        settings: dict[str, Any] = json.loads(connected.readline())
    _die_with_parent(connection)
    server = _open(settings)
    _await_health(server.listening_address.removeprefix("http://"))
    os.write(connection, server.listening_address.encode() + b"\n")
    while True:
        signal.pause()


def _die_with_parent(connection: int) -> None:
    """Watch the connection, and this process, in a separate one, because the library holds the interpreter lock while
    it loads the weights."""
    ended, held = os.pipe()
    if os.fork() == 0:
        os.close(held)
        os.closerange(0, 3)
        select.select([connection, ended], [], [])
        os.killpg(0, signal.SIGKILL)


def _open(settings: dict[str, Any]) -> Any:
    sys.path.append(settings["library"])
    library: Any = importlib.import_module("xllamacpp")  # an extra, so not installed when types are checked
    params = library.CommonParams()
    params.model.path = settings["weights"]
    params.n_ctx = settings["context"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.sampling.temp = settings["temperature"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.ui = False
    params.verbosity = 1  # errors only
    # One call at a time and no prompt cache, which would make the model look faster than it is.
    params.n_parallel = 1
    params.cache_prompt = params.cache_idle_slots = False
    params.cache_ram_mib = 0
    # Small batches, because a cancelled prompt is only abandoned between two batches.
    params.n_batch = params.n_ubatch = 256
    try:
        return library.Server(params)
    except RuntimeError as error:
        sys.exit(str(error))


def _await_health(address: str) -> None:
    """Wait until the server accepts requests. The parent limits how long that may take."""
    while True:
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/health")
        if connection.getresponse().status == 200:
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main()
