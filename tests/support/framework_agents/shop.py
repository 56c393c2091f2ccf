"""What the agents of this folder are about: a shop, reached at SHOP_URL."""

import json
import os
import urllib.request


def call(method: str, values: dict, base: str | None = None) -> str:
    url = f"{base or os.environ['SHOP_URL']}/orders/{method}"
    request = urllib.request.Request(
        url, data=json.dumps(values).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()
