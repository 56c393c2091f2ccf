"""Files, folders and globs; what each file is; ids; and what cannot be read at all."""

import gc
import json
import os
from pathlib import Path

import pytest

from steadyhand.records.location import Place
from steadyhand.spec.discovery import discover
from steadyhand.spec.load import given_document, load
from steadyhand.spec.yaml import read_document

AGENT = """\
name: {name}
description: d
environment: {{type: local}}
run: [{{input: hi}}]
judgment: {{strategy: all_pass}}
"""


def agent(name="a", **more):
    return AGENT.format(name=name) + "".join(f"{key}: {value}\n" for key, value in more.items())


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return tmp_path

    return write


def ids(*paths):
    loaded = load(paths, catalogue={})
    assert loaded.errors == ()
    return [scenario.id for scenario in loaded.scenarios]


def codes(*paths):
    return [problem.code for problem in load(paths, catalogue={}).errors]


def test_folders_are_walked_in_order_and_odd_ones_left_out(tree):
    tree(
        {
            "s/b.yaml": agent(),
            "s/a.scenario.yml": agent(),
            "s/deep/er/c.yaml": agent(),
            "s/.hidden/d.yaml": agent(),
            "s/.venv/e.yaml": agent(),
            "s/node_modules/f.yaml": agent(),
            "s/env/pyvenv.cfg": "",
            "s/env/g.yaml": agent(),
            "s/steadyhand.toml": "",
            "s/notes.txt": "run: x",
            "s/scripted.yaml": "name: script\nrules:\n  - reply: hi\n",
            "s/list.yaml": "- 1\n",
        }
    )
    assert ids("s") == ["a", "b", "c"]


def test_what_is_passed_over_in_a_folder_is_said(tree):
    tree(
        {
            "s/a.yaml": agent(),
            "s/k8s/1.yaml": "kind: Deployment\n",
            "s/k8s/2.yml": "- 1\n",
            "s/k8s/3.yaml": "kind: Service\n",
            "s/k8s/4.yaml": "kind: Ingress\n",
            "s/replies.yaml": "rules:\n  - reply: hi\n",
            "s/.b.scenario.yaml": agent(),
            "s/.travis.yml": "language: python\n",
            "s/c.scenario": agent(),
            "s/d.scenario.yaml.bak": agent(),
            "s/package.json": "{}",
            "elsewhere/e.yaml": agent(),
            "s/empty/readme.md": "",
        }
    )
    Path("s/linked").symlink_to(Path("elsewhere").absolute())
    Path("s/bare").symlink_to(Path("s/empty").absolute())
    loaded = load(["s"], catalogue={})
    assert ([each.id for each in loaded.scenarios], loaded.errors) == (["a"], ())
    assert loaded.notes == (
        "skipped 4 YAML files (not a scenario, matrix or rubric): s/k8s/1.yaml, s/k8s/2.yml, s/k8s/3.yaml and 1 more",
        "skipped 1 file (hidden): s/.b.scenario.yaml",
        "skipped 2 files (not named .yaml or .yml): s/c.scenario, s/d.scenario.yaml.bak",
        "skipped 1 folder (a link to a folder, which is not followed): s/linked",
    )
    assert load(["s/a.yaml"], catalogue={}).notes == ()


def test_globs_files_and_doubles(tree):
    tree({"s/a.yaml": agent(), "s/b.yaml": agent(), "s/deep/c.yaml": agent()})
    assert ids("s/*.yaml") == ["a", "b"]
    assert ids("s/**/*.yaml") == ["a", "b", "c"]
    assert ids("s/b.yaml", "s", "./s/a.yaml") == ["b", "a", "c"]


def test_paths_that_lead_to_no_scenario(tree):
    tree({"empty/readme.md": "", "other/values.yaml": "replicas: 2\n", "s/a.yaml": agent()})
    assert codes("nowhere.yaml") == ["missing-file"]
    assert codes("empty") == ["no-scenarios"]
    assert codes("other") == ["no-scenarios"]
    assert codes("*.none") == ["no-match"]
    loaded = load(["nowhere.yaml", "s"], catalogue={})
    assert [scenario.id for scenario in loaded.scenarios] == ["a"]
    assert str(loaded.errors[0]) == "nowhere.yaml: no such file or folder"


