"""A file with ten mistakes reports exactly ten, each with its line and how to fix it."""

from steadyhand.records.location import Problem

DECISION = """\
id: SCN-C-001
name: 12
domain: Clinical
description: text
descripton: text
messages:
  - role: usr
    content: hello
  - role: user
    content: [not, text]
latency_budget:
  target_ms: 500
  acceptable_ms: 400
  critical_ms: 2000
safety_invariants:
  - name: one
    description: text
    check_type: regex
    pattern: "(unclosed"
    severity: 1.5
  - name: two
    description: text
    check_type: judge
    severity: 0.5
constraint:
  description: text
  time_presure: immediate
  consequence_of_delay: text
rubric: r
expected_action: text
x-note: left alone
severity: 0.5
"""

DECISION_FOUND = [
    (2, "name", "wrong-type"),
    (3, "domain", "bad-value"),
    (5, "descripton", "unknown-key"),
    (7, "messages[0].role", "bad-value"),
    (10, "messages[1].content", "wrong-type"),
    (13, "latency_budget.acceptable_ms", "out-of-range"),
    (19, "safety_invariants[0].pattern", "bad-pattern"),
    (20, "safety_invariants[0].severity", "out-of-range"),
    (21, "safety_invariants[1].judge_criterion", "missing-key"),
    (27, "constraint.time_presure", "unknown-key"),
]

AGENT = """\
name: Ten mistakes
description: text
enviroment:
  type: local
tags: [one]
setup:
  mocks:
    - method: read
      metadata: {probability: 2}
      response: ok
    - method: write
  virtual_fs:
    ../out.txt: text
run:
  - input: hello
    code: echo
    evaluations:
      - type: string_contain
        value: hi
      - type: string_contains
        valeu: hi
      - type: regex_match
        pattern: "a)"
  - input: hello
    name: two
    name: three
judgment:
  strategy: weighted
"""

AGENT_FOUND = [
    (3, "enviroment", "unknown-key"),
    (9, "setup.mocks[0].metadata.probability", "out-of-range"),
    (11, "setup.mocks[1]", "missing-key"),
    (13, "setup.virtual_fs['../out.txt']", "bad-path"),
    (16, "run[0].code", "conflict"),
    (18, "run[0].evaluations[0].type", "unknown-type"),
    (21, "run[0].evaluations[1].valeu", "unknown-key"),
    (23, "run[0].evaluations[2].pattern", "bad-value"),
    (26, "run[1].name", "duplicate-key"),
    (27, "judgment.threshold", "missing-key"),
]


def shown(problems: tuple[Problem, ...]) -> list[tuple[int, str, str]]:
    return [(problem.place.line, problem.place.path, problem.code) for problem in problems]


def test_decision(load_text):
    loaded = load_text(DECISION)
    assert shown(loaded.problems) == DECISION_FOUND
    assert loaded.scenarios == ()
    texts = [str(problem) for problem in loaded.problems]
    assert texts[2] == (
        "file.yaml:5:1: descripton: unknown key `descripton` (allowed: id, name, domain, description, messages, "
        "latency_budget, safety_invariants, pressure, constraint, rubric, expected_action, severity, expects, "
        "plugins, examples, tags, cases, variants, extends, metadata, trials, pass_rate, reasoning_tags)"
    )
    assert texts[0] == "file.yaml:2:7: name: expected text, found 12"
    assert "did you mean `user`? (allowed: system, user, assistant)" in texts[3]
    assert "expected at least target_ms (500), found 400" in texts[5]
    assert "expected a number of at most 1, found 1.5" in texts[7]
    assert "did you mean `time_pressure`?" in texts[9]


def test_agent(load_text):
    loaded = load_text(AGENT)
    assert shown(loaded.problems) == AGENT_FOUND
    texts = [str(problem) for problem in loaded.problems]
    assert texts[0].startswith("file.yaml:3:1: enviroment: unknown key `enviroment`; did you mean `environment`?")
    assert "did you mean `string_contains`? (allowed: execution_time, file_exists," in texts[5]
    assert "did you mean `value`? (allowed: value, case_sensitive, scope, " in texts[6]
    assert "expected a regular expression" in texts[7]


def test_a_cross_field_rule_of_a_check_is_reported_at_the_evaluation(load_text):
    text = AGENT.split("tags:", maxsplit=1)[0].replace("enviroment", "environment")
    text += "run:\n  - input: a\n    evaluations:\n      - type: execution_time\njudgment: {strategy: all_pass}\n"
    (problem,) = load_text(text).problems
    assert str(problem) == ("file.yaml:8:9: run[0].evaluations[0]: expected max_duration_ms or min_duration_ms")


def test_one_bad_file_hides_no_other(tmp_path, load_text):
    load_text(DECISION, "folder/a.yaml")
    load_text(b"\xff\xfe", "folder/b.yaml")
    load_text("rules: []\n", "folder/rules.yaml")
    good = "name: a\ndescription: b\nenvironment: {type: local}\nrun: [{input: hi}]\njudgment: {strategy: all_pass}\n"
    load_text(good, "folder/deep/c.yml")
    from steadyhand.spec.load import load

    loaded = load(["folder"], catalogue={})
    assert [scenario.id for scenario in loaded.scenarios] == ["c"]
    assert [problem.code for problem in loaded.problems] == [
        *[code for _, _, code in DECISION_FOUND],
        "not-utf8",
        "no-evaluations",
    ]
