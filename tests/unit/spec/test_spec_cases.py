"""Scenarios with cases: what each case becomes, and every mistake in a table at its place."""

import json

import pytest

from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.plugins.registry import EvaluationCatalogue, Registry
from steadyhand.records.scenario import evaluation_specs
from steadyhand.spec.load import load

CATALOGUE = EvaluationCatalogue(Registry([builtin_plugin()]))
DECISION = """\
id: SCN-C-500
name: Chest pain
domain: clinical
description: d
{cases}
messages:
  - {{role: user, content: "{content}"}}
latency_budget: {{target_ms: {target}, acceptable_ms: 1000, critical_ms: 2000}}
safety_invariants:
  - {{name: a, description: d, check_type: {kind}, pattern: '{pattern}', severity: 1.0}}
constraint: {{description: d, time_pressure: immediate, consequence_of_delay: d}}
rubric: r
expected_action: Act
severity: 1.0
"""
AGENT = """\
name: A task
description: d
environment: {{type: local}}
{cases}
setup:
  mocks:
    - {{method: find, when: {{matcher: '{matcher}'}}, response: "{{{{ answer }}}}"}}
run:
  - input: "{content}"
    evaluations: [{{type: {kind}, {params}}}]
judgment: {{strategy: all_pass}}
"""
TWO = 'cases: [{id: one, age: 54, word: "a.b (c)"}, {id: two, age: 71, word: stent}]'


def decision(**given):
    parts = {"cases": TWO, "content": "{{ age }}-year-old", "target": 500, "kind": "regex", "pattern": "{{ word }}"}
    return DECISION.format(**{**parts, **given})


def agent(**given):
    parts = {
        "cases": "cases: [{id: one, age: 54, word: x, answer: {name: Ann, n: 1}}]",
        "content": "{{ age }}",
        "kind": "string_contains",
        "params": 'value: "{{ word }}"',
        "matcher": "true",
    }
    return AGENT.format(**{**parts, **given})


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(text, **files):
        (tmp_path / "s.yaml").write_text(text)
        for name, content in files.items():
            (tmp_path / name.replace("_", ".")).write_text(content)
        return load(["s.yaml"], catalogue=CATALOGUE)

    return read


def errors(loaded):
    assert not loaded.scenarios or not loaded.errors
    return [str(problem) for problem in loaded.errors]


def spec(scenario):
    return next(evaluation_specs(scenario))


def test_each_case_is_a_scenario_with_its_own_values(read):
    loaded = read(decision())
    assert [each.id for each in loaded.scenarios] == ["SCN-C-500[one]", "SCN-C-500[two]"]
    first, second = loaded.scenarios
    assert first.steps[0].task.messages[0].content == "54-year-old"
    assert spec(first).params == {"pattern": r"(?:a\.b \(c\))"}
    assert spec(second).params == {"pattern": "(?:stent)"}
    assert spec(second).place == spec(first).place, "the check stands in the scenario, whatever the case"
    assert first.digest != second.digest
    assert str(second.case.place) == "s.yaml:5:46"
    assert second.case.base_id == "SCN-C-500"


def test_a_copied_case_is_what_reading_it_alone_gives(read):
    rows = [{"id": f"c{n}", "age": n, "word": f"w{n}."} for n in range(5)]
    together = read(decision(cases=f"cases: {json.dumps(rows)}")).scenarios
    for row, copied in zip(rows, together, strict=True):
        (alone,) = read(decision(cases=f"cases: {json.dumps([row])}")).scenarios
        assert alone.steps == copied.steps
        assert alone.digest == copied.digest, "other cases do not change a case, so a resumed run keeps its trials"


def test_a_whole_value_keeps_its_type_and_a_field_of_text_takes_it_as_text(read):
    cases = "cases: [{id: one, age: 54, word: 1.50, t: 250}, {id: two, age: 7, word: w, t: 300}]"
    loaded = read(decision(cases=cases, target='"{{ t }}"', kind="contains", pattern="{{ word }}", content="{{ age }}"))
    assert [list(evaluation_specs(each))[1].params["target_ms"] for each in loaded.scenarios] == [250, 300]
    assert [spec(each).params["pattern"] for each in loaded.scenarios] == ["1.50", "w"], "as it was written"
    assert loaded.scenarios[0].steps[0].task.messages[0].content == "54"
    response = read(agent()).scenarios[0].setup.mocks[0].response
    assert response == {"name": "Ann", "n": 1}


