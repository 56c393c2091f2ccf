"""The pages name files that exist and link to places that exist."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from tools import reference

from steadyhand.report.json import REPORT_FORMAT

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "steadyhand"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "tests" / "README.md",
    ]
)
# Pages in which every file is one of ours. Elsewhere a bare `my_agent.py` may be the reader's own.
MAPS = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "decisions").glob("*.md")]

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```).*?^\1", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w./-]+\.py)`")


@cache
def generated() -> dict[Path, str]:
    """The pages of the site that are made when it is built."""
    return {ROOT / "docs" / path: text for path, text in reference.pages().items()}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def prose(page: Path) -> str:
    return FENCE.sub("", generated().get(page) or page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The ids that a Markdown host gives to a page's headings."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for target in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not (file.exists() or file in generated()) or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


def missing_sources(page: Path) -> list[str]:
    return [
        each for each in NAMED.findall(prose(page)) if not (SOURCE / each).is_file() and not (ROOT / each).is_file()
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_resolves(page: Path):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", MAPS, ids=name)
def test_every_module_named_on_a_map_exists(page: Path):
    assert missing_sources(page) == []


def test_every_module_in_the_picture_exists():
    picture = (ROOT / "docs" / "images" / "decision.svg").read_text(encoding="utf-8")
    named = re.findall(r">([a-z_/0-9]+\.py)<", picture)
    assert len(named) == 20
    assert [each for each in named if not (SOURCE / each).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_into_the_source_exists(page: Path):
    folders = tuple(f"{each.name}/" for each in SOURCE.iterdir() if each.is_dir())
    assert [each for each in missing_sources(page) if each.startswith((*folders, "src/", "tests/"))] == []


def test_every_page_is_reachable_from_the_readme():
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in LINK.findall(prose(page)):
            file = (page.parent / target.partition("#")[0]).resolve()
            waiting.extend(file.glob("*.md") if file.is_dir() else [file] if file.is_file() else [])
    assert sorted(name(page) for page in set(PAGES) - seen) == []


def in_navigation(entries: list) -> set[str]:
    found: set[str] = set()
    for entry in entries:
        if isinstance(entry, str):
            found.add(entry)
            continue
        ((_, target),) = entry.items()
        found |= in_navigation(target) if isinstance(target, list) else {target}
    return found


def test_every_page_has_its_place_in_the_navigation():
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = in_navigation(yaml.safe_load(text)["nav"])
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("**/*.md")}
    pages = {page for page in pages if not page.startswith("decisions/")}
    assert pages | set(reference.pages()) <= listed


def test_the_tested_versions_are_those_that_are_pinned_and_allowed():
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = ("dev", "docs", "fuzz", "inspect", "frameworks")
    extras = [each for extra, found in project["optional-dependencies"].items() if extra not in own for each in found]
    wanted = dict(re.match(r"([\w.-]+)([^;]*)", each).groups() for each in (*project["dependencies"], *extras))
    page = (ROOT / "docs" / "tested-versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| ([<>=][^|]*) \| (\S+) \|", page, re.MULTILINE)
    assert {package: (allowed, tested) for package, allowed, tested in rows} == {
        package: (allowed.strip(), pinned[package.lower()]) for package, allowed in wanted.items()
    }


def test_the_messages_in_the_troubleshooting_page_are_those_of_the_program():
    source = "".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = [
        each for title in re.findall(r"^### (.+)$", page, re.MULTILINE) for each in re.findall("`(.+?)`", title)
    ]
    assert len(messages) > 10
    assert [each for each in messages if each not in source] == []


def test_the_generated_pages_say_something_of_everything_they_list():
    assert generated()
    for page, text in generated().items():
        sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
        assert [each for each in sections[1:] if not each.partition("\n")[2].strip()] == [], page


def test_the_reference_has_every_command_option_and_key():
    text = "".join(generated().values())
    for name in ("`--until [decided]`", "`judgment`", "`latency_budget`", "`requests_per_minute`", "`time_to_safe_ms`"):
        assert name in text
    assert "def run(" in text
    assert "class Evaluator" in text


def test_the_page_on_the_json_report_names_its_format():
    page = (ROOT / "docs" / "json-report.md").read_text(encoding="utf-8")
    assert re.findall(r"^format +(\d+)$", page, re.MULTILINE) == [str(REPORT_FORMAT)]


def test_the_cluster_of_the_page_on_scale_can_be_read():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    cluster = yaml.safe_load(block)
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    assert len({group["template"]["spec"]["containers"][0]["image"] for group in groups}) == 1
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"ray=={cluster['spec']['rayVersion']}\n" in constraints


def test_a_broken_link_and_a_missing_module_are_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n[one](#title) [two](#other) [three](gone.md)\n`engine/gone.py` `engine/trial.py`\n")
    assert broken_links(page) == ["#other", "gone.md"]
    assert missing_sources(page) == ["engine/gone.py"]
