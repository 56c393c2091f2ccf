"""An unreliable model server and A2A agent: about a third of their answers fail, in every way that they know.

python -m soak.server
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from steadyhand.records.chat import ToolCall
from steadyhand.testing import Answer, ModelServer, Served

SAID = "I call for help now."
JUDGED = json.dumps({"reasoning": "It does.", "judgment": "yes", "confidence": 0.9})
FAULTS = (
    Answer(status=429, headers={"Retry-After": "0"}),
    Answer(status=503),
    Answer(status=500, body=b"<html>oops</html>"),
    Answer(status=400, error="no such thing"),
    Answer(fault="reset"),
    Answer(fault="hang"),
    Answer(text=SAID, cut_after=1, piece_chars=4),
    Answer(text=SAID, stream_error="overloaded"),
    Answer(text=SAID, framing="close"),
    Answer(text=SAID, finish_reason="length"),
    Answer(text="", finish_reason="content_filter"),
    Answer(body=b"data: {" + b'"a":[' * 2000 + b"\n\n", content_type="text/event-stream"),
    Answer(text=SAID, delay_s=0.3),
    Answer(text=SAID, piece_s=0.05),
    Answer(text=SAID * 2000, write_size=7, piece_chars=1000),
)


def behaviour(request: Served) -> Answer:
    if random.random() < 0.35:
        return random.choice(FAULTS)
    body = request.body
    if "judgment" in json.dumps(body.get("messages", "")) or body.get("response_format"):
        return Answer(text=JUDGED)
    if body.get("tools") and random.random() < 0.3:
        call = ToolCall(id="a", name="warehouse_stock", arguments={"item": "bolt"})
        return Answer(tool_calls=(call,), finish_reason="tool_calls")
    return Answer(text=SAID)


class A2aAgent(BaseHTTPRequestHandler):
    """An A2A agent that mostly answers, and not always to the call at hand."""

    def do_GET(self) -> None:
        host, port = self.server.server_address[:2]
        interface = {"url": f"http://{host}:{port}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        self._send({"name": "x", "supportedInterfaces": [interface], "capabilities": {}, "version": "1"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": SAID}]}
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"message": message}}
        match random.randrange(8):
            case 0:
                answer["id"] = "another"
            case 1:
                del answer["id"]
            case 2:
                answer["result"] = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_FAILED"}}}
            case 3:
                self.connection.close()
                return
        self._send(answer)

    def _send(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it overrides
        pass


class A2aServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up."""


async def serve() -> None:
    a2a = A2aServer(("127.0.0.1", 0), A2aAgent)
    threading.Thread(target=a2a.serve_forever, daemon=True).start()
    async with ModelServer(behaviour) as server:
        print(server.base_url, f"http://127.0.0.1:{a2a.server_port}", flush=True)
        while True:
            await asyncio.sleep(1)
            server.log.clear()


if __name__ == "__main__":
    asyncio.run(serve())
