"""A model server whose clock is as good as the client's: the kernel stamps the arrival of every request.

It answers chat completions after a delay with a short stream, prints one JSON line with its `base_url`, answers
`GET /log` with the times of every request so far and forgets them on `DELETE /log`. Answers go to the kernel at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from time import perf_counter
from typing import Any

from steadyhand.builtin.models.http.stamped_socket import StampedSocket, stamp_arrivals
from steadyhand.records.chat import ArrivalClock

EVENTS = b"".join(
    b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).encode()
    for delta, reason in (({"content": "Stop the pump"}, None), ({"content": " now."}, None), ({}, "stop"))
)
ANSWER = EVENTS + b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"


class _Client:
    """One connection, one request at a time."""

    def __init__(self, connected: socket.socket, log: list[dict[str, Any]], delay_s: float) -> None:
        self._log = log
        self._delay_s = delay_s
        self._buffer = b""
        stamp_arrivals(connected)
        self._socket = StampedSocket(connected, self)
        self._socket.expect(0.0)

    def arrived(self, data: bytes, moment: float, clock: ArrivalClock) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        if len(body) < length:
            return
        self._buffer = b""
        if b"/log " in head:
            if head.startswith(b"DELETE"):
                self._log.clear()
            shown = json.dumps(self._log).encode()
            self._socket.write(HEAD % (b"application/json", len(shown)) + shown)
            return
        asyncio.get_running_loop().call_later(self._delay_s, self._answer, body, moment, clock)
        self._socket.expect(0.0)

    def _answer(self, body: bytes, received: float, clock: ArrivalClock) -> None:
        asked = json.loads(body)
        times = {"received": received, "last_write": perf_counter()}
        self._socket.write(HEAD % (b"text/event-stream", len(ANSWER)) + ANSWER)
        prompt = asked["messages"][-1]["content"]
        self._log.append({"prompt": prompt, "seed": asked.get("seed"), "times": times, "clock": clock})

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


async def _serve(delay_s: float) -> None:
    log: list[dict[str, Any]] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        sys.stdout.write(json.dumps({"base_url": url}) + "\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        while True:
            made, _ = await loop.sock_accept(listening)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Client(made, log, delay_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0.0)
    asyncio.run(_serve(parser.parse_args().delay_ms / 1000))
