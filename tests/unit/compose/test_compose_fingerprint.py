"""What changes a fingerprint and what must not: a different trial changes it, another key or timeout does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steadyhand.compose.fingerprint import Sources, differences, short, total
from support.project import AGENT, JUDGED

SCRIPT = "rules:\n  - reply: hello\n"
OPTIONS = {"model": "scripted/m.yaml", "judge": "scripted/j.yaml"}


@pytest.fixture
def prints(project, monkeypatch):
    """Fingerprints of a scenario that a scripted judge judges, in a folder with `m.yaml` and `j.yaml`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    for name in ("m.yaml", "j.yaml"):
        project.write(name, SCRIPT)
    project.write("one.scenario.yaml", JUDGED)
    return lambda **options: project.fingerprint("one.scenario.yaml", **{**OPTIONS, **options})


def changed(before, now):
    return [each.removesuffix(" has changed") for each in differences(before, now)]


def test_the_same_twice_is_the_same(prints):
    before = prints()
    assert changed(before, prints()) == []
    assert total(before) == total(prints())


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("m.yaml", "rules:\n  - reply: goodbye\n", "the model"),
        ("j.yaml", "rules:\n  - reply: goodbye\n", "the judge"),
        ("one.scenario.yaml", JUDGED.replace("polite", "kind"), "the scenario"),
        ("steadyhand.toml", "votes = 3\n", "the judge"),
        ("steadyhand.toml", "sandbox = true\n", "the environment"),
    ],
)
def test_what_a_file_says_is_part_of_the_trial(project, prints, file, text, what):
    before = prints()
    project.write(file, text)
    now = prints()
    assert what in changed(before, now)
    assert total(before) != total(now)


def test_an_option_of_the_provider_is_part_of_the_model(project, prints):
    before = prints(model="openai/m")
    project.write("steadyhand.toml", '[providers.openai]\nbody = {reasoning_effort = "low"}\n')
    assert changed(before, prints(model="openai/m")) == ["the model"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"model": "openai/m"}, "the model"),
        ({"judge": "openai/m"}, "the judge"),
        ({"agent": "runtime"}, "the agent"),
        ({"live": True}, "the environment"),
        ({"enforce_deadline": True}, "the environment"),
    ],
)
def test_what_an_option_says_is_part_of_the_trial(prints, options, what):
    assert changed(prints(), prints(**options)) == [what]


@pytest.mark.parametrize(
    "options",
    [{"retries": 9}, {"timeout_s": 9.0}, {"concurrency": 2}, {"trials": 9}, {"out": Path("o")}, {"max_cost": 1.0}],
)
def test_what_users_fix_before_a_resume_is_not(prints, options):
    assert changed(prints(), prints(**options)) == []


def test_limits_and_keys_of_a_provider_are_not_and_its_address_is(project, prints):
    seen = []
    for line in ("", 'api_key_env = "OTHER"', "requests_per_minute = 3", 'headers = {A = "b"}'):
        project.write("steadyhand.toml", f"[providers.openai]\n{line}\n")
        seen.append(total(prints(model="openai/m")))
    assert len(set(seen)) == 1
    for url in ("http://u:p@h/", "http://u:other@h/", "http://elsewhere/"):
        project.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{url}"\n')
        seen.append(total(prints(model="openai/m")))
    assert len(set(seen)) == 3
    assert seen[-3] == seen[-2]


def test_an_address_in_a_variable_counts_like_one_in_a_file(prints, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    before = prints(model="openai/m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert changed(before, prints(model="openai/m")) == ["the model"]


def test_a_judge_that_judges_nothing_is_not_part_of_it(project, prints):
    project.write("one.scenario.yaml", AGENT)
    assert "the judge" not in prints()


def test_a_copy_of_the_folder_is_the_same(project, prints, monkeypatch):
    before = prints()
    copy = project.folder.with_name(project.folder.name + "-copy")
    copy.mkdir()
    for file in project.folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(copy)
    assert prints() == before


def test_the_sources_of_a_python_agent_are_followed_to_what_they_import(project, prints):
    project.write("mine.py", "from pack.part import answer\n\ndef agent(message):\n    return answer()\n")
    project.write("pack/__init__.py", "")
    part = project.write("pack/part.py", "def answer():\n    return 'a'\n")
    project.write("unrelated.py", "x = 1\n")
    options = {"agent": "python:./mine.py:agent"}
    before = prints(**options)
    project.write("unrelated.py", "x = 2\n")
    assert changed(before, prints(**options)) == []
    part.write_text("def answer():\n    return 'b'\n")
    assert changed(before, prints(**options)) == ["the agent"]


def test_the_files_of_a_command_are_part_of_the_agent(project, prints):
    program = project.write("agent.sh", "echo a\n")
    before = prints(agent="command:sh ./agent.sh")
    program.write_text("echo b\n")
    assert changed(before, prints(agent="command:sh ./agent.sh")) == ["the agent"]


THIRD_PARTY = """\
from steadyhand.plugins.plugin import Plugin


class Mine:
    name = "mine"

    def __init__(self, settings): ...


class Importing(Mine):
    names_python = True


class Remote(Mine):
    runs_target = False


plugin = Plugin(name="mine", agents={"program": Mine, "importing": Importing, "remote": Remote})
"""


@pytest.mark.parametrize(
    ("agent", "seen"),
    [("program:run ./main.py", False), ("importing:./main.py:agent", True), ("remote:https://a.example/x", False)],
)
def test_what_an_agent_declares_of_its_target_says_where_changes_are_looked_for(project, prints, agent, seen):
    project.write("plug.py", THIRD_PARTY)
    main = project.write("main.py", "import part\n")
    part = project.write("part.py", "x = 1\n")
    options = {"agent": agent, "plugins": ("./plug.py",)}
    before = prints(**options)
    part.write_text("x = 2\n")
    assert changed(before, prints(**options)) == (["the agent"] if seen else [])
    main.write_text("import part  # again\n")
    assert changed(before, prints(**options)) == ([] if agent.startswith("remote") else ["the agent"])


def test_a_key_in_the_address_of_a_third_partys_agent_is_not_part_of_it(project, prints):
    project.write("plug.py", THIRD_PARTY)
    options = {"plugins": ("./plug.py",)}
    one, other = (prints(agent=f"remote:https://a:{key}@h.example/x", **options) for key in ("one-1", "two-22"))
    assert one == other


def test_a_file_that_cannot_be_read_has_no_digest_and_a_large_one_is_sampled(tmp_path):
    assert Sources().digest(tmp_path / "nowhere") is None
    large = tmp_path / "large"
    digests = set()
    for last in (b"a", b"b"):
        with large.open("wb") as file:
            os.truncate(file.fileno(), 65 * 1024 * 1024)
            file.seek(0, 2)
            file.write(last)
        digests.add(Sources().digest(large))
    assert len(digests) == 2
    assert None not in digests


def test_digests_tell_apart_what_reads_alike():
    assert len({short(each) for each in ("1", 1, ["1"], [["1"]], {"1": None})}) == 5
    assert differences({"the model": "a", "the judge": "b"}, {"the model": "a", "a plugin": "c"}) == [
        "the judge has changed",
        "a plugin has changed",
    ]
