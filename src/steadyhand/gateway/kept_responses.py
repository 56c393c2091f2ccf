"""The responses of one trial that a client may continue: with `previous_response_id`, or item by item.

They are kept here, so that it works with any model: the request that reaches the model has the whole exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from steadyhand.gateway.server import TrialEndpoint
from steadyhand.records.chat import ChatResponse
from steadyhand.wire.dialect import BadRequest, Interface, object_of

_KEPT = "responses"
_MOST = 500


class KeptResponses:
    """What was asked and answered. An answer is read only when it is continued."""

    def __init__(self) -> None:
        self._unread: list[tuple[dict[str, Any], Interface, ChatResponse]] = []
        self._exchanges: dict[str, list[Any]] = {}
        self._made: dict[str, Any] = {}

    def keep(self, body: dict[str, Any], interface: Interface, answer: ChatResponse) -> None:
        if body.get("store") is not False:
            self._unread = [*self._unread[-_MOST:], (body, interface, answer)]

    def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request with everything that it continues. Raises `BadRequest` if that is not known."""
        given = _items(body)
        previous, referred = body.get("previous_response_id"), any(_is_reference(item) for item in given)
        if not previous and not referred:
            return body
        self._read()
        before: list[Any] = []
        if previous:
            found = self._exchanges.get(str(previous))
            if found is None:
                raise BadRequest(f"`previous_response_id` is {previous!r}, which is no response of this trial")
            before = found
        kept = {name: value for name, value in body.items() if name != "previous_response_id"}
        return {**kept, "input": [*before, *(self._meant(item) for item in given)]}

    def _read(self) -> None:
        unread, self._unread = self._unread, []
        for asked, interface, answer in unread:
            made = _response(answer) or interface.whole(answer, asked)
            output = cast("list[Any]", made.get("output") or [])
            self._exchanges[str(made.get("id"))] = [*_items(asked), *output]
            self._made.update((str(object_of(item).get("id")), item) for item in output)

    def _meant(self, item: Any) -> Any:
        """The item that a reference stands for. Raises `BadRequest`."""
        if not _is_reference(item):
            return item
        if (made := self._made.get(str(item["id"]))) is None:
            raise BadRequest(f"an item refers to {item['id']!r}, which is in no response of this trial")
        return made


def _is_reference(item: Any) -> bool:
    """The type may be left out."""
    fields = object_of(item)
    return "id" in fields and fields.keys() <= {"id", "type"} and fields.get("type") in (None, "item_reference")


def _items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(cast("list[Any]", given or []))


def _response(answer: ChatResponse) -> dict[str, Any] | None:
    """The provider's own response, if it was forwarded: whole, or in the last event of a stream."""
    if answer.body is None:
        return None
    try:
        if not answer.attempt.streamed:
            return object_of(msgspec.json.decode(answer.body)) or None
        for line in reversed(answer.body.splitlines()):
            if line.startswith("data:") and '"response"' in line:
                return object_of(object_of(msgspec.json.decode(line[5:])).get("response")) or None
    except (msgspec.DecodeError, RecursionError):
        pass
    return None


def kept_responses(endpoint: TrialEndpoint) -> KeptResponses:
    if _KEPT not in endpoint.kept:
        endpoint.kept[_KEPT] = KeptResponses()
    return endpoint.kept[_KEPT]
