"""An agent that mostly answers, and otherwise misbehaves as real agents do."""

import asyncio
import os
import random
import subprocess
import sys
import threading
import urllib.error
import urllib.request

SPAN = (
    '{"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "000000000000000%s", "parentSpanId": "%s", "name": "t",'
    ' "startTimeUnixNano": "%s", "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "wipe"}}]}'
)
EXPORTS = (
    [SPAN % (1, "", 0)],
    [SPAN % (1, "0000000000000002", 0), SPAN % (2, "0000000000000001", 0)],
    [SPAN % (1, "", "1e999")],
    ["[" * 5000],
)


def export(spans: list[str]) -> None:
    """Spans as they should be, in a circle, and unreadable."""
    body = '{"resourceSpans": [{"scopeSpans": [{"spans": [' + ", ".join(spans) + "]}]}]}"
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=1).close()
    except urllib.error.HTTPError as refused:
        refused.close()


async def answer(message: str) -> str:
    match random.randrange(12):
        case 0:
            raise ValueError("broken")
        case 1:
            os._exit(0)
        case 2:
            await asyncio.sleep(600)
        case 3:
            while True:
                pass
        case 4:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)  # noqa: ASYNC220
        case 5:
            threading.Thread(target=threading.Event().wait).start()
        case 6 | 7:
            await asyncio.to_thread(export, random.choice(EXPORTS))
    return "I call for help now."
