"""Matrices as a user sees them: what is refused before anything runs, and that a cell behaves as it would alone."""

import json

import pytest

MOCKED = """\
id: mocked
name: A mocked service, files, a command and a judge
description: d
environment: {type: local}
context: {tier: gold}
setup:
  virtual_fs: {/notes/a.txt: first}
  mocks:
    - service: net
      method: ping
      when: {context: {tier: gold}}
      responseFn: "(args, input) => 'pong for ' + input.who"
      error: {message: the line is down}
      metadata: {delay: 1, probability: 0.5}
run:
  - input: ping
    evaluations:
      - {type: string_contains, value: pong for Ann}
      - {type: llm_judge, prompt: Did it ping?, expected: "yes"}
  - code: cat notes/a.txt && echo second >> notes/a.txt
    evaluations:
      - {type: file_contains, path: notes/a.txt, value: second, weight: 2}
      - {type: command_exit_code_is, command: grep -q first notes/a.txt, expected_code: 0}
judgment: {strategy: weighted, threshold: 0.8}
trials: 6
pass_rate: 0.4
"""
RULES = """\
rules:
  - {purpose: judge, contains: is down, json: {judgment: "no", confidence: 0.1, reasoning: r}}
  - {purpose: judge, json: {judgment: "yes", confidence: 0.9, reasoning: r}}
  - {tool_results: true, echo: true}
  - tool_calls: [{name: net_ping, arguments: {who: Ann}}]
"""
AXES = """\
base_scenario: mocked.scenario.yaml
matrix:
  - {parameter: model, values: [scripted/rules.yaml]}
  - {parameter: judge, values: [scripted/rules.yaml]}
  - {parameter: "setup.mocks[0].metadata.delay", values: [1, 3]}
  - {parameter: "setup.virtual_fs['/notes/a.txt']", values: [first, third]}
"""
MOMENTS = {"at_ms", "duration_ms", "timing", "latency_ms", "latency_not_graded", "time_to_first_token_ms", "incidents"}
OWN = {"id", "digest", "seed"}


def essence(value):
    """A trial's report without times and without names."""
    if isinstance(value, dict):
        return {key: essence(each) for key, each in value.items() if key not in MOMENTS | OWN}
    return [essence(each) for each in value] if isinstance(value, list) else value


def trials(batch, *arguments):
    """A run's report as (scenario id -> its trials), and its summary."""
    ended = batch("run", *arguments, "--seed", "5", "--no-progress", "--json", "all.json")
    assert ended.err == "", ended
    report = json.loads((batch.folder / "all.json").read_text())
    found = {}
    for trial in report["trials"]:
        found.setdefault(trial["scenario"]["id"], []).append(essence(trial))
    return found, report


def test_a_cell_acts_exactly_as_the_scenario_alone(batch):
    batch.write("mocked.scenario.yaml", MOCKED)
    batch.write("rules.yaml", RULES)
    batch.write("mocked.matrix.yaml", AXES)
    alone, before = trials(
        batch, "mocked.scenario.yaml", "--model", "scripted/rules.yaml", "--judge", "scripted/rules.yaml"
    )
    cells, after = trials(batch, "mocked.matrix.yaml")
    assert len(cells) == 4
    assert len(alone["mocked"]) == 6
    assert {trial["verdict"] for trial in alone["mocked"]} == {"passed", "failed"}
    same, other, slower, _ = cells.values()
    assert same == alone["mocked"]
    # A cell differs from the base only by what the axis says: the mock fails in the same trials.
    assert [trial["verdict"] for trial in slower] == [trial["verdict"] for trial in same]
    assert [check["verdict"] for check in other[0]["evaluations"]][-1] == "failed"
    by_id = {each["id"]: each for each in after["scenarios"]}
    first = by_id[next(iter(cells))]
    told = before["scenarios"][0]
    apart = {"id": "mocked", "matrix": None, "figures": told["figures"], "target": {**first["target"], "cell": {}}}
    assert {**first, **apart} == told
    assert first["figures"]["trials"] == told["figures"]["trials"]


