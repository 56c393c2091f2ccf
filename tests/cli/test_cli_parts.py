"""Parts of a run: running again what did not pass, shards and their merge, and removing old runs."""

import json
import sqlite3

import pytest

from steadyhand.store.reader import RunReader

pytestmark = pytest.mark.system

SCENARIO = """\
id: {id}
name: {id}
description: No latency is graded.
agent: model
environment: {{type: local}}
run:
  - input: {id}
    evaluations:
      - {{type: string_contains, value: call for help}}
judgment: {{strategy: all_pass}}
"""
REPLIES = "rules:\n  - {match: bad, reply: I wait.}\n  - {reply: I call for help.}\n"


@pytest.fixture
def five(shell):
    for name in ("a1", "a2", "bad3", "a4", "a10"):
        shell.write(f"s/{name}.yaml", SCENARIO.format(id=name))
    shell.replies(REPLIES)
    return shell


def runs(shell):
    """Newest first."""
    return json.loads(shell("runs", "--json", "-").out)


def shard(shell, number, of=2, *options):
    ended = shell("run", "s", "--shard", f"{number}/{of}", "--seed", "7", "--no-progress", "--trials", "2", *options)
    return ended, runs(shell)[0]["id"]


def test_what_did_not_pass_is_run_again_with_all_its_trials(five):
    assert five("run", "s", "--trials", "3", "--no-progress").code == 1
    first = runs(five)[0]["id"]
    five.replies("rules: [{reply: I call for help.}]\n")
    ended = five("run", "--failed-of", "last", "--no-progress")
    assert ended.code == 0, ended
    assert "3 trials: 3 passed" in ended.out
    assert f"only what did not pass in run {first}; its other scenarios were not run again" in ended.out
    assert (runs(five)[0]["failed_of"], runs(five)[0]["planned"]) == (first, 3)
    again = five("run", "--failed-of", "last", "--no-progress")
    assert (again.code, again.out) == (2, "")
    assert "everything passed in run" in again.err


def test_failed_of_takes_no_paths_and_run_takes_some(five):
    five("run", "s", "--no-progress")
    assert "leave out paths" in five("run", "s", "--failed-of", "last").err
    assert five("run").code == 2
    (five.folder / "s/bad3.yaml").unlink()
    gone = five("run", "--failed-of", "last")
    assert (gone.code, gone.out) == (2, "")
    assert "no longer in the files: bad3" in gone.err


def test_shards_add_up_to_the_verdict_of_the_whole(five):
    whole = five("run", "s", "--seed", "7", "--trials", "2", "--no-progress")
    (one, first), (two, second) = shard(five, 1), shard(five, 2)
    assert (whole.code, one.code, two.code) == (1, 1, 1)
    assert "shard 2/2: 5 of 10 trials" in two.out
    ended = five("merge", second, first)
    assert ended.code == 1, ended
    assert "10 trials: 8 passed, 2 failed" in ended.out
    assert "5 scenarios: 4 passed, 1 failed" in ended.out
    folder = five.folder / ".steadyhand/runs"
    merged = RunReader.open(folder / f"{runs(five)[0]['id']}.sqlite")
    alone = RunReader.open(folder / f"{runs(five)[3]['id']}.sqlite")
    assert merged.finished
    assert merged.plan() == alone.plan()
    assert [row.key for row in merged.rows()] == [row.key for row in alone.rows()]
    assert set(merged.header.merged_from) == {first, second}
    assert [trial.seed for trial in merged.trials()] == [trial.seed for trial in alone.trials()]


def test_a_missing_shard_does_not_pass(five):
    five.replies("rules: [{reply: I call for help.}]\n")
    (one, first), (two, second) = shard(five, 1), shard(five, 2)
    assert (one.code, two.code) == (0, 0)
    lacking = five("merge", first)
    assert lacking.code == 3
    assert lacking.err == "steadyhand: shard 2/2 is missing\n"
    assert "5 trials: 5 passed; 5 planned but not run" in lacking.out
    assert five("merge", first, second).code == 0


def test_a_shard_that_was_cut_short_does_not_pass(five):
    five.replies("rules: [{reply: I call for help.}]\n")
    (_, first), (_, second) = shard(five, 1), shard(five, 2)
    with sqlite3.connect(five.folder / f".steadyhand/runs/{second}.sqlite") as connection:
        connection.execute("DELETE FROM trial WHERE position = 4")
    ended = five("merge", first, second)
    assert ended.code == 3
    assert "10 trials" not in ended.out
    assert "9 trials: 9 passed; 1 planned but not run" in ended.out


def test_only_shards_of_one_run_are_merged_each_once(five):
    _, first = shard(five, 1)
    assert "is given twice" in five("merge", first, first).err
    five("run", "s", "--no-progress")
    assert "is not a shard" in five("merge", first, runs(five)[0]["id"]).err
    _, other = shard(five, 2, 3)
    assert "the number of shards" in five("merge", first, other).err
    _, judged = shard(five, 2, 2, "--judge", "scripted/replies.yaml")
    assert "the option judge" in five("merge", first, judged).err
    five.write("s/a4.yaml", SCENARIO.format(id="a4").replace("call for help", "help"))
    _, changed = shard(five, 2)
    ended = five("merge", first, changed)
    assert (ended.code, ended.out) == (2, "")
    assert "they differ in the scenario a4" in ended.err
    five("run", "s", "--shard", "2/2", "--seed", "8", "--no-progress", "--trials", "2")
    assert "seed" in five("merge", first, runs(five)[0]["id"]).err


