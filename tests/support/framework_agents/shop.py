"""What the agents in this folder work with: a shop, reached at SHOP_URL. Without one, its answers are made up."""

import json
import os
import urllib.request


def call(method: str, values: dict, base: str | None = None) -> str:
    base = base or os.environ.get("SHOP_URL")
    if not base:
        return json.dumps({"result": {"state": "on its way"}})
    request = urllib.request.Request(
        f"{base}/orders/{method}", data=json.dumps(values).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()
