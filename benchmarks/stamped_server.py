"""A model server whose clock is as good as the client's: the kernel stamps the arrival of every request.

It answers chat completions after a delay with a stream of so many words in so many pieces, prints one JSON line with
its `base_url`, answers `GET /log` with the times of every request so far and forgets them on `DELETE /log`. Answers go
to the kernel at once. A request that offers tools is answered with a call of the first, until that was made.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import socket
import sys
from time import perf_counter
from typing import Any

from steadyhand.http.stamped_socket import StampedSocket, stamp_arrivals
from steadyhand.records.chat import ArrivalClock

SENTENCE = ("Stop", "the", "pump", "now", "and", "tell", "the", "control", "room", "why", "it", "had", "to", "stop")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"


def events(words: int, pieces: int) -> bytes:
    """An answer of so many words, in so many pieces of about the same length."""
    text = " ".join(itertools.islice(itertools.cycle(SENTENCE), words)) + "."
    bounds = [round(len(text) * at / pieces) for at in range(pieces + 1)]
    return _stream([{"content": text[start:end]} for start, end in itertools.pairwise(bounds)], "stop")


def tool_call(asked: dict[str, Any]) -> bytes:
    function = {"name": asked["tools"][0]["function"]["name"], "arguments": '{"number": 7}'}
    return _stream([{"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}], "tool_calls")


def _stream(deltas: list[dict[str, Any]], reason: str) -> bytes:
    told: list[tuple[dict[str, Any], str | None]] = [*((delta, None) for delta in deltas), ({}, reason)]
    choices = ({"index": 0, "delta": delta, "finish_reason": finish} for delta, finish in told)
    found = (b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode() for choice in choices)
    return b"".join(found) + b"data: [DONE]\n\n"


class _Client:
    """One connection, one request at a time."""

    def __init__(self, connected: socket.socket, log: list[dict[str, Any]], delay_s: float, answer: bytes) -> None:
        self._log = log
        self._text = answer
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
        calls = asked.get("tools") and asked["messages"][-1]["role"] != "tool"
        answer = tool_call(asked) if calls else self._text
        self._socket.write(HEAD % (b"text/event-stream", len(answer)) + answer)
        prompt = asked["messages"][-1]["content"]
        self._log.append({"prompt": prompt, "seed": asked.get("seed"), "times": times, "clock": clock})

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


async def _serve(delay_s: float, answer: bytes) -> None:
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
            _Client(made, log, delay_s, answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--words", type=int, default=4)
    parser.add_argument("--pieces", type=int, default=2)
    given = parser.parse_args()
    asyncio.run(_serve(given.delay_ms / 1000, events(given.words, given.pieces)))
