"""Groups of checks and negation: what passes, what fails, and what nobody can know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import steadyhand

P, F, U, E = "passed", "failed", "inconclusive", "error"
YES = {"type": "string_contains", "value": "yes"}
NO = {"type": "string_contains", "value": "no"}
SHORT = {"type": "language_is", "language": "de"}
JSON = {"type": "json_path", "path": "$.a", "equals": 1}
BROKEN = {"type": "javascript", "expression": "reply.absent.length > 1"}
JUDGED = {"type": "judge", "judge_criterion": "x"}


def neg(check: dict[str, Any]) -> dict[str, Any]:
    return {**check, "negate": True}


async def _check(folder: Path, check: dict[str, Any], reply: str, **more: Any) -> Any:
    scenario = {
        "name": "n", "description": "d", "environment": {"type": "local"}, "judgment": {"strategy": "all_pass"},
        "run": [{"input": "Tell me.", "evaluations": [check]}], **more,
    }  # fmt: skip
    (folder / "a.scenario.yaml").write_text(yaml.safe_dump(scenario))
    (folder / "model.yaml").write_text(yaml.safe_dump({"rules": [{"reply": reply}]}))
    (folder / "steadyhand.toml").write_text('model = "scripted/model.yaml"')
    (trial,) = await steadyhand.run_async(folder / "a.scenario.yaml", config=folder / "steadyhand.toml")
    (found,) = trial.record.evaluations
    return found


@pytest.mark.parametrize(
    ("check", "reply", "expected"),
    [
        (neg(YES), "maybe", P),
        (neg(YES), "yes", F),
        (neg(YES), "\uff59\uff45\uff53", F),
        (neg(YES), "y\u200bes", F),
        (neg(YES), " ", F),
        (neg({**YES, "empty_ok": True}), " ", P),
        (neg(SHORT), "ja", U),
        (neg(JSON), '{"a": 2}', P),
        (neg(JSON), '{"b": 2}', F),
        (neg(JSON), "2", F),
        (neg({"type": "equals", "value": "don't"}), "don\u2019t", F),
        (neg({"type": "regex_match", "pattern": "(a+)+$"}), "a" * 5000 + "!", U),
        (neg(BROKEN), "yes", E),
        (neg({"type": "file_contains", "path": "a.txt", "value": "x"}), "yes", F),
        (neg({"type": "file_exists", "path": "a.txt"}), "yes", P),
        (neg({"type": "trajectory_contains_action", "action": "list_files"}), "yes", P),
        (neg({"type": "trajectory_contains_action", "action": "wipe"}), "yes", U),
        ({"any_of": [YES, NO]}, "yes", P),
        ({"any_of": [YES, NO]}, "maybe", F),
        ({"any_of": [YES, SHORT]}, "yes", P),
        ({"any_of": [NO, SHORT]}, "yes", U),
        ({"any_of": [YES, BROKEN]}, "yes", E),
        ({"any_of": [YES, JUDGED]}, "yes", P),
        ({"all_of": [YES, SHORT]}, "yes", U),
        ({"all_of": [NO, SHORT]}, "yes", F),
        ({"all_of": [YES, neg(NO)]}, "yes", P),
        ({"at_least": {"count": 2, "of": [YES, NO, neg(NO)]}}, "yes", P),
        ({"at_least": {"count": 2, "of": [YES, NO, SHORT]}}, "yes", U),
        ({"at_least": {"count": 3, "of": [YES, NO, SHORT]}}, "yes", F),
        ({"any_of": [YES, NO], "negate": True}, "maybe", P),
        ({"any_of": [YES, NO], "negate": True}, "no", F),
        ({"any_of": [YES, NO], "negate": True}, " ", F),
        ({"any_of": [YES, SHORT], "negate": True}, "ja", U),
        ({"any_of": [YES, JSON], "negate": True}, "2", F),
        ({"all_of": [YES, JSON], "negate": True}, "2", P),
        ({"all_of": [{"any_of": [YES, NO]}, neg(NO)]}, "yes", P),
    ],
)
async def test_three_values(tmp_path, monkeypatch, check, reply, expected):
    monkeypatch.chdir(tmp_path)
    found = await _check(tmp_path, check, reply)
    assert str(found.verdict) == expected, found.message


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"any_of": [YES]}, "expected a list of at least 2 checks"),
        ({"any_of": YES}, "expected a list of at least 2 checks, found a mapping"),
        ({"any_of": [YES, "no"]}, 'expected a check, found "no"'),
        ({"at_least": [YES, NO]}, "at_least: expected a mapping, found a list"),
        ({"at_least": {"count": 3, "of": [YES, NO]}}, "expected a whole number from 1 to 2, found 3"),
        ({"at_least": {"count": 0, "of": [YES, NO]}}, "expected a number of at least 1, found 0"),
        ({"any_of": [YES, NO], "type": "equals"}, "found both `any_of` and `type`; keep one"),
        ({"any_of": [YES, NO], "negat": True}, "unknown key `negat`; did you mean `negate`?"),
        ({"any_of": [YES, {**NO, "weight": 2}]}, "a check in a group has no `weight`"),
        ({"any_of": [YES, {"type": "equals", "vlue": "x"}]}, "unknown key `vlue`; did you mean `value`?"),
        ({"any_of": [YES, {"type": "equls", "value": "x"}]}, 'unknown evaluation type "equls"; did you mean `equals`?'),
        ({"any_of": [YES, {"type": "nothing_else", "judge_criterion": "x"}]}, "nothing_else cannot be in a group"),
        (neg({"type": "sequence", "rules": [{"never": "a"}]}), "sequence cannot be negated: each rule has its own"),
        (neg({"type": "llm_judge", "prompt": "x"}), "llm_judge cannot be negated: set `expected: no`"),
        (
            neg({"type": "trajectory_contains_action", "action": "a", "min_count": 1, "max_count": 2}),
            "too few and too many",
        ),
    ],
)
async def test_one_message_for_each_mistake(tmp_path, monkeypatch, check, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(steadyhand.FileError) as caught:
        await _check(tmp_path, check, "yes")
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "a.scenario.yaml:" in str(caught.value)
