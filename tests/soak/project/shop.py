"""An MCP server that mostly answers."""

import json
import os
import random
import sys
import time

TOOL = {"name": "stock", "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}}}
STARTED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "shop", "version": "1"},
}
FAULTS = (
    lambda: os._exit(4),
    lambda: time.sleep(600),
    lambda: print("DEBUG: looking it up", flush=True),
    lambda: print('{"jsonrpc": "2.0", "broken"', flush=True),
    lambda: print("{" * 100_000, flush=True),
    lambda: print(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "shop/unheard_of"}), flush=True),
)

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    if asked["method"] == "tools/call" and random.random() < 0.4:
        random.choice(FAULTS)()
    answers = {"initialize": STARTED, "tools/list": {"tools": [TOOL]}}
    result = answers.get(asked["method"], {"content": [{"type": "text", "text": "42 pieces"}]})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
