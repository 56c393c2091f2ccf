"""What a run says is under test."""

from support.project import AGENT, Project

from steadyhand.compose.running import Run
from steadyhand.compose.settings import RunOptions, Selection
from steadyhand.records.run import Target

SCRIPT = "rules: [{content: hello}]\n"


def targets(*paths: str, filters: tuple[str, ...] = (), **options: object) -> dict[str, Target]:
    return Run(Selection(paths=paths or (".",), filters=filters), RunOptions(**options)).header.targets


def test_the_record_names_the_target_of_each_scenario(project: Project):
    project.write("a.yaml", SCRIPT)
    project.write("one.scenario.yaml", AGENT)
    assert targets("one.scenario.yaml", model="scripted/a.yaml") == {
        "one": Target(scenario="one", model="scripted/a.yaml", agent="runtime")
    }


def test_combinations_are_paired_by_what_a_matrix_sets_besides_model_and_agent(project: Project):
    project.write("a.yaml", SCRIPT)
    project.write("b.yaml", SCRIPT)
    project.write("one.scenario.yaml", AGENT)
    project.write(
        "m.matrix.yaml",
        "base_scenario: one.scenario.yaml\nmatrix:\n"
        "  - {parameter: model, values: [scripted/a.yaml, scripted/b.yaml]}\n"
        "  - {parameter: 'run[0].input', values: [Hi]}\n",
    )
    found = list(targets("m.matrix.yaml").values())
    assert [each.model for each in found] == ["scripted/a.yaml", "scripted/b.yaml"]
    assert {each.scenario for each in found} == {"one"}
    assert [each.cell for each in found] == [{"run[0].input": "Hi"}] * 2


def test_a_scenario_of_code_alone_has_no_target(project: Project):
    project.write("one.scenario.yaml", AGENT.replace("input: Hello", "code: echo hello"))
    (target,) = targets().values()
    assert target == Target(scenario="one")
    assert target.name == "no agent"
