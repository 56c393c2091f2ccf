"""What a run says it is testing."""

import pytest

from steadyhand.compose.run import Run
from steadyhand.compose.settings import under_test
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.run import Target
from support.project import AGENT, Project

AGENTS = ("model", "runtime")
MODELS = ("scripted/a.yaml", "scripted/b.yaml")
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


def several(project: Project) -> None:
    project.write("a.yaml", SCRIPT)
    project.write("b.yaml", SCRIPT)
    project.write("one.scenario.yaml", AGENT)
    project.write("two.scenario.yaml", AGENT.replace("id: one", "id: two"))


def test_every_combination_of_models_and_agents_is_a_target(project: Project):
    several(project)
    found = targets(models=("scripted/a.yaml", "scripted/b.yaml"), agents=("model", "runtime"))
    assert list(found)[:4] == [
        f"one[agent={agent},model=scripted/{model}.yaml]" for agent in ("model", "runtime") for model in "ab"
    ]
    assert [each.scenario for each in found.values()] == ["one"] * 4 + ["two"] * 4
    assert {(each.agent, each.model) for each in found.values()} == {
        (agent, f"scripted/{model}.yaml") for agent in ("model", "runtime") for model in "ab"
    }
    assert len({each.name for each in found.values()}) == 4


def test_a_filter_chooses_among_targets(project: Project):
    several(project)
    models = ("scripted/a.yaml", "scripted/b.yaml")
    assert list(targets(models=models, filters=("model=scripted/b.yaml",))) == [
        "one[model=scripted/b.yaml]",
        "two[model=scripted/b.yaml]",
    ]
    with pytest.raises(SetupError, match=r"model never has that value; its values are scripted/a.yaml, scripted/b"):
        targets(models=models, filters=("model=c",))


def test_what_a_matrix_sets_is_not_varied_again(project: Project):
    several(project)
    project.write(
        "m.matrix.yaml",
        "base_scenario: one.scenario.yaml\nmatrix:\n  - {parameter: model, values: [scripted/a.yaml]}\n",
    )
    models = ("scripted/a.yaml", "scripted/b.yaml")
    assert list(targets("m.matrix.yaml", "two.scenario.yaml", models=models)) == [
        "two[model=scripted/a.yaml]",
        "two[model=scripted/b.yaml]",
        "one[model=scripted/a.yaml]",
    ]
    with pytest.raises(SetupError, match="--model has no effect here"):
        targets("m.matrix.yaml", models=models)


def test_targets_of_a_combination_are_in_its_id(project: Project):
    several(project)
    project.write(
        "m.matrix.yaml",
        "base_scenario: one.scenario.yaml\nmatrix:\n  - {parameter: 'run[0].input', values: [Hi, Ho]}\n",
    )
    found = targets("m.matrix.yaml", agents=("model", "runtime"), model="scripted/a.yaml")
    assert list(found) == [f"one[run[0].input={word},agent={kind}]" for word in ("Hi", "Ho") for kind in AGENTS]
    assert {each.scenario for each in found.values()} == {"one"}


def test_a_service_fails_for_all_targets_alike(project: Project):
    several(project)
    run = Run(Selection(paths=("one.scenario.yaml",)), RunOptions(models=MODELS, trials=3))
    by_index: dict[int, set[int]] = {}
    for planned in run.planned:
        by_index.setdefault(planned.key.index, set()).add(planned.mock_seed)
    assert [len(seeds) for seeds in by_index.values()] == [1, 1, 1]
    assert len({planned.seed for planned in run.planned}) == 6


def test_a_target_is_part_of_the_fingerprint(project: Project):
    several(project)
    run = Run(Selection(paths=("one.scenario.yaml",)), RunOptions(models=MODELS))
    first, second = run.fingerprints().values()
    assert first["the scenario"] == second["the scenario"]
    assert first["the model"] != second["the model"]


def test_the_same_target_twice_is_a_mistake():
    assert under_test(["a/b"], []) == {"model": "a/b", "agent": None}
    assert under_test([], ["x", "y"]) == {"model": None, "agents": ("x", "y")}
    with pytest.raises(SetupError, match="--model a/b is given twice"):
        under_test(["a/b", "a/b"], [])