def test_a_named_file_of_no_known_format(tree):
    tree({"values.yaml": "replicas: 2\n", "list.yaml": "- 1\n"})
    (problem,) = load(["values.yaml"], catalogue={}).errors
    assert (problem.code, problem.place.line) == ("unknown-format", 1)
    for word in ("`run`", "`messages`", "`matrix`", "`dimensions`"):
        assert word in problem.message
    assert codes("list.yaml") == ["unknown-format"]


def test_a_misspelt_deciding_key_is_still_recognised(tree):
    tree({"s/a.yaml": agent().replace("run:", "runs:")})
    (problem,) = load(["s"], catalogue={}).errors
    assert problem.code == "unknown-key"
    assert "did you mean `run`?" in problem.message


@pytest.mark.parametrize("name", ["a.YAML", "a.Yml", "a.scenario.YML", "a.scenario.yaml", "a.scenario.json"])
@pytest.mark.parametrize("given", ["s", "s/*"])
def test_the_case_of_an_ending_hides_no_scenario(tree, name, given):
    tree({f"s/{name}": agent(), "s/b.yaml": agent()})
    assert sorted(ids(given)) == ["a", "b"]


@pytest.mark.parametrize("given", ["s", "s/*"])
@pytest.mark.parametrize("content", ["- 1\n", "name: a\nsteps: []\n", "just text\n"])
@pytest.mark.parametrize(
    "name", ["b.scenario.yaml", "b.scenario.yml", "b.Scenario.YAML", "b.matrix.yaml", "b.scenario.json"]
)
def test_a_file_named_like_a_scenario_that_is_not_one_is_an_error(tree, name, content, given):
    tree({"s/a.yaml": agent(), f"s/{name}": content})
    assert codes(given) == ["unknown-format"]


@pytest.mark.parametrize("given", ["s", "s/*"])
@pytest.mark.parametrize(
    ("content", "right"),
    [
        ("name: a\nruns: [{input: hi}]\n", "run"),
        ("name: a\nRun:\n  - code: ls\n", "run"),
        ("id: a\nmesages: [{role: user, content: hi}]\n", "messages"),
        ("id: a\nmessage: [{role: user, contents: hi}]\n", "messages"),
    ],
)
def test_a_misspelt_run_or_messages_in_a_folder_is_an_error(tree, content, right, given):
    tree({"s/a.yaml": agent(), "s/b.yaml": content})
    (problem,) = load([given], catalogue={}).errors
    assert (problem.code, problem.place.file, problem.place.line) == ("unknown-key", "s/b.yaml", 2)
    assert f"did you mean `{right}`?" in problem.message


def test_files_of_other_tools_are_passed_over_unless_their_ending_is_odd(tree):
    tree(
        {
            "s/a.yaml": agent(),
            "s/action.yml": "name: x\nruns: {using: composite}\n",
            "s/kustomization.yaml": "images:\n  - {name: nginx, newTag: '1'}\n",
            "s/workflow.yaml": "name: ci\non: [push]\njobs: {}\n",
            "s/VALUES.YAML": "replicas: 2\n",
        }
    )
    loaded = load(["s"], catalogue={})
    assert [(problem.place.file, problem.code) for problem in loaded.errors] == [("s/VALUES.YAML", "unknown-format")]


def test_absolute_paths_below_here_are_shown_relative(tree):
    root = tree({"s/a.yaml": agent()})
    (scenario,) = load([root / "s"], catalogue={}).scenarios
    assert scenario.place == Place(file="s/a.yaml", line=1, column=1)


def test_made_up_ids_that_collide_get_their_folder(tree):
    tree({"x/same.yaml": agent(), "y/same.scenario.yaml": agent(), "y/z/Other One.yaml": agent()})
    assert ids(".") == ["x-same", "y-same", "other-one"]