def test_a_matrix_axis_goes_before_what_a_check_asks_for(batch):
    batch.write("mocked.scenario.yaml", MOCKED.replace('expected: "yes"', 'expected: "yes", model_type: TEXT_LARGE'))
    batch.write("rules.yaml", RULES)
    batch.write("never.yaml", 'rules:\n  - json: {judgment: "no", confidence: 0.1, reasoning: r}\n')
    batch.write("steadyhand.toml", 'model = "scripted/rules.yaml"\n[models]\nTEXT_LARGE = "scripted/rules.yaml"\n')
    batch.write(
        "judges.matrix.yaml",
        "base_scenario: mocked.scenario.yaml\n"
        "matrix: [{parameter: judge, values: [scripted/rules.yaml, scripted/never.yaml]}]\n",
    )
    found, _ = trials(batch, "judges.matrix.yaml")
    judges = [
        {check["judge"]["model"] for trial in cell for check in trial["evaluations"][1:2]} for cell in found.values()
    ]
    assert judges == [{"scripted/rules.yaml"}, {"scripted/never.yaml"}]


def test_names_in_a_matrix_are_found_beside_it(batch):
    batch.write("sweeps/own.yaml", "rules:\n  - reply: I call for help.\n")
    batch.write(
        "sweeps/own.matrix.yaml",
        "base_scenario: ../untimed.yaml\nmatrix: [{parameter: model, values: [scripted/own.yaml]}]\n",
    )
    assert batch("run", "sweeps/own.matrix.yaml", "--no-progress").code == 0


NAMES = """\
base_scenario: untimed.yaml
matrix:
  - parameter: model
    values: [scripted/replies.yaml, gpt-4o, nobody/x]
  - parameter: agent
    values: [model, modle]
  - parameter: judge
    values:
      - scripted/replies.yaml
      - nobody/y
"""


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("matrix",), ("validate",)])
def test_names_that_lead_nowhere_are_reported_at_their_place(batch, command):
    batch.write("names.matrix.yaml", NAMES)
    ended = batch(*command, "names.matrix.yaml")
    assert ended.code == 2
    said = [line for line in (ended.out + ended.err).splitlines() if line.startswith("names.matrix.yaml:")]
    assert [line.split(": ")[:2] for line in said] == [
        ["names.matrix.yaml:4:37", "matrix[0].values[1]"],
        ["names.matrix.yaml:4:45", "matrix[0].values[2]"],
        ["names.matrix.yaml:6:21", "matrix[1].values[1]"],
        ["names.matrix.yaml:10:9", "matrix[2].values[1]"],
    ], ended
    assert "'gpt-4o' has no provider" in said[0]
    assert "did you mean 'model'?" in said[2]
    assert not (batch.folder / ".steadyhand").exists()


def test_what_cannot_be_made_names_the_combination_before_anything_runs(batch):
    batch.write(
        "u.matrix.yaml",
        "base_scenario: untimed.yaml\n"
        "matrix: [{parameter: model, values: [scripted/replies.yaml, scripted/none.yaml, openai/x]}]\n",
    )
    ended = batch("run", "u.matrix.yaml", "--no-progress")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("steadyhand: u.matrix.yaml: untimed[model=scripted/none.yaml]: ")
    assert "none.yaml: cannot be read: No such file" in ended.err
    assert not (batch.folder / ".steadyhand").exists()
    # Listing needs neither the files nor the keys of models.
    assert batch("run", "u.matrix.yaml", "--dry-run").code == 0


def test_validate_and_lint_look_at_every_combination(batch):
    batch.write(
        "bad.matrix.yaml",
        "base_scenario: untimed.yaml\n"
        "matrix:\n"
        "  - {parameter: 'run[1].input', values: [a]}\n"
        "  - {parameter: 'run[0].evaluations[0].type', values: [string_contains, regex_mach]}\n",
    )
    for command in ("validate", "lint", "list", "run"):
        ended = batch(command, "bad.matrix.yaml")
        text = ended.out + ended.err
        assert ended.code == 2
        assert "bad.matrix.yaml:3:17: matrix[0].parameter: index [1] is out of bounds" in text
        assert "bad.matrix.yaml:4:73: matrix[1].values[1]: the scenario cannot have this value" in text, text
    batch.write(
        "lint.matrix.yaml",
        "base_scenario: untimed.yaml\n"
        "matrix: [{parameter: 'run[0].evaluations[0].value', values: [call for help, e]}]\n",
    )
    found = batch("lint", "lint.matrix.yaml")
    assert "2 scenarios: " in found.err


def test_one_bad_file_does_not_hide_a_bad_matrix(batch):
    batch.write("bad.scenario.yaml", "run: []\n")
    batch.write("bad.matrix.yaml", "base_scenario: untimed.yaml\nmatrix: [{parameter: nowhere, values: [1]}]\n")
    ended = batch("run", "bad.scenario.yaml", "bad.matrix.yaml")
    assert ended.code == 2
    assert "bad.scenario.yaml:1:" in ended.err
    assert "bad.matrix.yaml:2:" in ended.err


