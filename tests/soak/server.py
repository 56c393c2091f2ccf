"""An unreliable model server: about a third of its answers fail, in every way that it knows.

python -m soak.server
"""

from __future__ import annotations

import asyncio
import json
import random

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


async def serve() -> None:
    async with ModelServer(behaviour) as server:
        print(server.base_url, flush=True)
        while True:
            await asyncio.sleep(1)
            server.log.clear()


if __name__ == "__main__":
    asyncio.run(serve())