def test_made_up_ids_give_way_to_written_ones(tree):
    tree({"x/same.yaml": agent(id="same"), "y/same.yaml": agent()})
    assert ids(".") == ["same", "y-same"]


def test_made_up_ids_that_folders_cannot_tell_apart(tree):
    tree({"x/same.yaml": agent(), "x/same.scenario.yaml": agent()})
    (problem,) = load(["x"], catalogue={}).errors
    assert problem.code == "duplicate-id"
    assert "give one of them an `id`" in problem.message


def test_written_ids_that_collide_name_both_places(tree):
    tree({"x/a.yaml": agent(id="same"), "y/b.yaml": agent(id="same"), "z/c.yaml": "run: 1\n"})
    loaded = load(["."], catalogue={})
    first = loaded.errors[0]
    assert str(first).startswith("y/b.yaml:6:5: id: id `same` is already used at x/a.yaml:6:5")
    assert first.code == "duplicate-id"
    assert loaded.errors[-1].place.file == "z/c.yaml"


def test_unreadable_content(load_text):
    table = {
        b"a: \xff\n": ("not-utf8", 1, 4),
        b"a: 1\nb: \xe4\n": ("not-utf8", 2, 4),
        b"\x89PNG\0": ("not-text", 1, 5),
        b"": ("empty-file", 1, 1),
        b"a: " + b"x" * (1 << 20): ("too-large", 0, 0),
        b"[" * 5_000_000: ("too-large", 0, 0),
        b"[" * 1_000_000: ("too-deep", 1, 64),
        b"- " * 500_000: ("too-deep", 1, 127),
        b"run: [" + b"{a: " * 200_000: ("too-deep", 1, 251),
    }
    found = {}
    for content in table:
        (problem,) = load_text(content).problems
        found[content] = (problem.code, problem.place.line, problem.place.column)
    assert found == table


def test_a_byte_order_mark_is_left_out(load_text):
    assert len(load_text("\ufeff" + agent()).scenarios) == 1


def test_unreadable_file(tree, tmp_path):
    tree({"a.yaml": agent()})
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    assert codes("gone.yaml") == ["missing-file"]
    assert codes("pipe.yaml") == ["unreadable"]
    assert codes(".") == ["unreadable", "unreadable"]


def test_the_collector_is_put_back(load_text):
    assert gc.isenabled()
    load_text(agent())
    assert gc.isenabled()


MATRIX = """\
name: Temperatures
base_scenario: ../base.yaml
runs_per_combination: 3
matrix:
  - parameter: character.llm.temperature
    values: [0, 0.5]
  - parameter: run[0].input
    values: ["hi", "ho"]
"""


def test_matrix(tree):
    tree({"base.yaml": agent(), "m/m.yaml": MATRIX})
    loaded = load(["m"], catalogue={})
    assert loaded.problems == ()
    (matrix,) = loaded.matrices
    assert (matrix.name, matrix.base_scenarios, matrix.runs_per_combination) == ("Temperatures", ("base.yaml",), 3)
    assert [(axis.parameter, axis.values, axis.place.line) for axis in matrix.axes] == [
        ("character.llm.temperature", (0, 0.5), 5),
        ("run[0].input", ("hi", "ho"), 7),
    ]


def test_matrix_mistakes(load_text):
    text = (
        MATRIX.replace("3\n", "0\n").replace('["hi", "ho"]', "[]").replace("run[0].input", "character.llm.temperature")
    )
    loaded = load_text(text)
    assert [(problem.place.line, problem.code) for problem in loaded.problems] == [
        (2, "missing-file"),
        (3, "out-of-range"),
        (7, "duplicate-parameter"),
        (8, "out-of-range"),
    ]


RUBRIC = """\
name: rubric_clinical
dimensions:
  - name: accuracy
    weight: 0.6
    description: Is it right?
    anchors:
      1.0: right
      0: wrong
  - name: clarity
    weight: 0.4
    description: Is it clear?
    anchors: {0.5: so so}
"""