SWEEP = """\
name: sweep
base_scenario: untimed.yaml
matrix:
  - {parameter: model, values: [scripted/replies.yaml, scripted/wrong.yaml]}
  - {parameter: "run[0].input", values: ["a, b", "c"]}
"""


@pytest.fixture
def sweep(batch):
    batch.write("wrong.yaml", "rules:\n  - reply: I wait.\n")
    batch.write("sweep.matrix.yaml", SWEEP)
    return batch


def listed(ended):
    assert ended.code == 0, ended
    return [line for line in ended.out.splitlines() if line.startswith(("untimed", "SCN"))]


def test_filters(sweep):
    sweep.write(
        "more.matrix.yaml",
        "base_scenario: one.yaml\nmatrix: [{parameter: model, values: [scripted/third.yaml, scripted/wrong.yaml]}]\n",
    )
    sweep.write("third.yaml", "rules:\n  - reply: I wait.\n")
    both = ("run", "sweep.matrix.yaml", "more.matrix.yaml", "--dry-run")
    assert listed(sweep(*both, "--filter", "model=scripted/wrong.yaml")) == [
        'untimed[model=scripted/wrong.yaml,run[0].input="a, b"]',
        "untimed[model=scripted/wrong.yaml,run[0].input=c]",
        "SCN-C-001[model=scripted/wrong.yaml]",
    ]
    assert listed(sweep(*both, "--filter", "model=scripted/third.yaml")) == ["SCN-C-001[model=scripted/third.yaml]"]
    either = ("--filter", "model=scripted/third.yaml", "--filter", "model=scripted/replies.yaml")
    assert len(listed(sweep(*both, *either))) == 3
    for given in ("run[0].input=a, b", 'run[0].input="a, b"'):
        assert len(listed(sweep(*both, "--filter", given))) == 2
    nothing = sweep(*both, "--filter", "model=scripted/third.yaml", "--filter", "run[0].input=c")
    assert (nothing.code, "no combination matches all of --filter" in nothing.err) == (2, True)
    # Scenarios outside the matrices have no such parameter.
    assert listed(sweep("run", ".", "--dry-run", "--filter", "model=scripted/third.yaml")) == [
        "SCN-C-001[model=scripted/third.yaml]"
    ]
    rows = json.loads(sweep("list", "sweep.matrix.yaml", "--filter", "run[0].input=c", "--format", "json").out)
    assert [row["id"] for row in rows] == [
        "untimed[model=scripted/replies.yaml,run[0].input=c]",
        "untimed[model=scripted/wrong.yaml,run[0].input=c]",
    ]


def test_run_and_matrix_are_one_command(sweep):
    for more in ((), ("--trials", "2"), ("--filter", "run[0].input=c")):
        run, matrix = (sweep(name, "sweep.matrix.yaml", "--dry-run", *more) for name in ("run", "matrix"))
        assert run == matrix
        assert run.code == 0


def test_trials_on_the_command_line_go_before_the_matrix(sweep):
    sweep.write("sweep.matrix.yaml", SWEEP + "runs_per_combination: 5\n")
    assert "would run 20 trials of 4 combinations" in sweep("run", "sweep.matrix.yaml", "--dry-run").out
    assert "would run 8 trials of 4 combinations" in sweep("run", "sweep.matrix.yaml", "--dry-run", "--trials", "2").out


@pytest.mark.parametrize(
    ("axis", "options", "said"),
    [
        ("model, values: [scripted/replies.yaml]", ("--model", "openai/x"), "--model has no effect here"),
        ("agent, values: [model]", ("--agent", "runtime"), "choose among them with --filter agent="),
        ("judge, values: [scripted/replies.yaml]", ("--judge", "openai/x"), "--judge has no effect here"),
        ("character.llm.model, values: [scripted/replies.yaml]", ("--model", "openai/x"), "--model would override"),
        ("environment.type, values: [local, e2b]", ("--environment", "local"), "--environment would override"),
        ("trials, values: [2, 3]", ("--trials", "4"), "--trials would override"),
        ("pass_rate, values: [0.5, 1]", ("--pass-rate", "0.7"), "--pass-rate would override"),
        ('"setup.mocks[0].response", values: [a, b]', ("--live",), "--live would override"),
    ],
)
def test_an_option_that_contradicts_an_axis_is_one_clear_message(batch, axis, options, said):
    text = (batch.folder / "untimed.yaml").read_text()
    batch.write("u.yaml", f"{text}trials: 2\npass_rate: 0.5\nsetup: {{mocks: [{{method: m, response: r}}]}}\n")
    batch.write("u.matrix.yaml", f"base_scenario: u.yaml\nmatrix:\n  - {{parameter: {axis}}}\n")
    ended = batch("run", "u.matrix.yaml", "--dry-run", *options)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert batch("run", "u.matrix.yaml", "--dry-run").code == 0