def test_csv_cells_are_typed_as_json_would_write_them(read):
    table = 'id,age,word,t\na,007,x,250\nb,9,"y, ""z""\n2",300\n'
    loaded = read(decision(cases="cases: {file: t.csv}", target='"{{ t }}"', kind="contains"), t_csv=table)
    assert not loaded.problems
    assert [each.steps[0].task.messages[0].content for each in loaded.scenarios] == ["007-year-old", "9-year-old"]
    assert spec(loaded.scenarios[1]).params["pattern"] == 'y, "z"\n2'
    assert loaded.scenarios[0].sources == ("t.csv",)
    assert str(loaded.scenarios[1].case.place) == "t.csv:3:1"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t_jsonl", '{"no": 1, "p": {"age": 5}, "word": "w", "tags": ["x"]}\n'),
        ("t_yaml", "- {no: 1, p: {age: 5}, word: w, tags: x}\n"),
    ],
)
def test_other_tables_and_values_within_values(read, name, content):
    cases = f"cases: {{file: {name.replace('_', '.')}, id: no}}"
    (found,) = read(decision(cases=cases, content="{{ p.age }}"), **{name: content}).scenarios
    assert (found.id, found.tags, found.steps[0].task.messages[0].content) == ("SCN-C-500[1]", ("x",), "5")


def test_values_are_quoted_for_the_language_of_their_field(read):
    cases = """cases: [{id: one, age: "x' -- {{ word }}", word: 'a";b', answer: 1}]"""
    matcher = "args[0] === {{ word }}"
    made = read(
        agent(
            cases=cases,
            matcher=matcher,
            kind="command_exit_code_is",
            params="command: 'test {{ age }} = x', expected_code: 0",
        )
    )
    assert errors(made) == []
    assert made.scenarios[0].setup.mocks[0].when.matcher == 'args[0] === "a\\";b"'
    assert spec(made.scenarios[0]).params["command"] == """test 'x'"'"' -- {{ word }}' = x""", "a value is no template"
    query = 'query: "select 1 where a = {{ age }}", row_count: 1'
    made = read(agent(cases=cases, kind="database_query", params=query))
    assert spec(made.scenarios[0]).params["query"] == "select 1 where a = 'x'' -- {{ word }}'"


