"""A resume asks about everything that has changed since the run, and about nothing else."""

import os
import pty
import shutil
import sqlite3

import pytest

from steadyhand.testing import Answer
from support.loopback import Loopback

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

DOWN = "rules:\n  - fail: {kind: connect}\n"
RIGHT = "rules:\n  - reply: I call for help now.\n"
JUDGE = 'rules:\n  - reply: \'{"judgment": "yes", "confidence": 1, "reasoning": "so", "capabilities": {}}\'\n'
TALK = """\
id: talk
name: Talk
description: It talks.
environment: {type: local}
agent: model
run:
  - input: Hello
    conversation:
      max_turns: 2
      user_simulator: {persona: a caller, objective: help, model_type: TEXT_SMALL}
    evaluations: [{type: conversation_length, max_turns: 9}]
judgment: {strategy: all_pass}
"""
JUDGED = """\
id: judged
name: Judged
description: A judge decides.
environment: {type: local}
agent: model
run:
  - input: What now?
    evaluations: [{type: llm_judge, prompt: Is it right?, expected: "yes"}]
judgment: {strategy: all_pass}
"""
MATRIX = """\
name: sweep
base_scenario: untimed.yaml
matrix:
  - parameter: run[0].input
    values: [What now?, And now?]
"""
RUBRIC = """\
name: mine
dimensions:
  - {name: care, description: It is careful, weight: 1.0, anchors: {"1.0": very, "0.0": not}}
"""


def cut_short(batch, *arguments, **variables):
    """A run whose trials all ended in error, so that a resume would repeat them."""
    ended = batch("run", *arguments, "--retries", "0", "--no-progress", **variables)
    assert ended.code == 3, ended


def resumed(batch, **variables):
    return batch("resume", "last", "--no-progress", **variables)


def assert_asked(batch, *changes, **variables):
    """The resume is refused, the message names everything that changed and nothing else, and --force continues."""
    ended = resumed(batch, **variables)
    assert ended.code == 2, ended
    head, *named, tail = ended.err.splitlines()
    assert head == "steadyhand: changed since the run started:"
    assert named == [f"  {change}" for change in changes]
    assert tail == "new trials would not be comparable with the old ones; use --force to continue anyway"
    forced = batch("resume", "last", "--no-progress", "--force", **variables)
    assert forced.code != 2, forced


def assert_not_asked(batch, **variables):
    assert "trials left to run" in resumed(batch, **variables).err


def test_nothing(batch):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    batch.write("other.yaml", "anything: else")
    batch.write("steadyhand.toml", 'model = "scripted/replies.yaml"\nretries = 1\ntimeout_s = 9\nconcurrency = 3\n')
    assert_not_asked(batch, SOME_KEY="changed")


def test_the_scenario(batch):
    batch.replies(DOWN)
    cut_short(batch, "one.yaml")
    batch.decision("one.yaml", prompt="Something else?")
    assert_asked(batch, "SCN-C-001: the scenario has changed")


def test_a_scenario_that_is_gone(batch):
    batch.replies(DOWN)
    cut_short(batch, "one.yaml", "untimed.yaml")
    batch.decision("one.yaml", id="SCN-C-009")
    assert_asked(batch, "SCN-C-001: it is no longer in the files")


def test_a_matrix_or_its_base(batch):
    batch.replies(DOWN)
    batch.write("sweep.matrix.yaml", MATRIX)
    cut_short(batch, "sweep.matrix.yaml")
    base = (batch.folder / "untimed.yaml").read_text()
    batch.write("untimed.yaml", base.replace("call for help", "call help"))
    ids = [f"untimed[run[0].input={value}]" for value in ("What now?", "And now?")]
    assert_asked(batch, *(f"{id_}: the scenario has changed" for id_ in ids))
    batch.write("untimed.yaml", base)
    batch.write("sweep.matrix.yaml", MATRIX.replace("And now?", "And then?"))
    assert_asked(batch, f"{ids[1]}: it is no longer in the files")


def test_what_a_script_answers(batch):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    batch.replies(RIGHT)
    assert_asked(batch, "untimed: the model has changed")


def test_which_model_is_configured(batch):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    batch.write("other.yaml", DOWN)
    batch.write("steadyhand.toml", 'model = "scripted/other.yaml"\n')
    assert_asked(batch, "untimed: the model has changed")