def test_an_option_still_holds_for_the_scenarios_beside_a_matrix(sweep):
    ended = sweep("run", "sweep.matrix.yaml", "one.yaml", "--model", "scripted/replies.yaml", "--dry-run")
    assert ended.code == 0


def test_a_matrix_is_resumed_where_it_broke(sweep):
    sweep.write("wrong.yaml", "rules:\n  - fail: {kind: server}\n")
    only = ("--filter", "run[0].input=c", "--trials", "3", "--retries", "0")
    assert sweep("run", "sweep.matrix.yaml", *only, "--no-progress", "--seed", "2").code == 3
    before = {str(row.key): row.verdict for row in sweep.reader().rows()}
    assert sorted(before.values()) == ["error"] * 3 + ["passed"] * 3
    sweep.write("wrong.yaml", "rules:\n  - reply: I call for help.\n")
    ended = sweep("resume", "last", "--no-progress", "--force", "--json", "all.json")
    assert (ended.code, ended.err) == (0, "3 of 6 trials left to run\n")
    assert "2 combinations: 2 passed\n" in ended.out
    report = json.loads((sweep.folder / "all.json").read_text())
    assert {f"{each['scenario']['id']}#{each['trial']}" for each in report["trials"]} == set(before)
    assert [each["matrix"]["parameters"]["model"] for each in report["scenarios"]] == [
        "scripted/replies.yaml",
        "scripted/wrong.yaml",
    ]
    assert len({each["seed"] for each in report["trials"]}) == 6
    sweep.write("sweep.matrix.yaml", SWEEP.replace('"c"', '"d"'))
    changed = sweep("resume", "last")
    assert changed.code == 2
    assert "--filter 'run[0].input=c': run[0].input never has that value; its values are" in changed.err


def test_the_same_combination_twice_in_a_run(sweep):
    sweep.write("again.matrix.yaml", SWEEP)
    ended = sweep("run", "sweep.matrix.yaml", "again.matrix.yaml", "--dry-run")
    assert ended.code == 2
    assert ended.err.startswith("again.matrix.yaml:1:1: the combination untimed[model=scripted/replies.yaml,")
    assert ended.err.endswith(" is in this run twice; run this matrix separately\n")


def test_a_secret_among_the_values_is_in_no_id_and_loses_no_trial(sweep):
    secrets = {"A_TOKEN": "canary-Zq7f93kd02mmx81", "B_TOKEN": "canary-Wq7f93kd02mmx82"}
    values = ", ".join([*secrets.values(), "c"])
    sweep.write("sweep.matrix.yaml", SWEEP.replace('"a, b", "c"', values) + "runs_per_combination: 2\n")
    only = ("--filter", "model=scripted/replies.yaml")
    files = ("--json", "all.json", "--junit", "all.xml")
    ended = sweep("run", "sweep.matrix.yaml", *only, "--no-progress", *files, **secrets)
    assert ended.code == 0, ended
    assert "3 combinations: 3 passed" in ended.out
    ids = [each["id"] for each in json.loads((sweep.folder / "all.json").read_text())["scenarios"]]
    stars = "*" * len(secrets["A_TOKEN"])
    assert [each.partition("run[0].input=")[2] for each in ids] == [f"{stars}]", f"{stars}]~2", "c]"]
    resumed = sweep("resume", "last", "--no-progress", **secrets)
    assert (resumed.code, resumed.err) == (0, "0 of 6 trials left to run\n")
    listed_ = sweep("run", "sweep.matrix.yaml", "--dry-run", **secrets)
    written = b"".join(file.read_bytes() for file in sweep.folder.glob(".steadyhand/runs/*"))
    told = ended.out + listed_.out + (sweep.folder / "all.xml").read_text() + (sweep.folder / "all.json").read_text()
    assert "canary" not in told
    assert b"canary" not in written
