import json

MATRIX = """\
name: sweep
base_scenario: one.yaml
runs_per_combination: 2
matrix:
  - parameter: model
    values: [scripted/replies.yaml, scripted/wrong.yaml]
  - parameter: latency_budget.critical_ms
    values: [20000, 30000]
"""


def test_a_pass_rate_decides_the_exit_code(batch):
    batch.replies("rules:\n  - {replies: [I call for help., I wait.], pick: random}\n")
    assert batch("run", "one.yaml", "--trials", "12", "--seed", "3", "--no-progress", "--json", "all.json").code == 1
    report = json.loads((batch.folder / "all.json").read_text())
    passed = report["summary"]["passed"]
    assert 0 < passed < 12
    low, high = str(passed / 12 - 0.01), str(passed / 12 + 0.01)
    ended = batch("run", "one.yaml", "--trials", "12", "--seed", "3", "--no-progress", "--pass-rate", low)
    assert ended.code == 0
    assert f"{passed}/12" in ended.out
    again = batch("run", "one.yaml", "--trials", "12", "--seed", "3", "--pass-rate", high, "--json", "high.json")
    assert again.code == 1
    assert json.loads((batch.folder / "high.json").read_text())["summary"]["exit_code"] == 1
    text = (batch.folder / "one.yaml").read_text()
    batch.write("one.yaml", f"{text}trials: 12\npass_rate: {low}\n")
    assert batch("run", "one.yaml", "--seed", "3", "--no-progress", "--json", "own.json").code == 0
    own = json.loads((batch.folder / "own.json").read_text())
    assert (own["summary"]["exit_code"], own["summary"]["failed"]) == (0, 12 - passed)


def test_a_matrix_runs_every_combination(batch):
    batch.write("wrong.yaml", "rules:\n  - reply: I wait.\n")
    batch.write("sweep.matrix.yaml", MATRIX)
    dry = batch("matrix", "sweep.matrix.yaml", "--dry-run")
    assert dry.code == 0
    assert dry.out.splitlines() == [
        "2 x SCN-C-001[model=scripted/replies.yaml,latency_budget.critical_ms=20000]",
        "2 x SCN-C-001[model=scripted/replies.yaml,latency_budget.critical_ms=30000]",
        "2 x SCN-C-001[model=scripted/wrong.yaml,latency_budget.critical_ms=20000]",
        "2 x SCN-C-001[model=scripted/wrong.yaml,latency_budget.critical_ms=30000]",
        "would run 8 trials of 4 combinations: 8 model calls",
        "targets: model, scripted/replies.yaml; model, scripted/wrong.yaml",
        "up to 8 trials at once",
    ]
    assert not (batch.folder / ".steadyhand").exists()
    assert batch("run", "sweep.matrix.yaml", "--no-progress").code == 1
    verdicts = [(row.key.scenario_id.split(",")[0], str(row.verdict)) for row in batch.reader().rows()]
    assert verdicts == [
        *[("SCN-C-001[model=scripted/replies.yaml", "passed")] * 4,
        *[("SCN-C-001[model=scripted/wrong.yaml", "failed")] * 4,
    ]
    only = ("--filter", "model=scripted/replies.yaml", "--filter", "latency_budget.critical_ms=30000")
    ended = batch("run", "sweep.matrix.yaml", "--no-progress", *only)
    assert ended.code == 0
    assert "2 trials: 2 passed" in ended.out


def test_what_is_wrong_with_a_matrix_or_a_filter_is_said_before_anything_runs(batch):
    batch.write("bad.matrix.yaml", MATRIX.replace("critical_ms", "critcal_ms"))
    ended = batch("run", "bad.matrix.yaml")
    assert ended.code == 2
    assert "bad.matrix.yaml:7:16: matrix[1].parameter: `latency_budget` has no `critcal_ms`; did you mean" in ended.err
    batch.write("sweep.matrix.yaml", MATRIX)
    for given, said in (
        ("modl=x", "no matrix varies 'modl'"),
        ("model=x", "model never has that value"),
        ("model", "parameter=value"),
    ):
        ended = batch("run", "sweep.matrix.yaml", "--filter", given)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert batch("run", "one.yaml", "--filter", "model=x").code == 2
    assert not (batch.folder / ".steadyhand").exists()