def test_where_a_model_is_asked_by_a_variable_or_by_configuration(batch):
    model = ("untimed.yaml", "--model", "openai/m")
    batch.write("steadyhand.toml", "")
    with Loopback(Answer(status=401)) as one, Loopback(Answer(status=401)) as other:
        cut_short(batch, *model, OPENAI_BASE_URL=one.url, OPENAI_API_KEY="sk-first-key-000001")
        assert_not_asked(batch, OPENAI_BASE_URL=one.url, OPENAI_API_KEY="sk-another-key-00000002")
        assert_asked(batch, "untimed: the model has changed", OPENAI_BASE_URL=other.url)
        batch.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{one.url}"\n')
        assert_not_asked(batch, OPENAI_BASE_URL=other.url)
        batch.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{one.url}"\nbody = {{top_p = 0.1}}\n')
        assert_asked(batch, "untimed: the model has changed", OPENAI_BASE_URL=one.url)


def test_the_judge_its_script_its_votes_and_its_rubric(batch):
    batch.replies(DOWN)
    batch.write("judged.yaml", JUDGED)
    batch.write("judge.yaml", JUDGE)
    batch.write("rubric_clinical.yaml", RUBRIC)
    settings = 'model = "scripted/replies.yaml"\njudge = "scripted/judge.yaml"\n'
    batch.write("steadyhand.toml", settings)
    cut_short(batch, "one.yaml", "judged.yaml", "untimed.yaml")
    batch.write("judge.yaml", JUDGE.replace("so", "because"))
    both = ("SCN-C-001: the judge has changed", "judged: the judge has changed")
    assert_asked(batch, *both)
    batch.write("judge.yaml", JUDGE)
    batch.write("rubric_clinical.yaml", RUBRIC.replace("careful", "quick"))
    assert_asked(batch, "SCN-C-001: the rubric has changed")
    batch.write("rubric_clinical.yaml", RUBRIC)
    batch.write("steadyhand.toml", f"{settings}votes = 3\n")
    assert_asked(batch, *both)


def test_who_plays_the_user(batch):
    batch.replies(DOWN)
    batch.write("talk.yaml", TALK)
    batch.write("user.yaml", RIGHT)
    settings = 'model = "scripted/replies.yaml"\nuser_model = "scripted/user.yaml"\n'
    batch.write("steadyhand.toml", settings)
    cut_short(batch, "talk.yaml", "untimed.yaml")
    batch.write("user.yaml", "rules:\n  - reply: Please.\n")
    assert_asked(batch, "talk: the model that plays the user has changed")
    batch.write("user.yaml", RIGHT)
    batch.write("steadyhand.toml", f'{settings}[models]\nTEXT_SMALL = "scripted/user.yaml"\n')
    assert_asked(batch, "talk: a model that the scenario names has changed")


def test_the_sources_of_a_python_agent(batch):
    batch.write("agent.py", "import json\nimport tools\n\ndef reply(text):\n    raise ValueError(tools.WHAT)\n")
    batch.write("tools.py", "from inner import deep\n\nWHAT = deep.WHAT\n")
    batch.write("inner/deep.py", "WHAT = 'no'\n")
    batch.write("unrelated.py", "WHAT = 'no'\n")
    text = (batch.folder / "untimed.yaml").read_text()
    batch.write("untimed.yaml", text.replace("agent: model", "agent: python:./agent.py:reply"))
    cut_short(batch, "untimed.yaml")
    batch.write("unrelated.py", "WHAT = 'something else'\n")
    assert_not_asked(batch)
    for changed in ("agent.py", "tools.py", "inner/deep.py"):
        before = (batch.folder / changed).read_text()
        batch.write(changed, f"{before}# mended\n")
        assert_asked(batch, "untimed: the agent has changed")
        batch.write(changed, before)


