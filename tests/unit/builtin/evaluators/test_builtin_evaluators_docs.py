"""The reference and the code agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from steadyhand.builtin.plugin import EVALUATORS

REFERENCE = Path(__file__).parents[4] / "docs" / "evaluators.md"
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", REFERENCE.read_text(), re.MULTILINE | re.DOTALL))
INVARIANTS = {"regex", "contains", "not_contains", "judge"}


@pytest.mark.parametrize("type_", sorted(EVALUATORS.keys() - INVARIANTS))
def test_every_parameter_and_default_is_in_the_reference(registry, type_):
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", SECTIONS[type_], re.MULTILINE))
    for field_name, field in registry.evaluator(type_).params.model_fields.items():
        name = field.alias or field_name
        if field.is_required():
            assert rows[name] == "required"
        elif isinstance(field.default, bool):
            assert rows[name] == f"`{str(field.default).lower()}`"
        elif isinstance(field.default, str | int | float):
            assert rows[name] == f"`{field.default}`"
        else:
            assert name in rows


@pytest.mark.parametrize("type_", sorted(EVALUATORS.keys() - INVARIANTS - {"latency_budget"}))
def test_every_example_loads(registry, type_):
    examples = re.findall(r"```yaml\n(.*?)```", SECTIONS[type_], re.DOTALL)
    assert examples
    beside = getattr(registry.evaluator(type_).params, "needs_beside", ())
    for written in (check for example in examples for check in yaml.safe_load(example)):
        found = written.pop("type")
        assert found in (type_, *beside)
        registry.evaluator(found).params.model_validate(written)
