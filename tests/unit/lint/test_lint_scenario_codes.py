"""The lint codes: all listed, all documented, and switched off where a file says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import steadyhand
from steadyhand.lint.ignores import CODES, FileIgnores, unknown_code
from steadyhand.records.location import Place, Problem

SOURCES = Path(steadyhand.__file__).parent
ROOT = Path(__file__).parents[3]
FILE = """\
x-lint-ignore: no-examples
safety_invariants:
  - name: a
    pattern: x
    x-lint-ignore: [matches-prompt, few-examples]
  - name: b
metadata:
  x-lint-ignore: whatever
"""


def test_every_code_that_can_be_found_is_listed() -> None:
    written = "".join(
        path.read_text(encoding="utf-8") for room in ("spec", "lint") for path in (SOURCES / room).glob("*.py")
    )
    warned = re.findall(r'\.warning\(\s*(?:[^()"]|\([^()]*\)|f?"[^"]*",\s*(?=f?"))*"([a-z-]+)"', written)
    linted = re.findall(r'(?:\.problem\(|_warning\((?:scenario\.place|evaluation), )"([a-z-]+)"', written)
    linted += re.findall(r'code="([a-z-]+)", level="warning"', written)
    assert {"id-convention", "unused-key", "unknown-lint-code"} <= set(warned)
    assert {"truncated-stem", "expected-action-fails", "no-examples"} <= set(linted)
    assert set(warned) | set(linted) == set(CODES)


def test_every_code_is_documented() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(CODES)


def test_an_unknown_code_is_told_the_nearest() -> None:
    assert unknown_code("no-examples") is None
    assert unknown_code("no_example") == "unknown code `no_example`; did you mean `no-examples`?"
    assert "expected one of truncated-stem, " in str(unknown_code("zzz"))


@pytest.mark.parametrize(
    ("path", "code", "covered"),
    [
        ("", "no-examples", True),
        ("safety_invariants[0]", "no-examples", True),
        ("safety_invariants[0]", "matches-prompt", True),
        ("safety_invariants[0].pattern", "few-examples", True),
        ("safety_invariants[1]", "matches-prompt", False),
        ("safety_invariants[7]", "matches-prompt", False),
        ("", "matches-prompt", False),
        ("safety_invariants[0]", "truncated-stem", False),
    ],
)
def test_a_file_switches_codes_off_for_all_of_it_or_for_a_check(
    tmp_path: Path, path: str, code: str, covered: bool
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(FILE, encoding="utf-8")
    problem = Problem(place=Place(file=str(file), path=path), message="m", code=code, level="warning")
    assert FileIgnores().covers(problem) is covered


def test_a_code_that_does_not_exist_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(FILE.replace("few-examples", "few-exmples") + "x-y: [{x-lint-ignore: 5}]\n", encoding="utf-8")
    found = FileIgnores().faults([str(file), str(file), "nowhere.yaml"])
    assert [(each.place.line, each.code, each.message) for each in found] == [
        (5, "unknown-lint-code", "unknown code `few-exmples`; did you mean `few-examples`?"),
        (9, "unknown-lint-code", "expected a code, found 5"),
    ]
