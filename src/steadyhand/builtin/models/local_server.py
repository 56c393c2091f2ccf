"""The child process behind `local/...`: opens xllamacpp's OpenAI-compatible server on a loopback port.

Run as a script, by path, so that it imports nothing of ours. The first line on stdin has its settings as JSON; once the
weights are loaded and the server answers, it writes the server's address to stdout. When stdin closes, because the
parent closed it or died, it kills its process group.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import signal
import sys
import time
from typing import Any


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    _die_with_parent()
    # Keep the library's output away from stdout, where the parent reads the address.
    ready = os.dup(1)
    os.dup2(2, 1)
    server = _open(settings)
    _await_health(server.listening_address.removeprefix("http://"))
    os.write(ready, server.listening_address.encode() + b"\n")
    os.close(ready)
    while True:
        signal.pause()


def _die_with_parent() -> None:
    """Watch stdin in a separate process, because the library holds the interpreter lock while it loads the weights."""
    if os.fork() == 0:
        os.closerange(1, 3)
        while os.read(0, 1):
            pass
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
