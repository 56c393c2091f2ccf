"""An OTLP collector on loopback that keeps what it is sent, or never answers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from steadyhand.gateway.otlp import TraceSpan, read_export


class Collector:
    def __init__(self, *, answers: bool) -> None:
        self.exports: list[tuple[str, dict[str, str], list[TraceSpan]]] = []
        self.bodies: list[bytes] = []
        self._let_go = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not answers:
                    collector._let_go.wait()
                    return
                spans = read_export(body, self.headers["Content-Type"])
                collector.exports.append((self.path, dict(self.headers), spans))
                collector.bodies.append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[TraceSpan]:
        return [span for _, _, spans in self.exports for span in spans]

    def let_go(self) -> None:
        """Drops the connections that are waiting for an answer."""
        self._let_go.set()


@contextmanager
def collecting(*, answers: bool = True) -> Iterator[Collector]:
    collector = Collector(answers=answers)
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.let_go()
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()
