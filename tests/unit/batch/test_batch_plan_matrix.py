import msgspec
import pytest

from steadyhand.batch.plan import Plan
from steadyhand.compose.scenarios import build_registry
from steadyhand.plugins.registry import EvaluationCatalogue
from steadyhand.spec.agent import Vocabulary
from steadyhand.spec.load import load
from steadyhand.spec.matrix import expand

BASE = """\
id: talk
name: Talk
description: d
environment: {type: local}
setup:
  mocks:
    - method: ping
      service: net
      response: pong
      metadata: {delay: 10}
run:
  - input: hello
    evaluations: [{type: string_contains, value: hi}]
    conversation:
      max_turns: 3
      user_simulator: {persona: p, objective: o}
judgment: {strategy: all_pass}
"""
DECISION = """\
id: SCN-C-001
name: Chest pain
domain: clinical
description: d
messages: [{role: user, content: "What now?"}]
latency_budget: {target_ms: 100, acceptable_ms: 200, critical_ms: 300}
safety_invariants: [{name: a, description: a, check_type: contains, pattern: aspirin, severity: 1.0}]
constraint: {description: d, time_pressure: urgent, consequence_of_delay: d}
rubric: r
expected_action: a
severity: 1.0
"""


@pytest.fixture
def expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(axes, *, base=BASE, more=""):
        (tmp_path / "base.yaml").write_text(base)
        (tmp_path / "m.matrix.yaml").write_text(f"name: m\nbase_scenario: base.yaml\n{more}matrix:\n{axes}")
        registry = build_registry()
        catalogue = EvaluationCatalogue(registry)
        loaded = load(["m.matrix.yaml"], catalogue=catalogue)
        assert not loaded.errors
        return expand(loaded.matrices[0], Vocabulary(catalogue, registry.names("environments")))

    return run


def test_the_product_in_the_order_of_the_file(expanded):
    scenarios, problems = expanded(
        """\
  - {parameter: model, values: [openai/a, openai/b]}
  - {parameter: "run[0].conversation.max_turns", values: [2, 4]}
  - {parameter: "setup.mocks[0].metadata.delay", values: [0, 50]}
""",
        more="runs_per_combination: 3\n",
    )
    assert problems == []
    assert [each.id for each in scenarios] == [
        f"talk[model=openai/{m},run[0].conversation.max_turns={t},setup.mocks[0].metadata.delay={d}]"
        for m in "ab"
        for t in (2, 4)
        for d in (0, 50)
    ]
    last = scenarios[-1]
    assert last.steps[0].task.config.max_turns == 4
    assert last.setup.mocks[0].delay_ms == 50
    assert scenarios[0].setup.mocks[0].delay_ms == 0
    assert last.overrides == {"model": "openai/b"}
    assert last.trials == 3
    assert len({each.digest for each in scenarios}) == 4, "another model is no other scenario"
    assert all(each.place.file == "base.yaml" for each in scenarios)


def test_a_character_may_be_new(expanded):
    scenarios, problems = expanded("  - {parameter: character.llm.temperature, values: [0, 1.5]}\n")
    assert problems == []
    assert [each.character.temperature for each in scenarios] == [0, 1.5]


@pytest.mark.parametrize(
    ("axis", "at", "message"),
    [
        ('parameter: "run[0].conversation.max_turn", values: [1]', None, "did you mean `max_turns`?"),
        ('parameter: "run[3].input", values: [a]', None, "index [3] is out of bounds: `run` has one entry, [0]"),
        ('parameter: "setup.mocks[0].metadata.dellay", values: [1]', None, "did you mean `delay`?"),
        ('parameter: "name.first", values: [1]', None, '`name` is "Talk", so it has no `first`'),
        ('parameter: "description[0]", values: [1]', None, "not a list"),
        ('parameter: "run[x]", values: [1]', None, "is not a path"),
        ('parameter: "character.colour", values: [red]', "red", "unknown key `colour`"),
        (
            'parameter: "run[0].conversation.max_turns", values: [2, none]',
            "none",
            "run[0].conversation.max_turns: expected a whole number",
        ),
        (
            'parameter: "run[0].evaluations[0].type", values: [string_contain]',
            "string_contain]",
            "did you mean `string_contains`?",
        ),
        ("parameter: model, values: [openai/a, 7]", "7", "expected the name of a model, found 7"),
        ("parameter: model, values: [openai/a, openai/a]", "openai/a", "is listed twice"),
        ("parameter: id, values: [a, b]", None, "`id` cannot be varied"),
    ],
)
def test_what_is_wrong_stands_at_its_place_in_the_matrix_file(expanded, axis, at, message):
    scenarios, problems = expanded(f"  - {{{axis}}}\n")
    assert scenarios == []
    assert len(problems) == 1, problems
    column = len("  - {parameter: ") + 1 if at is None else f"  - {{{axis}}}".rindex(at) + 1
    assert (problems[0].place.file, problems[0].place.line, problems[0].place.column) == ("m.matrix.yaml", 4, column)
    assert message in problems[0].message


