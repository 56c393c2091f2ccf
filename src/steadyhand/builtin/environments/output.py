"""Keeping the beginning and the end of what a command prints."""

from __future__ import annotations

from collections import deque


class BoundedOutput:
    """Takes bytes without end and keeps at most `limit`: half from the head, half from the tail."""

    def __init__(self, limit: int) -> None:
        self._head_room: int = limit // 2
        self._tail_limit: int = limit - limit // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size: int = 0
        self._dropped: int = 0

    @property
    def truncated(self) -> bool:
        return self._dropped > 0

    def add(self, data: bytes) -> None:
        if self._head_room:
            self._head.append(data[: self._head_room])
            data = data[self._head_room :]
            self._head_room -= len(self._head[-1])
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._tail_limit:
            excess = self._tail_size - self._tail_limit
            first = self._tail.popleft()
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
            gone = min(len(first), excess)
            self._tail_size -= gone
            self._dropped += gone

    def text(self) -> str:
        """As UTF-8, with what is not UTF-8 replaced, and a line that says how much is missing."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if not self._dropped:
            return (head + tail).decode("utf-8", "replace")
        note = f"\n[... {self._dropped} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")