def test_the_program_of_a_command_agent(batch):
    agent = batch.write("agent.sh", "#!/bin/sh\nexit 3\n")
    agent.chmod(0o755)
    text = (batch.folder / "untimed.yaml").read_text()
    batch.write("untimed.yaml", text.replace("agent: model", "agent: command:KEY=$MY_TOKEN ./agent.sh"))
    cut_short(batch, "untimed.yaml", MY_TOKEN="a-secret-that-is-long")
    assert_not_asked(batch, MY_TOKEN="another-secret")
    agent.write_text("#!/bin/sh\nexit 4\n")
    assert_asked(batch, "untimed: the agent has changed", MY_TOKEN="another-secret")


def test_a_plugin(batch):
    batch.replies(DOWN)
    plugin = "from steadyhand.plugins.plugin import Plugin\n\nplugin = Plugin(name='mine')\n"
    batch.write("mine.py", plugin)
    text = (batch.folder / "untimed.yaml").read_text()
    batch.write("untimed.yaml", f"{text}plugins: [./mine.py]\n")
    cut_short(batch, "untimed.yaml")
    batch.write("mine.py", f"{plugin}# another\n")
    assert_asked(batch, "untimed: a plugin has changed")


def test_the_environment(batch):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    batch.write("steadyhand.toml", 'model = "scripted/replies.yaml"\nallow_commands = true\n')
    assert_asked(batch, "untimed: the environment has changed")


def test_the_recording_that_is_replayed(batch):
    batch.replies(RIGHT)
    assert batch("run", "untimed.yaml", "--record", "tape", "--no-progress").code == 0
    cut_short(batch, "untimed.yaml", "--replay", "tape", "--trials", "2")
    tape = batch.folder / "tape" / "cassette.jsonl"
    tape.write_bytes(tape.read_bytes() + tape.read_bytes().splitlines(keepends=True)[1])
    assert_asked(batch, "untimed: the recording that is replayed has changed")


def test_steadyhand_itself(batch):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    with sqlite3.connect(batch.record()) as connection:
        connection.execute(
            'UPDATE run SET header = replace(header, \'"steadyhand_version":"\', \'"steadyhand_version":"0.0.\')'
        )
    connection.close()
    ended = resumed(batch)
    assert (ended.code, "Steadyhand was updated: the run was started with 0.0." in ended.err) == (
        2,
        True,
    ), ended


def test_no_secret_is_in_the_record_not_even_as_a_digest(batch):
    settings = '[providers.openai]\nbase_url = "{}/?api_key={}&region=eu"\n'
    model = ("untimed.yaml", "--model", "openai/m")
    with Loopback(Answer(status=401)) as server:
        batch.write("steadyhand.toml", settings.format(server.url, "hush-hush-one"))
        cut_short(batch, *model, OPENAI_API_KEY="sk-first-key-000001")
        batch.write("steadyhand.toml", settings.format(server.url, "a-key-of-another-length"))
        assert_not_asked(batch, OPENAI_API_KEY="sk-other-key-0000000002")
        batch.write("steadyhand.toml", settings.format(server.url, "hush-hush-one").replace("eu", "us"))
        assert_asked(batch, "untimed: the model has changed")


def test_a_copy_of_the_folder_is_the_same_run(batch, tmp_path):
    batch.replies(DOWN)
    cut_short(batch, "one.yaml", "untimed.yaml")
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    shutil.copytree(tmp_path, copy)
    there = batch.within(copy)
    assert_not_asked(there)
    before = batch.record().read_bytes()
    there.replies(RIGHT)
    assert_asked(there, "SCN-C-001: the model has changed", "untimed: the model has changed")
    assert batch.record().read_bytes() == before
    elsewhere = batch.within(copy / "empty")
    elsewhere.folder.mkdir()
    ended = elsewhere("resume", str(batch.record()))
    assert ended.code == 2
    assert f"the run was started in {tmp_path}; resume it there or in a copy of that folder" in ended.err


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_at_a_terminal_it_is_a_question(batch, answer, code):
    batch.replies(DOWN)
    cut_short(batch, "untimed.yaml")
    batch.replies(RIGHT)
    master, slave = pty.openpty()
    os.write(master, f"{answer}\n".encode())
    ended = batch.at_a_terminal("resume", "last", "--no-progress", stdin=slave)
    os.close(master)
    os.close(slave)
    assert ended.code == code, ended
    assert "untimed: the model has changed" in ended.err
    assert "Continue anyway?" in ended.err
    assert ("not resumed" in ended.err) is (code == 2)
