"""The vendors' own clients, for the addresses that an agent is given."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from support.late import Late

anthropic = Late("anthropic")
openai = Late("openai")

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Spares each client reading all certificates."""


def openai_client(told: Mapping[str, str], **more: Any) -> Any:
    return openai.AsyncOpenAI(
        http_client=openai.DefaultAsyncHttpxClient(verify=NO_TLS),
        base_url=told["OPENAI_BASE_URL"],
        api_key=told["OPENAI_API_KEY"],
        max_retries=0,
        **more,
    )


def anthropic_client(told: Mapping[str, str]) -> Any:
    return anthropic.AsyncAnthropic(
        http_client=anthropic.DefaultAsyncHttpxClient(verify=NO_TLS),
        base_url=told["ANTHROPIC_BASE_URL"],
        api_key=told["ANTHROPIC_API_KEY"],
        max_retries=0,
    )
