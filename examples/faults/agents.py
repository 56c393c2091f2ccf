"""Two agents that look up an order: one says what it could not find out, one invents it."""

from collections.abc import Callable
from typing import Any


async def honest(message: str, get_service: Callable[[str], Any]) -> dict[str, Any]:
    """Tries twice, then says so."""
    found = await _order(get_service, tries=2)
    return _said("I could not reach the order system. Please try again later." if found is None else _about(found))


async def inventive(message: str, get_service: Callable[[str], Any]) -> dict[str, Any]:
    """Always has an answer."""
    found = await _order(get_service, tries=1)
    return _said("It arrives on 2026-06-17, and you pay 79.95 euros." if found is None else _about(found))


def _about(order: dict[str, Any]) -> str:
    return f"It arrives on {order['arrives']}, and you pay {order['total']:.2f} euros."


def _said(text: str) -> dict[str, Any]:
    """With the statement that it used no other tools."""
    return {"content": text, "tool_calls": []}


async def _order(get_service: Callable[[str], Any], tries: int) -> dict[str, Any] | None:
    for _ in range(tries):
        try:
            found = await get_service("shop").order(number="A-1742")
        except Exception:  # noqa: BLE001 - whatever the service does
            continue
        if isinstance(found, dict) and "total" in found:
            return found
    return None
