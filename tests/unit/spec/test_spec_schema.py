import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_spec_config import FULL
from test_spec_load import MATRIX, RUBRIC

import steadyhand
from steadyhand.cli.schema import known_schemas, schema_text
from steadyhand.spec.schema import DRAFT, json_schemas
from steadyhand.spec.yaml import parse


def test_all_five_are_valid_schemas_with_titles(catalogue):
    schemas = json_schemas(catalogue, ["local"])
    assert list(schemas) == ["agent", "decision", "matrix", "rubric", "configuration"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == DRAFT
        assert schema["title"]
        assert schema["description"]
        assert "^x-" in schema["patternProperties"]


def test_a_scenario_that_is_made_of_several_files_is_accepted(catalogue):
    validator = jsonschema.Draft202012Validator(json_schemas(catalogue, ["local"])["decision"])
    own = {
        "extends": "base.yaml",
        "+safety_invariants": [{"use": "a.yaml#b", "pattern": "x"}],
        "rubric": {"use": "a#b"},
    }
    assert validator.is_valid(own)
    for wrong in ({"+tags": "x"}, {"rubric": {"use": "a"}}, {"rubric": {"use": "a#b", "weight": 1}}):
        assert not validator.is_valid({**own, **wrong})
    assert not validator.is_valid({key: value for key, value in own.items() if key != "extends"})
    agent = jsonschema.Draft202012Validator(json_schemas(catalogue, ["local"])["agent"])
    step = {"input": "x", "evaluations": [{"use": "a#b"}, {"any_of": [{"use": "a#b"}, {"use": "a#c", "value": "x"}]}]}
    whole = {"extends": "b", "setup": {"mocks": [{"use": "a#b", "response": 1}]}, "run": [step]}
    agent.validate(whole)
    assert not agent.is_valid({**whole, "setup": {"mocks": [{"response": 1}]}})


@pytest.mark.parametrize(
    ("name", "data"),
    [("matrix", parse(MATRIX)[1]), ("rubric", parse(RUBRIC)[1]), ("configuration", tomllib.loads(FULL))],
)
def test_they_accept_what_is_right_and_refuse_unknown_keys(name, data, catalogue):
    validator = jsonschema.Draft202012Validator(json_schemas(catalogue, ["local"])[name])
    validator.validate(data)
    validator.validate({**data, "x-mine": 1})
    assert not validator.is_valid({**data, "unknown": 1})


def test_evaluations_are_told_apart_by_type(catalogue):
    schema = json_schemas(catalogue, ["local", "docker"])["agent"]
    definition = {"$ref": "#/$defs/Evaluation", "$defs": schema["$defs"]}
    validator = jsonschema.Draft202012Validator(definition)
    assert validator.is_valid({"type": "string_contains", "value": "x", "description": "d", "weight": 2, "x-a": 1})
    assert not validator.is_valid({"type": "string_contains", "pattern": "x"})
    assert validator.is_valid({"type": "of_a_plugin", "value": "x"}), "a plugin that the file names may bring it"
    assert schema["$defs"]["EnvironmentShape"]["properties"]["type"]["anyOf"][0]["enum"] == ["docker", "local"]


def _undescribed(schema: Any, path: str) -> Iterator[str]:
    """Every property without a description, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        for name, value in properties.items() if isinstance(properties, dict) else ():
            if not value.get("description"):
                yield f"{path}.{name}"
        for key, value in schema.items():
            yield from _undescribed(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from _undescribed(value, f"{path}/{number}")


def test_every_field_of_every_schema_is_described(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schemas = known_schemas()
    assert [found for name, schema in schemas.items() for found in _undescribed(schema, name)] == []
    assert sum(json.dumps(schema).count('"description"') for schema in schemas.values()) > 500


def test_the_shipped_schemas_are_those_of_the_shapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = Path(steadyhand.__file__).parent / "schemas"
    schemas = known_schemas()
    assert {file.name for file in shipped.iterdir()} == {f"{name}.schema.json" for name in schemas}
    for name, schema in schemas.items():
        text = (shipped / f"{name}.schema.json").read_text(encoding="utf-8")
        assert text == schema_text(schema), "run `make schemas`"
        assert "steadyhand schema --out-dir" in text
