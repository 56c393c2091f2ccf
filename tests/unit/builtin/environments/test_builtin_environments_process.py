from __future__ import annotations

import pytest

from steadyhand.builtin.environments.process import BoundedOutput


@pytest.mark.parametrize(
    ("pieces", "text", "truncated"),
    [
        ([], "", False),
        ([b"abcdef"], "abcdef", False),
        ([b"a", b"bcd", b"ef"], "abcdef", False),
        ([b"abcdefg"], "abc\n[... 1 bytes left out ...]\nefg", True),
        ([b"a"] * 3 + [b"x"] * 100 + [b"yz"], "aaa\n[... 99 bytes left out ...]\nxyz", True),
    ],
)
def test_output_keeps_its_ends(pieces, text, truncated):
    output = BoundedOutput(6)
    for piece in pieces:
        output.add(piece)
    assert (output.text(), output.truncated) == (text, truncated)
