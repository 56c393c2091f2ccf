"""Every command and file of the documentation works, and prints what the page shows.

A page is a story in one folder: its blocks run in order, as a reader would type them. A `console` block is run, and
what it shows is compared; `...` on a line of its own stands for any lines. A command may end with 0, or with what a
following `echo $?` shows; a run whose output is not shown may also fail. A block with a `title` is a file. Other blocks
of `yaml`, `toml`, `json` and `python` are parts of files, and must fit where they belong.

`<!-- not run: REASON -->` before a block exempts it. `<!-- output varies: REASON -->` runs it and compares nothing.
The folder has some scenarios, agents and a configuration; `<!-- an empty folder -->` on the page asks for none of that.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from steadyhand.testing import Answer
from support.loopback import Loopback
from support.pages import (
    PAGES,
    ROOT,
    Block,
    Command,
    blocks,
    check_file,
    check_part,
    commands,
    commands_in_prose,
    parse,
)
from support.shell import AGENT, Shell

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

REPLY = "I call for help now. Hello."
REFUND = """\
name: A refund
description: A customer wants their money back.
environment: {type: local}
setup:
  mocks:
    - {service: shop, method: refund, response: done, metadata: {delay: 0}}
run:
  - input: I want my money back.
    conversation:
      max_turns: 3
      user_simulator: {persona: a customer, objective: a refund}
      final_evaluations:
        - {type: string_contains, value: help}