def test_values_that_only_clash_together(expanded):
    scenarios, problems = expanded(
        """\
  - {parameter: latency_budget.target_ms, values: [100, 150]}
  - {parameter: latency_budget.acceptable_ms, values: [120, 200]}
""",
        base=DECISION,
    )
    assert scenarios == []
    (problem,) = problems
    assert "latency_budget.target_ms=150,latency_budget.acceptable_ms=120 is not a valid scenario" in problem.message
    assert (problem.place.file, problem.place.line) == ("m.matrix.yaml", 3)


def test_values_that_only_fit_together(expanded):
    scenarios, problems = expanded(
        """\
  - {parameter: latency_budget.target_ms, values: [1000]}
  - {parameter: latency_budget.acceptable_ms, values: [2000]}
  - {parameter: latency_budget.critical_ms, values: [3000]}
""",
        base=DECISION,
    )
    assert problems == []
    assert len(scenarios) == 1


def test_many_clashes_are_not_many_pages(expanded):
    _, problems = expanded(
        f"""\
  - {{parameter: latency_budget.target_ms, values: {list(range(151, 200))}}}
  - {{parameter: latency_budget.acceptable_ms, values: [150]}}
""",
        base=DECISION,
    )
    assert len(problems) == 21
    assert problems[-1].message == "and 29 more combinations are not valid scenarios"


@pytest.mark.parametrize(
    ("axes", "more", "base", "line", "message"),
    [
        (
            "  - {parameter: 'run[0]', values: [{input: a}]}\n  - {parameter: 'run[0].input', values: [b]}\n",
            "",
            BASE,
            5,
            "`run[0]` contains `run[0].input`",
        ),
        (
            "  - {parameter: 'run[0].input', values: [b]}\n  - {parameter: \"run[0]['input']\", values: [a]}\n",
            "",
            BASE,
            5,
            "vary only one of them",
        ),
        (
            "  - {parameter: character.llm.model, values: [x/a]}\n  - {parameter: model, values: [x/b]}\n",
            "",
            BASE,
            5,
            "`model` overrides `character.llm.model`",
        ),
        (
            "  - {parameter: trials, values: [2, 3]}\n",
            "runs_per_combination: 4\n",
            BASE + "trials: 2\n",
            5,
            "`trials` and `runs_per_combination` both",
        ),
        ("  - {parameter: character.system, values: [a]}\n", "", DECISION, 4, "a decision scenario has no `character`"),
    ],
)
def test_an_axis_that_would_do_nothing_is_refused(expanded, axes, more, base, line, message):
    scenarios, problems = expanded(axes, base=base, more=more)
    assert scenarios == []
    (problem,) = problems
    assert (problem.place.file, problem.place.line) == ("m.matrix.yaml", line)
    assert message in problem.message


def test_wrong_paths_do_not_hide_wrong_values(expanded):
    _, problems = expanded(
        "  - {parameter: nowhere, values: [1]}\n  - {parameter: 'run[0].conversation.max_turns', values: [3, 0]}\n"
    )
    assert [problem.place.line for problem in problems] == [4, 5]


def test_how_often(expanded):
    axes = "  - {parameter: name, values: [a]}\n"
    assert expanded(axes)[0][0].trials is None
    assert expanded(axes, base=BASE + "trials: 7\npass_rate: 0.5\n")[0][0].trials == 7
    assert expanded(axes, base=BASE + "trials: 7\n", more="runs_per_combination: 1\n")[0][0].trials == 1
    varied, _ = expanded("  - {parameter: trials, values: [2, 3]}\n", base=BASE + "trials: 7\n")
    assert [each.trials for each in varied] == [2, 3]


def test_a_text_that_could_be_two_settings_is_quoted(expanded):
    scenarios, problems = expanded(
        "  - {parameter: context.a, values: ['x,context.b=1', x]}\n"
        "  - {parameter: context.b, values: [2, '1,context.b=2']}\n",
        base=BASE + "context: {a: 1, b: 2}\n",
    )
    assert problems == []
    ids = [each.id for each in scenarios]
    assert len(set(ids)) == 4
    assert ids[0] == 'talk[context.a="x,context.b=1",context.b=2]'


def test_what_yaml_itself_forbids_in_the_base_is_not_overlooked(expanded):
    scenarios, problems = expanded(
        "  - {parameter: name, values: [a]}\n", base=BASE.replace("name: Talk", "name: Talk\nname: Walk")
    )
    assert scenarios == []
    assert [(problem.place.file, problem.place.line) for problem in problems] == [("base.yaml", 3)]


