"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import pytest

from steadyhand.builtin.models.http.stream import EventStream

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


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, len(STREAM)])
def test_events_and_their_ends_do_not_depend_on_the_cut(size):
    stream = EventStream()
    found = [event for at in range(0, len(STREAM), size) for event in stream.feed(STREAM[at : at + size])]
    assert [data for data, _ in found] == EVENTS
    assert found == EventStream().feed(STREAM)
    assert found[-1][1] == len(STREAM)
    assert STREAM[: found[0][1]].endswith(b'"}\n\n')


def test_every_cut_into_two_gives_the_same():
    for at in range(len(STREAM) + 1):
        stream = EventStream()
        assert [data for data, _ in (*stream.feed(STREAM[:at]), *stream.feed(STREAM[at:]))] == EVENTS


def test_an_event_without_its_blank_line_is_none():
    assert EventStream().feed(b'data: {"half": tru\n') == []


def test_done_needs_no_blank_line():
    assert EventStream().feed(b"data: [DONE]\r\n") == [(b"[DONE]", 14)]


def test_a_byte_order_mark_is_skipped():
    assert EventStream().feed(b"\xef\xbb\xbfdata: a\n\n") == [(b"a", 12)]
