"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import pytest

from steadyhand.wire.stream import EventStream

STREAM = (
    b": a comment\n\n"
    b'data: {"a": "\xc3\xa9\xe2\x82\xac"}\n\n'
    b"event: message\nid: 7\ndata:no space\r\n\r\n"
    b"data: two\ndata: lines\n\n"
    b"retry: 10\n\n"
    b"data:  [DONE]\n\n"
    b"data: [DONE]\n"
)
EVENTS = [b'{"a": "\xc3\xa9\xe2\x82\xac"}', b"no space", b"two\nlines", b" [DONE]", b"[DONE]"]


PLAIN = b'data: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'


def fed(stream: EventStream, block: bytes) -> list[tuple[bytes, int]]:
    return list(zip(*stream.feed(block), strict=True))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, len(STREAM)])
def test_events_and_their_ends_do_not_depend_on_the_cut(size):
    stream = EventStream()
    found = [event for at in range(0, len(STREAM), size) for event in fed(stream, STREAM[at : at + size])]
    assert [data for data, _ in found] == EVENTS
    assert found == fed(EventStream(), STREAM)
    assert found[-1][1] == len(STREAM)
    assert STREAM[: found[0][1]].endswith(b'"}\n\n')


def test_every_cut_into_two_gives_the_same():
    for at in range(len(STREAM) + 1):
        stream = EventStream()
        assert [data for data, _ in (*fed(stream, STREAM[:at]), *fed(stream, STREAM[at:]))] == EVENTS


@pytest.mark.parametrize("size", [1, 5, 16, 18, len(PLAIN)])
def test_events_of_one_line_each_have_the_same_ends_however_they_are_cut(size):
    stream = EventStream()
    found = [event for at in range(0, len(PLAIN), size) for event in fed(stream, PLAIN[at : at + size])]
    assert found == [(b'{"a": 1}', 16), (b'{"b": 2}', 32), (b"[DONE]", len(PLAIN) - 1)]


def test_an_event_without_its_blank_line_is_none():
    assert fed(EventStream(), b'data: {"half": tru\n') == []


def test_done_needs_no_blank_line():
    assert fed(EventStream(), b"data: [DONE]\r\n") == [(b"[DONE]", 14)]


def test_a_byte_order_mark_is_skipped():
    assert fed(EventStream(), b"\xef\xbb\xbfdata: a\n\n") == [(b"a", 12)]
