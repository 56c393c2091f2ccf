"""A type's name has to be enough to find it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import steadyhand

SOURCE = Path(steadyhand.__file__).parent


def public_types(tree: ast.Module) -> Iterator[str]:
    """Classes and type aliases of a module: aliases are capitalized, while constants are all capitals."""
    for statement in tree.body:
        match statement:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name[0].isupper() and len(name) > 1 and not name.isupper():
                    yield name
            case _:
                pass


def test_no_two_public_types_have_the_same_name():
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in public_types(ast.parse(path.read_text(encoding="utf-8"))):
            if not name.startswith("_"):
                places[name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 300, "the walk no longer finds the types"
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