def test_without_cases_braces_are_text_and_doubled_ones_are_literal(read):
    (plain,) = read(decision(cases="", pattern="x")).scenarios
    assert plain.steps[0].task.messages[0].content == "{{ age }}-year-old"
    first, _ = read(decision(content="{{{{ age }} {{ age }}")).scenarios
    assert first.steps[0].task.messages[0].content == "{{ age }} 54"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"content": "{{ aeg }}"}, "s.yaml:7:27: messages[0].content: no case has a value `aeg`; did you mean `age`?"),
        (
            {"cases": "cases: [{id: a, age: 1, word: x}, {id: b, word: y}]"},
            "s.yaml:5:35: cases[1]: the case `b` has no `age`, which s.yaml:7:27 uses",
        ),
        (
            {"cases": 'cases: [{id: a, age: 1, word: ""}]'},
            "s.yaml:5:31: cases[0].word: `word` is empty; give it a value",
        ),
        (
            {"cases": 'cases: {optional: [word], rows: [{id: a, age: 1, word: "\u200b "}]}'},
            "s.yaml:5:56: cases.rows[0].word: `word` is empty, although optional: a check uses it",
        ),
        (
            {"cases": "cases: [{id: a, age: 1, word: x}, {id: a, age: 2, word: y}]"},
            "s.yaml:5:40: cases[1].id: the id `a` is already used at s.yaml:5:14; ids must differ",
        ),
        ({"cases": "cases: [{age: 1, word: x}]"}, "s.yaml:5:9: cases[0]: the case has no `id` (allowed: age, word)"),
        ({"cases": "cases: []"}, "s.yaml:5:1: cases: expected 1 to 100,000 cases, found 0"),
        ({"cases": "cases:"}, "s.yaml:5:7: cases: expected a mapping, found null"),
        ({"content": "x", "pattern": "y"}, "s.yaml:5:1: cases: no text has a placeholder such as `{{ age }}`"),
        (
            {"content": "{{ age"},
            "s.yaml:7:27: messages[0].content: expected a name and `}}` after `{{`, found `{{ age`",
        ),
        ({"content": "{{ age | upper }}"}, "s.yaml:7:27: messages[0].content: unknown filter `upper` for `age`"),
        ({"pattern": "[{{ word }}]"}, "s.yaml:10:59: safety_invariants[0].pattern: within `[`, it cannot be told"),
        ({"pattern": "(?x) {{ word }}"}, "s.yaml:10:59: safety_invariants[0].pattern: the pattern ignores spaces"),
        ({"cases": "cases: {file: none.csv}"}, "s.yaml:5:15: cases.file: expected a file with cases"),
        ({"cases": "cases: {file: s.txt}"}, "s.yaml:5:15: cases.file: expected a file with cases"),
        (
            {"cases": "cases: [{id: a, age: 1, word: x, t: soon}]", "target": '"{{ t }}"'},
            's.yaml:5:37: latency_budget.target_ms: expected a number, found "soon" (`t` of the case `a`, used at',
        ),
        ({"cases": "cases: [{id: a, age: [1], word: x}]"}, "s.yaml:5:17: messages[0].content: a list cannot be part"),
        (
            {"cases": "cases: [{id: a, age: 1, word: '(', k: 1}]", "pattern": "{{ word | raw }}"},
            's.yaml:5:31: safety_invariants[0].pattern: expected a regular expression, found "("',
        ),
    ],
)
def test_a_mistake_is_told_once_where_it_is(read, given, expected):
    found = errors(read(decision(**given)))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("id,age,word\na,1,x\nb,,y\n", "t.csv:3:3: `age` is empty; give it a value"),
        ('id,age,word\na,1,"x\ny"\nb,2\n', "t.csv:4:3: expected 3 cells, as in the first line; found 2"),
        ("id,age,age\na,1,2\n", "t.csv:1:8: another column is also called `age`"),
        ("id;age;word\na;1;x\n", "t.csv:1:1: found one column, `id;age;word`; separate columns with commas"),
        ('id,age,word\na,1,"x\n', "t.csv:2:1: not valid CSV: unexpected end of data"),
        ("id,age,word\na,1,x\n a ,2,y\n", "t.csv:3:1: the id `a` is already used at t.csv:2:1; ids must differ"),
        ("id,aeg,word\na,1,x\n", "s.yaml:7:27: messages[0].content: no case has a value `age`; did you mean `aeg`?"),
    ],
)
def test_a_mistake_in_a_table_is_at_its_row_and_column(read, table, expected):
    (found,) = errors(read(decision(cases="cases: {file: t.csv}"), t_csv=table))
    assert found.startswith(expected)


def test_one_mistake_in_every_row_is_not_told_a_thousand_times(read):
    rows = "".join(f"c{n},,w\n" for n in range(1000))
    found = errors(read(decision(cases="cases: {file: t.csv}"), t_csv=f"id,age,word\n{rows}"))
    assert len(found) == 21
    assert "and 980 more cases like this" in found[-1]


def test_what_is_unused_or_twice_is_a_warning(read):
    table = "id,age,word,note\na,1,x,n\nb,1,x,m\n"
    loaded = read(decision(cases="cases: {file: t.csv}"), t_csv=table)
    assert [(str(each.place), each.code) for each in loaded.warnings] == [
        ("t.csv:2:7", "unused-column"),
        ("t.csv:3:1", "duplicate-case"),
    ]


def test_an_id_with_cases_is_taken_in_other_files_too(read, tmp_path):
    read(decision())
    (tmp_path / "other.yaml").write_text(decision(cases="", pattern="x"))
    found = load(["s.yaml", "other.yaml"], catalogue=CATALOGUE)
    assert [problem.code for problem in found.errors] == ["duplicate-id"]


def test_a_structure_cannot_come_from_a_table(read):
    cases = "cases: [{id: one, age: 1, word: x, answer: 1, check: {type: regex_match, pattern: .}}]"
    text = agent(cases=cases).replace("evaluations: [", 'evaluations: ["{{ check }}", ')
    assert "cannot become a part of the scenario" in " ".join(errors(read(text)))


def test_an_agent_is_named_by_a_whole_value_only(read):
    text = agent() + 'agent: "command:run {{ word }}"\n'
    assert "must be the whole of this value" in errors(read(text))[0]


