"""A type's name has to be enough to find it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import steadyhand

SOURCE = Path(steadyhand.__file__).parent
PUBLIC_TYPE = re.compile(r"^(?:class ([A-Z]\w*)|([A-Z]\w*[a-z]\w*)(?: =|:))", re.MULTILINE)
"""Classes and type aliases of a module: aliases are capitalized, while constants are all capitals."""


def test_no_two_public_types_have_the_same_name():
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for found in PUBLIC_TYPE.finditer(path.read_text(encoding="utf-8")):
            places[found[1] or found[2]].append(str(path.relative_to(SOURCE)))
    assert len(places) > 300, "the walk no longer finds the types"
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