@pytest.mark.parametrize("given", ["0/2", "3/2", "2", "a/b", "1/0"])
def test_an_invalid_shard(five, given):
    ended = five("run", "s", "--shard", given, "--seed", "1")
    assert (ended.code, ended.out) == (2, "")
    assert f"--shard {given!r}: expected NUMBER/TOTAL" in ended.err


def test_a_shard_needs_the_seed_and_something_to_do(five):
    assert "--shard needs --seed" in five("run", "s", "--shard", "1/2").err
    assert "shard 6/6 is empty: there are 5 trials" in five("run", "s", "--shard", "6/6", "--seed", "1").err
    until = ("--until", "decided", "--trials", "9")
    ended = five("run", "s", "--shard", "6/6", "--seed", "1", *until)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "steadyhand: shard 6/6 is empty: there are 5 scenarios; use at most 5 shards\n"


def test_one_scenario_is_split_by_trial(five):
    runs_of_it = []
    for number in (1, 2, 3):
        ended = five("run", "s/a1.yaml", "--shard", f"{number}/3", "--seed", "7", "--no-progress", "--trials", "7")
        assert ended.code == 0, ended
        runs_of_it.append(runs(five)[0]["id"])
    readers = [RunReader.open(five.folder / f".steadyhand/runs/{each}.sqlite") for each in runs_of_it]
    numbers = [[row.key.index for row in reader.rows()] for reader in readers]
    assert numbers == [[0, 3, 6], [1, 4], [2, 5]]
    ended = five("merge", *runs_of_it)
    assert ended.code == 0, ended
    assert "7 trials: 7 passed" in ended.out


def test_a_pass_rate_is_of_all_shards_together(five):
    five.replies("rules: [{replies: [I wait., I call for help.], pick: random}]\n")
    options = ("s/a1.yaml", "--seed", "3", "--trials", "12", "--pass-rate", "0.4", "--no-progress")
    whole = five("run", *options)
    for number in (1, 2, 3):
        five("run", *options, "--shard", f"{number}/3")
    merged = five("merge", *(each["id"] for each in runs(five)[:3]))
    (counted,) = (line for line in whole.out.splitlines() if line.startswith("12 trials: "))
    assert counted in merged.out
    assert merged.code == whole.code == 0
    assert "failed" in counted


def test_shards_do_not_depend_on_the_order_of_files(five):
    options = ("--seed", "7", "--no-progress", "--trials", "2")
    five("run", "s/a1.yaml", "s/bad3.yaml", "s/a10.yaml", "--shard", "1/2", *options)
    five("run", "s/a10.yaml", "s/a1.yaml", "s/bad3.yaml", "--shard", "2/2", *options)
    merged = five("merge", *(each["id"] for each in runs(five)[:2]))
    assert merged.code == 1, merged
    assert "6 trials: 4 passed, 2 failed" in merged.out
    five("run", "s/a10.yaml", "s/a1.yaml", "--shard", "2/2", *options)
    other = five("merge", *(each["id"] for each in (runs(five)[0], runs(five)[3])))
    assert "they differ in the scenario bad3" in other.err


def test_until_decided_keeps_the_trials_of_a_scenario_together(five):
    options = ("s", "--until", "decided", "--pass-rate", "0.5", "--trials", "30", "--seed", "7", "--no-progress")
    whole = five("run", *options)
    for number in (1, 2):
        five("run", *options, "--shard", f"{number}/2")
    merged = five("merge", *(each["id"] for each in runs(five)[:2]))
    assert merged.code == whole.code == 1
    told = [line for line in whole.out.splitlines() if line.startswith("5 scenarios: ")]
    assert told
    assert told[0] in merged.out


def test_a_shard_is_resumed_and_judged_again_as_itself(five):
    _, second = shard(five, 2)
    assert five("resume", second, "--no-progress").code == 1
    again = five("rejudge", second, "--no-progress")
    assert again.code == 1, again
    assert "5 trials: 4 passed, 1 failed" in again.out
    twice = five("rejudge", "last", "--no-progress")
    assert "5 trials: 4 passed, 1 failed" in twice.out


def test_the_list_of_runs_names_the_target_the_counts_and_the_time(five):
    five("run", "s", "--no-progress")
    (entry,) = runs(five)
    counts = (entry["passed"], entry["failed"], entry["not_run"])
    assert (entry["targets"], counts) == (["model, scripted/replies.yaml"], (4, 1, 0))
    assert entry["took_ms"] > 0
    listed = five("runs", COLUMNS="160").out
    assert "model, scripted/replies.yaml" in listed
    assert "took" in listed.splitlines()[0]


def test_prune_lists_first_and_keeps_what_others_come_from(five):
    for _ in range(3):
        five("run", "s/bad3.yaml", "--no-progress")
    five("run", "--failed-of", "last", "--no-progress")
    newest, origin, middle, oldest = (each["id"] for each in runs(five))
    five.write("baseline.json", json.dumps({"run": oldest}))
    prune = ("runs", "--prune", "--keep", "1", "--older-than", "0")
    listed = five(*prune)
    assert listed.code == 0, listed
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == [middle, "would"]
    assert len(runs(five)) == 4
    assert "removed 1 run\n" in five(*prune, "--yes").out
    assert [each["id"] for each in runs(five)] == [newest, origin, oldest]
    assert "nothing to remove among 3 runs" in five("runs", "--prune").out
    assert five("runs", "--yes").code == 2