judgment: {strategy: all_pass}
"""
MAY_FAIL = ("run", "resume", "matrix", "rejudge")
_SHELL_SYNTAX = re.compile(r"[|&;<>$`*~]|^\w+=")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def model_server():
    with Loopback(Answer(text=REPLY)) as server:
        yield server


@pytest.fixture
def reader(tmp_path: Path, monkeypatch, command_server, model_server) -> Reader:
    monkeypatch.chdir(tmp_path)  # where a part of a scenario looks for files
    return Reader(Shell(tmp_path, command_server), model_server.url)


class Reader:
    """Someone who follows a page, in a folder with the examples and some scenarios of their own."""

    def __init__(self, shell: Shell, server: str) -> None:
        self.shell = shell
        self.folder = shell.folder
        self._variables = {"OPENAI_BASE_URL": server, "OPENAI_API_KEY": "sk-of-the-docs"}
        self.code = 0
        self.last = ""

    def settle(self, page: str) -> None:
        if "<!-- an empty folder -->" in page:
            return
        for folder in ("examples", "configs"):
            if f"{folder}/" in page:
                shutil.copytree(ROOT / folder, self.folder / folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        self.shell.decision("scenarios/urgent.yaml")
        self.shell.write("scenarios/greeting.scenario.yaml", AGENT)
        self.shell.write("refund.scenario.yaml", REFUND)
        for each in ("bring_your_own/my_agent.py", "bring_your_own/agent.mjs", "plugins/orders_plugin.py"):
            shutil.copy(ROOT / "examples" / each, self.folder)
        config = self.shell.replies(f"rules:\n  - reply: {REPLY}\n")
        if "--agent python:" in page:  # with a process for each trial at a time, slower to start than to answer
            config.write_text(f"{config.read_text()}concurrency = 2\n")

    def follow(self, block: Block) -> None:
        if block.language == "console":
            for command in commands(block):
                self.type(command, block)
        elif block.title:
            check_file(self.shell.write(block.title, block.text), self.folder)
        else:
            check_part(block, self.folder)

    def type(self, command: Command, block: Block) -> None:
        if command.line == "echo $?":
            assert command.shown == [str(self.code)], block.place
            self.code = 0
            return
        assert self.code == 0, f"{block.place}: before `{command.line}`, a command ended with {self.code}: {self.last}"
        self.code, self.last = self.run(command.line)
        if command.shown and not block.varies:
            assert_shown(self.last, command.shown)
        elif self.code in {1, 3} and command.line.split()[1:2] and command.line.split()[1] in MAY_FAIL:
            self.code = 0

    def run(self, line: str) -> tuple[int, str]:
        words = line.split("  #", maxsplit=1)[0].rstrip()
        if words.startswith("steadyhand ") and not _SHELL_SYNTAX.search(words):
            ended = self.shell(*shlex.split(words)[1:], **self._variables)
            return ended.code, ended.out or ended.err
        ran = subprocess.run(
            ["bash", "-c", words],
            cwd=self.folder,
            env=self.shell.environment(**self._variables),
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stdout or ran.stderr


def steady(text: str) -> str:
    """Without what differs from run to run: times and their column in a table, ids, and the width of a table."""
    text = re.sub(r"^record: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?:latency|time to safe): (?:.+\n)+", "", text, flags=re.MULTILINE)
    text = re.sub(r" +(?:[\d.,]+ m?s|needs \d+|latency p50)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b[\d.,]+ m?s\b", "# ms", text)
    text = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "RUN", text)
    text = re.sub(r"[─━-]{3,}", "---", text)
    return re.sub(r"[ \t]+", " ", text)


def assert_shown(printed: str, shown: list[str]) -> None:
    """What is shown was printed, in this order, with anything in place of `...` and nothing more elsewhere."""
    pieces = [
        re.escape(steady("\n".join(piece.split("\n"))).strip("\n"))
        for piece in re.split(r"^\.\.\.$", "\n".join(shown), flags=re.MULTILINE)
    ]
    pattern = r"(?:.*\n)?".join(f"{piece}\n?" if piece else "" for piece in pieces)
    if not re.fullmatch(pattern, steady(printed).strip("\n") + "\n", re.DOTALL):
        assert steady(printed) == steady("\n".join(shown))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_and_files_of_a_page_work(reader: Reader, page: Path):
    told = [each for each in blocks(page) if each.language != "text" and each.not_run is None]
    reader.settle(page.read_text(encoding="utf-8"))
    for block in told:
        try:
            reader.follow(block)
        except Exception as error:
            error.add_note(f"in the block at {block.place}")
            raise
    assert reader.code == 0, reader.last


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_command_is_hidden_from_the_tests(page: Path):
    assert commands_in_prose(page) == []


def page_of(text: str) -> list[Block]:
    return parse(ROOT / "docs" / "made-up.md", text)


def test_what_a_page_shows_must_be_printed(reader: Reader):
    reader.settle("")
    (right, wrong) = page_of(
        "```console\n$ steadyhand --version\n...\n```\n\n"
        "```console\n$ steadyhand --version\nsteadyhand, version 0\n```\n"
    )
    reader.follow(right)
    with pytest.raises(AssertionError):
        reader.follow(wrong)


def test_a_command_that_fails_must_say_so(reader: Reader):
    reader.settle("")
    (block,) = page_of("```console\n$ steadyhand validate gone.yaml\n$ steadyhand --version\n```\n")
    with pytest.raises(AssertionError, match="ended with 2"):
        reader.follow(block)
    reader.code = 0
    (block,) = page_of("```console\n$ steadyhand validate gone.yaml\n$ echo $?\n2\n```\n")
    reader.follow(block)


@pytest.mark.parametrize(
    "text",
    [
        "```yaml\n- type: string_contains\n  valu: x\n```\n",
        "```yaml\nconversation:\n  max_turn: 3\n```\n",
        '```toml\nmodell = "openai/x"\n```\n',
        "```python\nfrom steadyhand.plugin import Nothing\n```\n",
        "```python\nsteadyhand.nothing()\n```\n",
        '```yaml title="a.scenario.yaml"\nname: x\nrun: []\n```\n',
        "```sh\nls\n```\n",
    ],
)
def test_a_part_that_does_not_fit_is_found(reader: Reader, text: str):
    (block,) = page_of(text)
    with pytest.raises((AssertionError, steadyhand_error())):
        reader.follow(block)


def steadyhand_error() -> type[Exception]:
    from steadyhand.errors import SteadyhandError

    return SteadyhandError


def test_the_mark_before_a_block_gives_the_reason():
    marked, other = page_of("<!-- not run: a cluster -->\n```console\n$ kubectl\n```\n\n```console\n$ ls\n```\n")
    assert (marked.not_run, other.not_run) == ("a cluster", None)
