"""The same in a program that speaks JSON lines."""

import json
import os
import random
import sys
import time

for line in sys.stdin:
    turn = json.loads(line)
    if turn.get("type") != "turn":
        continue
    match random.randrange(10):
        case 0:
            os._exit(3)
        case 1:
            time.sleep(600)
        case 2:
            print("not of the protocol", flush=True)
        case _:
            print(json.dumps({"type": "action", "name": "CALL", "params": {"number": turn["number"]}}))
            print(json.dumps({"type": "reply", "text": "I call for help now."}), flush=True)