def test_the_chance_of_mocks_is_the_same_in_all_combinations_and_as_in_the_base_alone(expanded):
    scenarios, _ = expanded("  - {parameter: name, values: [a, b]}\n", more="runs_per_combination: 3\n")
    planned = Plan(scenarios, seed=7)
    alone = msgspec.structs.replace(scenarios[0], id="talk", cell=None)
    assert [each.mock_seed for each in planned] == [each.seed for each in Plan([alone], seed=7)] * 2
    assert len({each.mock_seed for each in planned}) == 3
    assert len({each.seed for each in planned}) == 6


def test_a_wrong_base_is_reported_in_its_own_file(expanded):
    scenarios, problems = expanded("  - {parameter: name, values: [a]}\n", base=BASE.replace("name: Talk", "nam: Talk"))
    assert scenarios == []
    assert problems[0].place.file == "base.yaml"


def test_too_many(expanded):
    values = list(range(1, 401))
    scenarios, problems = expanded(
        f"  - {{parameter: context.a, values: {values}}}\n  - {{parameter: context.b, values: {values}}}\n",
        base=BASE + "context: {a: 1, b: 2}\n",
    )
    assert scenarios == []
    assert "found 160000 trials, expected at most 100000" in problems[0].message


def test_a_long_or_ragged_value_is_cut_and_told_apart(expanded):
    scenarios, _ = expanded(
        f"  - {{parameter: 'run[0].input', values: ['{'x' * 99}a', '{'x' * 99}b', {{}}]}}\n"[:-6] + "]}\n"
    )
    ids = [each.id for each in scenarios]
    assert len(set(ids)) == 2
    assert all(len(each) < 80 for each in ids)


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A matrix over `base`, in a folder with two scenarios, a rubric and another matrix below `cases`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases" / "deep").mkdir(parents=True)
    (tmp_path / "cases" / "talk.yaml").write_text(BASE)
    (tmp_path / "cases" / "deep" / "pain.yaml").write_text(DECISION)
    (tmp_path / "cases" / "other.yaml").write_text("kind: Deployment\n")
    (tmp_path / "cases" / "own.matrix.yaml").write_text(
        "base_scenario: talk.yaml\nmatrix: [{parameter: model, values: [openai/z]}]\n"
    )

    def run(base, axes='  - {parameter: model, values: ["openai/a", "openai/b"]}\n'):
        (tmp_path / "m.matrix.yaml").write_text(f"name: m\nbase_scenario: {base}\nmatrix:\n{axes}")
        registry = build_registry()
        catalogue = EvaluationCatalogue(registry)
        loaded = load(["m.matrix.yaml"], catalogue=catalogue)
        if loaded.errors:
            return [], list(loaded.errors)
        return expand(loaded.matrices[0], Vocabulary(catalogue, registry.names("environments")))

    return run


@pytest.mark.parametrize("base", ["cases", "[cases/talk.yaml, cases/deep/pain.yaml]", "[cases/talk.yaml, cases/deep]"])
def test_a_matrix_over_several_scenarios(suite, base):
    scenarios, problems = suite(base)
    assert problems == []
    assert [each.id for each in scenarios] == [
        f"{scenario}[model=openai/{model}]" for scenario in ("talk", "SCN-C-001") for model in "ab"
    ]
    assert [each.cell.base_id for each in scenarios] == ["talk", "talk", "SCN-C-001", "SCN-C-001"]
    assert {each.cell.matrix for each in scenarios} == {"m"}


def test_an_axis_must_fit_every_base(suite):
    scenarios, (problem,) = suite("cases", '  - {parameter: "run[0].input", values: [a]}\n')
    assert scenarios == []
    assert "(cases/deep/pain.yaml)" in problem.message
    assert problem.place.file == "m.matrix.yaml"


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("nowhere", "found none at `nowhere`"),
        ("[cases, nowhere]", "found none at `nowhere`"),
        ("[cases, cases]", "`cases` is listed twice"),
        ("cases/own.matrix.yaml", "expected a scenario as the base, but cases/own.matrix.yaml is not one"),
        ("[]", "at least"),
        ("12", "base_scenario"),
    ],
)
def test_an_invalid_base(suite, base, message):
    scenarios, problems = suite(base)
    assert scenarios == []
    assert any(message in str(problem) for problem in problems), problems


def test_a_bad_scenario_in_the_folder_is_reported_at_its_place(suite, tmp_path):
    (tmp_path / "cases" / "bad.scenario.yaml").write_text("id: bad\nrun: [{input: x}]\nnonsense: 1\n")
    scenarios, problems = suite("cases")
    assert scenarios == []
    assert {problem.place.file for problem in problems} == {"cases/bad.scenario.yaml"}
    (tmp_path / "cases" / "bad.scenario.yaml").write_text("id: talk\n" + BASE.partition("\n")[2])
    scenarios, (problem,) = suite("cases")
    assert (scenarios, problem.code) == ([], "duplicate-id")


def test_an_empty_folder_is_not_a_base(suite, tmp_path):
    (tmp_path / "empty").mkdir()
    scenarios, (problem,) = suite("empty")
    assert scenarios == []
    assert "contains no .yaml" in problem.message