@pytest.mark.parametrize(
    "line", ["id: 'x-{{ word }}'", "plugins: ['{{ word }}']", "plugins: [{name: '{{ word }}.py'}]"]
)
def test_what_is_read_before_the_cases_has_no_placeholder(read, line):
    assert "a placeholder cannot stand here" in errors(read(f"{agent()}{line}\n"))[0]


def test_every_check_with_a_pattern_escapes_values(read):
    first, _ = read(decision(kind="not_regex")).scenarios
    assert spec(first).params["pattern"] == r"(?:a\.b \(c\))"
    made = read(
        agent(
            cases='cases: [{id: a, age: 1, word: "a.b", answer: 1}]',
            kind="json_path",
            params='path: $.a, matches: "{{ word }}"',
        )
    )
    assert spec(made.scenarios[0]).params["matches"] == r"(?:a\.b)"
    schema = 'action: a, schema: {properties: {name: {pattern: "^{{ word }}$"}}}'
    made = read(agent(cases='cases: [{id: a, age: 1, word: "x|.*", answer: 1}]', kind="json_schema", params=schema))
    assert spec(made.scenarios[0]).params["schema"]["properties"] == {"name": {"pattern": r"^(?:x\|\.\*)$"}}


@pytest.mark.parametrize(("word", "told"), [("a.b", "`a.b` is not a plain name"), ("'*'", "`*` is not a plain name")])
def test_a_value_does_not_become_a_path(read, word, told):
    def cases(word):
        return agent(
            cases=f"cases: [{{id: a, age: 1, word: {word}, answer: 1}}]",
            kind="json_path",
            params="path: '$.{{ word }}', equals: 1",
        )

    assert told in errors(read(cases(word)))[0]
    assert spec(read(cases("ab")).scenarios[0]).params["path"] == "$.ab"
    quoted = cases("a b").replace("$.{{ word }}", '$["{{ word }}"]')
    assert spec(read(quoted).scenarios[0]).params["path"] == '$["a b"]'
    assert "not a plain name" in errors(read(quoted.replace("word: a b", "word: 'a\"b'")))[0]


def test_data_that_a_check_asks_for_may_be_a_mapping(read):
    cases = "cases: [{id: a, age: 1, word: {b: [1]}, answer: 1}, {id: b, age: 1, word: .nan, answer: 1}]"
    loaded = read(agent(cases=cases, kind="json_path", params='path: $.a, equals: "{{ word }}"'))
    assert "which no value in JSON can be" in errors(loaded)[0]
    loaded = read(agent(cases=cases.replace(".nan", "3"), kind="json_path", params='path: $.a, equals: "{{ word }}"'))
    assert [spec(each).params["equals"] for each in loaded.scenarios] == [{"b": [1]}, 3]


def test_a_key_that_is_wrong_in_every_case_is_told_once_where_it_is(read):
    text = agent(kind="json_path", params='paht: $.a, path: $.b, equals: "{{ word }}", queals: "{{ word }}"')
    assert [each.partition(":")[0] for each in errors(read(text))] == ["s.yaml", "s.yaml"], errors(read(text))


def test_numbers_in_json_lines_are_text_as_written_and_finite(read):
    lines = '{"id": "a", "age": 1, "word": 1.50}\n{"id": "b", "age": 2, "word": 100000000000000000000}\n'
    loaded = read(decision(cases="cases: {file: t.jsonl}", kind="contains"), t_jsonl=lines)
    assert [spec(each).params["pattern"] for each in loaded.scenarios] == ["1.50", "100000000000000000000"]
    loaded = read(decision(cases="cases: {file: t.jsonl}"), t_jsonl=lines.replace("1.50", "1e400"))
    assert errors(loaded) == ["t.jsonl:1:1: not valid JSON: the number 1e400 is out of range"]


def test_ids_that_look_alike_are_the_same_id(read):
    rows = "id,age,word\né,1,x\ne\u0301,2,y\n"
    assert "is already used at t.csv:2:1" in errors(read(decision(cases="cases: {file: t.csv}"), t_csv=rows))[0]


def test_a_long_cell_is_a_cell(read):
    loaded = read(decision(cases="cases: {file: t.csv}", kind="contains"), t_csv=f"id,age,word\na,1,{'x' * 200_000}\n")
    assert not loaded.errors
