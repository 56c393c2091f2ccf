"""The answer key of a run: everything that its trials are judged by, in one list; and what keeps it closed.

Copies count too: in version control, in other checkouts of the repository, in the library that ships with us, and files
of the project that have the same content or that we wrote ourselves, such as reports, baselines and labels.
"""

from __future__ import annotations

import contextlib
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from steadyhand.children.key_watch import find_watch
from steadyhand.children.room import find_room
from steadyhand.compose.cast import Cast, Choice
from steadyhand.compose.isolation import check_files
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.ports.isolation import Isolation, NoIsolation
from steadyhand.records.isolation import AnswerKey
from steadyhand.records.scenario import evaluation_specs
from steadyhand.spec.config import SHIPPED, files_of
from steadyhand.store.schema import APPLICATION_ID
from steadyhand.store.schema import SUFFIX as RECORD

_VERSION_CONTROL = (".git", ".hg", ".svn", ".jj")
_URL = re.compile(r"^\s*(?:push)?url\s*=\s*(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_SKIPPED = {"node_modules", "__pycache__", "site-packages", *_VERSION_CONTROL}
_MOST_ENTRIES = 50_000
_MANY = 64
_LARGEST_TEXT = 64 * 2**20
"""A model whose name leads to a larger file has its weights there, not answers."""
_OURS = re.compile(
    rb'\{"baseline":\d+,"run":|\{"format":\d+,\n"run":\{|\{"cassette":\d|run,scenario,trial,check,label|'
    rb'\{"run":"[^"]*","scenario":"[^"]*","trial":\d+,"check":|'
    rb'.{0,2000}(<meta name="generator" content="Steadyhand|<testsuites name="steadyhand )',
    re.DOTALL,
)
"""How the files begin that we write for people to keep where they like."""
_OUR_ENDINGS = (".json", ".jsonl", ".csv", ".html", ".xml", RECORD)


def answer_key(casts: Sequence[Cast], settings: Settings, workspaces: Path) -> AnswerKey:
    """Raises `SetupError` if the records are in a folder that agents need."""
    named = {os.path.realpath(path) for path in _named_files(casts, settings)}
    files = {path for path in named if Path(path).is_file() and not path.endswith(".py")}
    files |= {os.path.realpath(file.path) for cast in casts for file in check_files(cast.scenario, cast.registry)}
    project = {os.path.realpath(settings.project.folder), os.path.realpath(Path.cwd())}
    folders = {path for path in named if Path(path).is_dir()} | {os.path.realpath(SHIPPED), _records(settings)}
    repositories = {found for file in (*files, *project) for found in _repositories(Path(file))}
    needed = _needed(settings)
    folders |= {found for found in repositories if not _holds(found, needed)}
    folders |= {f"{found}/objects" for found in repositories if Path(found, "objects").is_dir()}
    files |= {copy for repository in repositories for copy in _other_checkouts(Path(repository), files)}
    for top in project:
        files |= set(_copies(Path(top), files))
    folders |= {folder for folder in _folded(files) if folder not in project}
    readable = [os.path.realpath(path) for path in settings.agent_can_read]
    outermost = {path for path in folders if not _is_inside_one_of(path, folders)}
    files = {file for file in files if not _is_inside_one_of(file, outermost)}
    shut = [each for path in (*outermost, *files) for each in _around(path, readable)]
    return AnswerKey(
        files=tuple(sorted(path for path in shut if not Path(path).is_dir())),
        folders=tuple(sorted(path for path in shut if Path(path).is_dir())),
        workspaces=os.path.realpath(workspaces),
        readable=tuple(readable),
        fixed=tuple(sorted(_fixed(named, settings, outermost))),
    )


def _named_files(casts: Sequence[Cast], settings: Settings) -> Iterator[str | Path]:
    """What the scenarios and the options name."""
    options, config = settings.options, settings.config
    for cast in casts:
        scenario = cast.scenario
        yield from files_of(scenario)
        yield from (spec.place.file for spec in evaluation_specs(scenario))
        yield from (mock.place.file for mock in scenario.setup.mocks)
        if cast.rubric is not None:
            yield cast.rubric.value
        for chosen in (cast.model, cast.judge, cast.user):
            yield from _file_of(chosen)
    yield from (path for path in (options.replay, options.record, options.rejudge, options.judge_canaries) if path)
    yield config.folder / (config.calibration.file or "calibration.json")


def _file_of(chosen: Choice | None) -> Iterator[Path]:
    """The file that answers for a model, as that of `scripted/FILE` does."""
    if chosen is not None and (rest := chosen.value.partition("/")[2]):
        with contextlib.suppress(OSError, ValueError):
            file = chosen.folder / rest
            if file.is_file() and file.stat().st_size < _LARGEST_TEXT:
                yield file


def _records(settings: Settings) -> str:
    """The folder of the records, which must exist to be hidden. Raises `SetupError`."""
    folder, needed = Path(os.path.realpath(settings.out)), _needed(settings)
    if _holds(str(folder), needed):
        raise SetupError(
            f"the folder for run records, {folder}, contains the project; choose one of its own with --runs"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot create the folder for run records, {folder}: {error.strerror}") from error
    above = folder.parent
    return str(above if above.name == ".steadyhand" and not _holds(str(above), needed) else folder)


def _needed(settings: Settings) -> list[str]:
    """What an agent must be able to read: its project, its interpreter, and us."""
    found = (Path.cwd(), settings.project.folder, sys.prefix, sys.base_prefix, Path(__file__).parents[1])
    return [os.path.realpath(path) for path in found]


def _fixed(named: Iterable[str], settings: Settings, shut: Iterable[str]) -> set[str]:
    """What our own processes load and read from now on, and the next run: whoever changes it decides what passes."""
    virtual = [sys.prefix] if sys.prefix != sys.base_prefix else []
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    shared = Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
    programs = (Path(os.path.realpath(sys.executable)), shared)
    interpreter = [str(path) for path in programs if path.is_file() and os.access(path.parent, os.W_OK)]
    packages = [str(Path(__file__).parents[1]), str(Path(msgspec.__file__).parents[1])]
    own = [*packages, *interpreter, *virtual, *libraries, *user]
    config = [str(file)] if (file := settings.config.file) is not None and file.name != "pyproject.toml" else []
    code = [path for path in named if path.endswith(".py")]
    found = {os.path.realpath(path) for path in (*own, *config, *code) if Path(path).exists()}
    project = [os.path.realpath(path) for path in (Path.cwd(), settings.project.folder)]
    found = {path for path in found if not _holds(path, project) and not any(_is_in(path, each) for each in shut)}
    return {path for path in found if not _is_inside_one_of(path, found)}


def _holds(folder: str, paths: Iterable[str]) -> bool:
    return any(_is_in(path, folder) for path in paths)


def _repositories(file: Path) -> Iterator[str]:
    """The version control that may hold the file, in its folder and above, and what that was cloned from on this
    machine."""
    for folder in (file, *file.parents):
        for name in _VERSION_CONTROL:
            found = folder / name
            if found.is_dir():
                yield os.path.realpath(found)
                yield from map(str, (*_lenders(found), *_origins(found)))
            elif name == ".git" and found.is_file():  # another working tree, or a submodule
                with contextlib.suppress(OSError, ValueError):
                    place = found.parent / found.read_text().partition("gitdir:")[2].strip()
                    common = place / "commondir"
                    yield os.path.realpath(place)
                    if common.is_file():
                        shared = place / common.read_text().strip()
                        yield os.path.realpath(shared)
                        yield from map(str, (*_lenders(shared), *_origins(shared)))


def _lenders(repository: Path) -> Iterator[Path]:
    """Where a repository of Git finds the objects that it does not have itself, as a clone with `--shared` does."""
    waiting, seen = [repository / "objects"], set[Path]()
    while waiting:
        objects = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for line in (objects / "info" / "alternates").read_text().splitlines():
                lender = Path(os.path.realpath(objects / line))
                if line.strip() and lender.is_dir() and lender not in seen:
                    seen.add(lender)
                    waiting.append(lender)
                    yield lender


def _origins(repository: Path) -> Iterator[Path]:
    """The repositories in folders of this machine that it was cloned from or pushes to."""
    with contextlib.suppress(OSError, ValueError):
        for url in _URL.findall((repository / "config").read_text()):
            place = repository.parent / url.removeprefix("file://")
            with contextlib.suppress(OSError):
                found = place / ".git" if (place / ".git").is_dir() else place
                if (found / "objects").is_dir():
                    yield Path(os.path.realpath(found))


def _other_checkouts(repository: Path, files: Iterable[str]) -> Iterator[str]:
    """The same files in the other working trees of a repository, and of those that it was cloned from."""
    trees = [repository.parent, *(origin.parent for origin in _origins(repository))]
    for each in repository.glob("worktrees/*/gitdir"):
        with contextlib.suppress(OSError, ValueError):
            trees.append(Path(each.read_text().strip()).parent)
    for file in files:
        for own in trees:
            if Path(file).is_relative_to(own):
                inside = Path(file).relative_to(own)
                yield from (os.path.realpath(tree / inside) for tree in trees if (tree / inside).is_file())


def _copies(top: Path, files: Iterable[str]) -> Iterator[str]:
    """Files of the project with the same content, and those that we wrote."""
    sizes: dict[int, list[str]] = {}
    for file in files:
        sizes.setdefault(os.stat(file).st_size, []).append(file)  # noqa: PTH116
    for path, size in _project_files(top):
        with contextlib.suppress(OSError):
            alike = sizes.get(size, ()) if size else ()
            if (path.endswith(_OUR_ENDINGS) and _is_ours(path)) or any(_same(path, file) for file in alike):
                yield os.path.realpath(path)


def _folded(files: Iterable[str]) -> Iterator[str]:
    """Folders of many files that hold nothing else: hiding each file by itself would slow down every start."""
    inside: dict[str, set[str]] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        inside.setdefault(folder, set()).add(name)
    for folder, names in inside.items():
        if len(names) >= _MANY and names.issuperset(os.listdir(folder)):  # noqa: PTH208
            yield folder


def _project_files(top: Path) -> Iterator[tuple[str, int]]:
    waiting, seen = [str(top)], 0
    while waiting and seen < _MOST_ENTRIES:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    virtual = os.path.exists(f"{entry.path}/pyvenv.cfg")  # noqa: PTH110 - for every folder
                    if entry.name not in _SKIPPED and not virtual:
                        waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False).st_size


def _is_ours(path: str) -> bool:
    with Path(path).open("rb") as file:
        head = file.read(4096)
    if path.endswith(RECORD):
        return int.from_bytes(head[68:72], "big") == APPLICATION_ID
    return _OURS.match(head) is not None


def _same(one: str, other: str) -> bool:
    return Path(one).samefile(other) or Path(one).read_bytes() == Path(other).read_bytes()


def _around(path: str, readable: Sequence[str]) -> Iterator[str]:
    """The path itself, or what is left of it to hide if some of it may be read."""
    if any(_is_in(path, each) for each in readable):
        return
    if not any(_is_in(each, path) for each in readable):
        yield path
        return
    for entry in os.scandir(path):
        yield from _around(entry.path, readable)


def _is_inside_one_of(path: str, folders: Iterable[str]) -> bool:
    """Whether it is in another of these folders."""
    return any(path != folder and _is_in(path, folder) for folder in folders)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def choose_isolation(casts: Sequence[Cast], settings: Settings, workspaces: Path) -> tuple[Isolation, str]:
    """The best that the user permits and the machine can do, and what to say about it, if anything.

    Raises `SetupError` if the user asked for something that cannot be had.
    """
    choice = settings.isolation
    if choice == "none":
        return NoIsolation(), ""
    reasons: list[str] = []
    try:
        key = answer_key(casts, settings, workspaces)
    except SetupError as error:
        if choice != "auto":
            raise SetupError(f"--isolation {choice}: {error}") from error
        return NoIsolation(), f"isolation: none: {error}"
    for kind, find in (("room", find_room), ("watched", find_watch)):
        if choice in ("auto", kind):
            found = find(key)
            if not isinstance(found, str):
                return found, ""
            reasons.append(found)
            if choice == kind:
                raise SetupError(f"--isolation {kind}: this machine cannot do that: {found}")
    return NoIsolation(), (
        f"isolation: none: agents could read what they are judged by, and nobody would see it ({'; '.join(reasons)})"
    )
