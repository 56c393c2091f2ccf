"""Server-sent events, cut out of a byte stream that arrives in any pieces."""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"
_DATA = b"data: "
_DONE_LINE = _DATA + DONE


Event = tuple[bytes, int]
"""The data of one event, and how many bytes of the stream it took to complete it."""


class EventStream:
    """Feed it bytes, get the events they complete. Lines end in LF or CRLF; `event:`, `id:` and comments are skipped.

    An event ends at its blank line, except `[DONE]`, which is complete with its own line: nothing may follow it, and
    when it arrived is when the answer did. What is left without a blank line at the end of the stream is no event.
    """

    __slots__ = ("_data", "_end", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._end: int = 0

    def feed(self, block: bytes) -> list[Event]:
        events: list[Event] = []
        rest = self._rest
        if not rest and not self._data:
            block = self._take_plain(block, events)
            if not block:
                return events
        rest.append(block)
        if b"\n" not in block:
            return events
        lines = (b"".join(rest) if len(rest) > 1 else block).split(b"\n")
        tail = lines.pop()
        self._rest = [tail] if tail else []
        data = self._data
        end = self._end
        for line in lines:
            end += len(line) + 1
            if line[-1:] == b"\r":
                line = line[:-1]  # noqa: PLW2901 -- the loop's own copy
            if not line:
                if data:
                    events.append((data[0] if len(data) == 1 else b"\n".join(data), end))
                    data.clear()
                continue
            if line[:1] != b"d":
                line = line.removeprefix(_BOM)  # noqa: PLW2901
            if line[:5] == b"data:":
                value = line[6:] if line[5:6] == b" " else line[5:]
                if value == DONE and not data:
                    events.append((value, end))
                else:
                    data.append(value)
        self._end = end
        return events

    def _take_plain(self, block: bytes, events: list[Event]) -> bytes:
        """Take the events that are one line of data each, as nearly all are; what is left begins with another kind."""
        parts = block.split(b"\n\n")
        taken = 0
        for part in parts[:-1]:
            if part[:6] != _DATA or part == _DONE_LINE or b"\n" in part or b"\r" in part:
                break
            taken += len(part) + 2
            events.append((part[6:], self._end + taken))
        self._end += taken
        return block[taken:] if taken else block
