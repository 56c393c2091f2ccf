"""Hooks for the documentation site: pages that are generated or outside `docs/`, and a check of the finished site.

MkDocs reads only `docs/`. The README is the front page, and links to files elsewhere in the repository lead to copies
of them, so that the same Markdown works in a checkout and on the site.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools import reference

ROOT = Path(__file__).parents[1]
FRONT = "README.md"
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]*)((?:#[^)\s]*)?\))")
_ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
_FOR_MAINTAINERS = ("decisions/", "tests/", "architecture", "CHANGELOG", "CONTRIBUTING", "licences")
_CANONICAL = ("rel=canonical", 'rel="canonical"')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    generated = {*reference.pages(), "index.md"}
    assert config.nav is not None
    config.nav = _entries(config.nav, generated)
    return config


def _entries(nav: list[Any], generated: set[str]) -> list[Any]:
    """The navigation without missing pages, and with a folder's pages in place of a pattern."""
    kept: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):  # the page of a section itself
            kept.append(entry)
            continue
        ((title, target),) = entry.items()
        if isinstance(target, list):
            if inner := _entries(target, generated):
                kept.append({title: inner})
        elif target.endswith("/*"):
            pages = sorted((ROOT / "docs" / target).parent.glob("*.md"))
            kept.append({title: [each.relative_to(ROOT / "docs").as_posix() for each in pages]})
        elif target in generated or (ROOT / "docs" / target).is_file() or (ROOT / target).is_file():
            kept.append(entry)
    return kept


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "index.md", content=(ROOT / FRONT).read_text(encoding="utf-8")))
    for path in linked_files(files):
        origin = str(ROOT / path)
        files.append(File.generated(config, path.as_posix(), abs_src_path=origin, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def linked_files(files: Files) -> list[PurePosixPath]:
    """The files outside `docs/` that pages link to, and those that these files link to in turn."""
    seen: dict[PurePosixPath, None] = {}
    waiting = [(source(each.src_uri), each.content_string) for each in files.documentation_pages()]
    while waiting:
        page, text = waiting.pop()
        for _, target, _ in _LINK.findall(text):
            found = resolve(page, target)
            if found is None or found in seen or place(found) != found:
                continue
            seen[found] = None
            if found.suffix == ".md":
                waiting.append((found, (ROOT / found).read_text(encoding="utf-8")))
    return list(seen)


def source(page: str) -> PurePosixPath:
    """The file of the repository that a page of the site comes from."""
    if page == "index.md":
        return PurePosixPath(FRONT)
    inside = PurePosixPath("docs") / page
    outside = PurePosixPath(page)
    return outside if not (ROOT / inside).exists() and (ROOT / outside).exists() else inside


def place(file: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository is on the site."""
    if file == PurePosixPath(FRONT):
        return PurePosixPath("index.md")
    return file.relative_to("docs") if file.parts[0] == "docs" else file


def resolve(page: PurePosixPath, target: str) -> PurePosixPath | None:
    """The file that a link leads to; for a folder, the page that shows it. None for a URL or an anchor."""
    if not target or "://" in target or target.startswith("mailto:"):
        return None
    path = PurePosixPath(os.path.normpath(page.parent / target))
    if (ROOT / path).is_dir():
        return _front(path)
    generated = path.parts[:2] == ("docs", "reference")
    return path if generated or (ROOT / path).is_file() else None


def _front(folder: PurePosixPath) -> PurePosixPath | None:
    """What is shown for a folder: its README, else its first page, else the README above it; for `docs/` our own."""
    if folder == PurePosixPath("docs"):
        return PurePosixPath(FRONT)
    if (ROOT / folder / FRONT).is_file():
        return folder / FRONT
    pages = sorted((ROOT / folder).glob("*.md"))
    if pages:
        return PurePosixPath(pages[0].relative_to(ROOT).as_posix())
    above = folder.parent / FRONT
    return above if (ROOT / above).is_file() else None


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    here = PurePosixPath(page.file.src_uri)
    if page.file.src_uri.startswith(_FOR_MAINTAINERS):
        page.meta.setdefault("search", {"boost": 0.1})  # ranked below what users look for

    def moved(link: re.Match[str]) -> str:
        found = resolve(source(page.file.src_uri), link[2])
        return link[0] if found is None else f"{link[1]}{os.path.relpath(place(found), here.parent)}{link[3]}"

    return _LINK.sub(moved, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Raises `PluginError` if a page would load something from elsewhere."""
    for page in Path(config.site_dir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found in _ELSEWHERE.finditer(text):
            if not any(each in found[0] for each in _CANONICAL):
                raise PluginError(f"{page} loads {found[1]}: the site must work without a network")
