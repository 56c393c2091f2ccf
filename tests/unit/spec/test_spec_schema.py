import tomllib

import jsonschema
import pytest
from test_spec_config import FULL
from test_spec_load import MATRIX, RUBRIC

from steadyhand.spec.schema import DRAFT, json_schemas
from steadyhand.spec.yaml import parse


def test_all_five_are_valid_schemas_with_titles(catalogue):
    schemas = json_schemas(catalogue)
    assert list(schemas) == ["agent", "decision", "matrix", "rubric", "configuration"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == DRAFT
        assert schema["title"]
        assert schema["description"]
        assert schema["patternProperties"] == {"^x-": {}}


@pytest.mark.parametrize(
    ("name", "data"),
    [("matrix", parse(MATRIX)[1]), ("rubric", parse(RUBRIC)[1]), ("configuration", tomllib.loads(FULL))],
)
def test_they_accept_what_is_right_and_refuse_unknown_keys(name, data, catalogue):
    validator = jsonschema.Draft202012Validator(json_schemas(catalogue)[name])
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