def test_rubric(load_text):
    (rubric,) = load_text(RUBRIC).rubrics
    assert rubric.name == "rubric_clinical"
    assert [(anchor.score, anchor.text) for anchor in rubric.dimensions[0].anchors] == [(0, "wrong"), (1, "right")]
    assert sum(dimension.weight for dimension in rubric.dimensions) == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        ("weight: 0.4", "weight: 0.5", 2, "out-of-range"),
        ("weight: 0.4", "weight: 1.4", 10, "out-of-range"),
        ("1.0: right", "1.1: right", 7, "out-of-range"),
        ("1.0: right", "best: right", 7, "out-of-range"),
        ("1.0: right", "0.0: right", 8, "duplicate-key"),
        ("name: clarity", "name: accuracy", 9, "duplicate-name"),
        ("    description: Is it clear?\n", "", 9, "missing-key"),
    ],
)
def test_rubric_mistakes(old, new, line, code, load_text):
    loaded = load_text(RUBRIC.replace(old, new))
    assert [(problem.place.line, problem.code) for problem in loaded.problems] == [(line, code)]


def test_public_rubrics_load(load_text):
    """They have a version, a domain and failure classes, and some dimensions have no anchors."""
    public = RUBRIC.replace("    anchors: {0.5: so so}\n", "").replace(
        "dimensions:", 'version: "1.0"\ndomain: clinical\ndescription: d\ndimensions:'
    )
    loaded = load_text(f"{public}failure_classes:\n  A: {{name: Critical, trigger: safety_score < 0.25}}\n")
    assert loaded.problems == ()
    (rubric,) = loaded.rubrics
    assert (rubric.version, rubric.domain) == ("1.0", "clinical")
    assert [len(dimension.anchors) for dimension in rubric.dimensions] == [2, 0]
    (plain,) = load_text(public.replace('"1.0"', "2") + "failure_classes: [A, B]\n").rubrics
    assert plain.version == "2"


def test_weights_may_be_off_by_rounding(load_text):
    assert load_text(RUBRIC.replace("0.4", "0.4009")).problems == ()


def test_digest_follows_the_content(load_text):
    first = load_text(agent()).scenarios[0].digest
    assert load_text(agent()).scenarios[0].digest == first
    assert load_text(agent("b")).scenarios[0].digest != first


def test_json_is_yaml(load_text):
    data = {"name": "a", "description": "d", "environment": {"type": "local"}, "run": [{"code": "ls"}]}
    text = json.dumps({**data, "judgment": {"strategy": "any_pass"}})
    assert load_text(text).scenarios[0].judgment.strategy == "any_pass"


def test_environments_come_from_outside(tree):
    tree({"a.yaml": agent().replace("local", "docker")})
    assert load(["a.yaml"], catalogue={}, environments=["docker"]).errors == ()
    assert load(["a.yaml"], catalogue={}).errors == ()
    (problem,) = load(["a.yaml"], catalogue={}, environments=["e2b"]).errors
    assert problem.code == "bad-value"


@pytest.mark.parametrize("kind", ["pipe", "loop", "nowhere"])
def test_something_other_than_a_file_is_reported_and_hides_nothing(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "odd.yaml"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(odd if kind == "loop" else tmp_path / "gone.yaml")
    found, problems, _ = discover(["."])
    assert (problems, [each.file for each in found]) == ([], ["odd.yaml"])
    document, (problem,) = read_document(found[0].path, found[0].file)
    assert document is None
    assert problem.code == "unreadable"
    assert {"pipe": "pipe or device", "loop": "symbolic links", "nowhere": "No such file"}[kind] in problem.message


def test_half_a_character_in_data_from_python_is_one_clear_error():
    for value in ({"a": ["\ud83d"]}, {"a": [{"\ud83d": 1}]}):
        document, problems = given_document(value, "given")
        assert document is None
        assert [problem.message for problem in problems] == [
            "found half a surrogate pair, '\\ud83d'; expected whole characters"
        ]
        assert problems[0].place.path == "a[0]"
