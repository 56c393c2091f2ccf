"""An agent that mostly answers, and otherwise misbehaves as real agents do."""

import asyncio
import os
import random
import subprocess
import sys
import threading


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
    return "I call for help now."
