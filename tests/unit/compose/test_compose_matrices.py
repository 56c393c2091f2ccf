"""The combinations of a matrix: which ones there are, which are chosen, and what an option must not override."""

from __future__ import annotations

import pytest

from steadyhand.compose.matrices import check_names, check_options, filter_combinations, run_matrices
from steadyhand.compose.run import Run
from steadyhand.errors import FileError, SetupError
from steadyhand.records.config import RunOptions, Selection
from support.project import AGENT, Project

MATRIX = """\
name: Models and words
base_scenario: base.yaml
matrix:
  - {parameter: model, values: [scripted/x.yaml, scripted/y.yaml]}
  - {parameter: "run[0].input", values: [Hello, Good morning]}
"""


@pytest.fixture
def matrix(project: Project) -> Project:
    project.write("base.yaml", AGENT + "agent: model\n")
    project.write("words.matrix.yaml", MATRIX)
    return project


def cells(scenarios) -> list[list[str]]:
    return [[setting.shown for setting in scenario.cell.settings] for scenario in scenarios]


ALL = [["scripted/x.yaml", "Hello"], ["scripted/x.yaml", "Good morning"],
       ["scripted/y.yaml", "Hello"], ["scripted/y.yaml", "Good morning"]]  # fmt: skip


def test_a_matrix_is_all_its_combinations_in_order(matrix):
    scenarios = matrix.load("words.matrix.yaml")
    assert cells(scenarios) == ALL
    assert len({scenario.id for scenario in scenarios}) == 4
    assert [scenario.steps[0].task.messages[-1].content for scenario in scenarios[:2]] == ["Hello", "Good morning"]
    assert [scenario.overrides["model"] for scenario in scenarios[1:3]] == ["scripted/x.yaml", "scripted/y.yaml"]


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        (["model=scripted/x.yaml"], ALL[:2]),
        (["run[0].input=Good morning"], [ALL[1], ALL[3]]),
        (["model=scripted/y.yaml", "run[0].input=Hello"], [ALL[2]]),
        (["model=scripted/x.yaml", "model=scripted/y.yaml"], ALL),
    ],
)
def test_filters_on_one_parameter_add_up_and_on_several_narrow(matrix, filters, chosen):
    assert cells(filter_combinations(matrix.load("words.matrix.yaml"), filters)) == chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model", "expected parameter=value"),
        ("colour=red", "no matrix varies 'colour'; varied parameters: model, "),
        ("model=scripted/z.yaml", "never has that value; its values are scripted/x.yaml, scripted/y.yaml"),
    ],
)
def test_a_filter_that_can_choose_nothing_is_an_error(matrix, text, message):
    with pytest.raises(SetupError, match=message):
        filter_combinations(matrix.load("words.matrix.yaml"), [text])


def test_a_filter_without_a_matrix_is_an_error(project):
    with pytest.raises(SetupError, match="no matrix was given"):
        filter_combinations([project.one()], ["model=x"])


def test_the_header_has_the_axes_and_where_each_combination_lies(matrix):
    scenarios = matrix.load("words.matrix.yaml")
    (found,) = run_matrices(scenarios[1:])
    assert found.name == "Models and words"
    assert [axis.values for axis in found.axes] == [("scripted/x.yaml", "scripted/y.yaml"), ("Good morning", "Hello")]
    assert list(found.combinations.values()) == [(0, 0), (1, 1), (1, 0)]


def test_a_name_that_leads_nowhere_is_reported_once_where_it_stands(matrix):
    matrix.write("words.matrix.yaml", MATRIX.replace("scripted/y.yaml", "nobody/model"))
    scenarios = matrix.load("words.matrix.yaml")
    (problem,) = check_names(scenarios, matrix.casts())
    assert (problem.place.line, problem.code) == (4, "unknown-name")
    assert "nobody" in problem.message
    with pytest.raises(FileError):
        Run(Selection(paths=("words.matrix.yaml",)), RunOptions())


def test_an_option_that_a_matrix_leaves_without_effect_is_an_error(matrix):
    with pytest.raises(SetupError, match=r"--model has no effect here: every combination sets model itself"):
        check_options(matrix.load("words.matrix.yaml"), RunOptions(model="scripted/x.yaml"))


@pytest.mark.parametrize(
    ("parameter", "values", "options", "named"),
    [
        ("environment.type", "[local, e2b]", {"environment": "local"}, "--environment"),
        ("character.llm.model", "[openai/a, openai/b]", {"model": "openai/c"}, "--model"),
    ],
)
def test_an_option_that_makes_all_values_of_an_axis_the_same_is_an_error(matrix, parameter, values, options, named):
    matrix.write("base.yaml", AGENT + "character: {name: Ada, llm: {model: openai/x}}\n")
    matrix.write(
        "words.matrix.yaml",
        f"name: m\nbase_scenario: base.yaml\nmatrix: [{{parameter: {parameter}, values: {values}}}]\n",
    )
    with pytest.raises(SetupError, match=f"{named} would override '{parameter}'"):
        check_options(matrix.load("words.matrix.yaml"), RunOptions(**options))


def test_two_matrices_with_the_same_combinations_are_an_error(matrix):
    matrix.write("again.matrix.yaml", MATRIX)
    with pytest.raises(FileError) as caught:
        matrix.load("words.matrix.yaml", "again.matrix.yaml")
    assert {problem.code for problem in caught.value.problems} == {"duplicate-id"}
