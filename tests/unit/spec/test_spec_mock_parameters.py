"""What a mock says about its parameters is checked at load time: agents are shown it as it is."""

import pytest

from steadyhand.errors import FileError
from support.project import Project

SCENARIO = """\
name: One
description: It answers.
environment: {{type: local}}
setup:
  mocks: [{{service: shop, method: look, response: 1, description: Looks., parameters: {parameters}}}]
run: [{{input: Hello, evaluations: [{{type: string_contains, value: hello}}]}}]
judgment: {{strategy: all_pass}}
"""


def test_a_schema_and_a_description_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parameters = "{type: object, properties: {n: {type: integer}}}"
    (mock,) = Project(tmp_path).one(SCENARIO.format(parameters=parameters)).setup.mocks
    assert mock.description == "Looks."
    assert mock.parameters == {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("{type: objekt}", "expected a JSON Schema"),
        ("{type: string}", "a JSON Schema of an object"),
        ("{type: object, properties: {x: {pattern: 'a{99999999}'}}}", "bad regular expression .*too large"),
        ("{type: object, anyOf: [{patternProperties: {'(a{999}){999}': {}}}]}", "bad regular expression .*too large"),
    ],
)
def test_a_schema_of_anything_but_an_object_is_an_error(tmp_path, monkeypatch, parameters, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=said) as error:
        Project(tmp_path).one(SCENARIO.format(parameters=parameters))
    assert "setup.mocks[0].parameters" in str(error.value)
