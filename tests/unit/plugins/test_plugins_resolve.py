from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steadyhand.errors import SetupError
from steadyhand.plugins.registry import InstalledPlugins, Registry
from steadyhand.plugins.resolve import ResolvedPlugins, installed_plugins, resolve_plugins
from steadyhand.records.location import Place
from steadyhand.records.scenario import PluginRef

PLUGIN = "from steadyhand.plugins.plugin import Plugin\n"


def ref(name: str, **fields: Any) -> PluginRef:
    return PluginRef(name=name, place=Place(file="a.yaml", line=4, column=3), **fields)


def resolve(folder: Path, *refs: PluginRef, live: bool = False) -> ResolvedPlugins:
    return resolve_plugins(refs, folder=folder, live=live)


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages: one distribution with two entry points."""
    site = tmp_path / "site"
    package = site / "steadyhand_probe"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        PLUGIN
        + "plugin = Plugin(name='probe', actions={'probe': 'steadyhand_probe.parts:probe'})\n"
        + "from steadyhand.plugin import plugin_factory\n@plugin_factory\n"
        + "def make(config):\n    return Plugin(name='made', version=config['v'])\n"
        + "wrong = 3\n"
    )
    info = site / "steadyhand_probe-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: steadyhand-probe\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text(
        "[steadyhand.plugins]\nprobe = steadyhand_probe:plugin\n@acme/plugin-make = steadyhand_probe:make\n"
    )
    sys.path.insert(0, str(site))
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        for name in [name for name in sys.modules if name.startswith("steadyhand_probe")]:
            del sys.modules[name]


def test_an_entry_point_has_its_packages_version(tmp_path: Path, packages: Path):
    (plugin,) = resolve(tmp_path, ref("probe", version=">=2,<3", config={"a": 1})).plugins
    assert (plugin.name, plugin.version, plugin.config) == ("probe", "2.1", {"a": 1})


def test_an_entry_point_may_be_named_as_in_npm(tmp_path: Path, packages: Path):
    resolved = resolve(tmp_path, ref("@acme/plugin-make", config={"v": "3.0"}), live=True)
    assert [(plugin.name, plugin.version) for plugin in resolved.plugins] == [("made", "3.0")]


def test_an_installed_factory_that_needs_a_configuration_is_for_those_who_name_it(tmp_path: Path, packages: Path):
    assert [plugin.name for plugin in installed_plugins(InstalledPlugins())] == ["probe"]
    with pytest.raises(SetupError, match=r"plugin '@acme/plugin-make': it raised when given its config: .*KeyError"):
        resolve(tmp_path, ref("@acme/plugin-make"))


def test_a_factory_that_is_named_twice_is_one_plugin_made_of_the_later_configuration(tmp_path: Path):
    (tmp_path / "made.py").write_text(
        PLUGIN + "from steadyhand.plugin import plugin_factory\n@plugin_factory\n"
        "def plugin(config):\n    return Plugin(name='made', services={'it': [config['a']]}, models={'m': 'x:y'})\n"
    )
    project, scenario = (resolve(tmp_path, ref("./made.py", config={"a": a})).plugins for a in (1, 2))
    registry = Registry([]).extended(project).extended(scenario)
    assert registry.part("services", "it") == [2]
    (tmp_path / "other.py").write_text((tmp_path / "made.py").read_text())
    other = resolve(tmp_path, ref("./other.py", config={"a": 3})).plugins
    with pytest.raises(SetupError, match="both provide the model provider 'm'"):
        registry.extended(other)
    with pytest.raises(SetupError, match=r"both provide the model provider 'm'"):
        resolve(tmp_path, ref("./made.py", config={"a": 1}), ref("./made.py", config={"a": 2}))


def test_entry_points_are_read_once(tmp_path: Path, packages: Path):
    installed = InstalledPlugins()
    assert "probe" in installed.names()
    (packages / "steadyhand_probe-2.1.dist-info" / "entry_points.txt").write_text("")
    assert resolve_plugins([ref("probe")], folder=tmp_path, live=False, installed=installed).plugins


def test_an_import_path(tmp_path: Path, packages: Path):
    resolved = resolve(tmp_path, ref("steadyhand_probe:plugin"), ref("steadyhand_probe:make", config={"v": "1"}))
    assert [plugin.name for plugin in resolved.plugins] == ["probe", "made"]
    with pytest.raises(
        SetupError, match=r"a\.yaml:4:3: plugin 'steadyhand_probe:nope': .*it has a plugin named 'plugin'"
    ):
        resolve(tmp_path, ref("steadyhand_probe:nope"))
    with pytest.raises(SetupError, match="expected a Plugin or a function declared as a plugin factory, found int"):
        resolve(tmp_path, ref("steadyhand_probe:wrong"))
    with pytest.raises(SetupError, match="cannot import no_such_module_here"):
        resolve(tmp_path, ref("no_such_module_here:plugin"))
    with pytest.raises(SetupError, match=r"it raised when given its config: .*__init__\.py:6: KeyError: 'v'"):
        resolve(tmp_path, ref("steadyhand_probe:make"))


@pytest.mark.parametrize("name", ["mine.py", "./mine.py", "./mine.py:plugin", "mine.py:other"])
def test_a_file_beside_the_scenario(tmp_path: Path, name: str):
    (tmp_path / "neighbour.py").write_text("NAME = 'mine'\n")
    (tmp_path / "mine.py").write_text(PLUGIN + "import neighbour\nplugin = other = Plugin(name=neighbour.NAME)\n")
    before = list(sys.path)
    (plugin,) = resolve(tmp_path, ref(name, config={"k": "v"})).plugins
    assert (plugin.name, plugin.config) == ("mine", {"k": "v"})
    assert sys.path == before
    assert "neighbour" not in sys.modules
    assert "mine" not in sys.modules


def test_neighbours_of_different_plugins_are_kept_apart(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shared_name.py").write_text(f"NAME = {folder!r}\n")
        (tmp_path / folder / "mine.py").write_text(PLUGIN + "import shared_name as s\nplugin = Plugin(name=s.NAME)\n")
    names = [plugin.name for plugin in resolve(tmp_path, ref("a/mine.py"), ref("./b/mine.py")).plugins]
    assert names == ["a", "b"]


def test_a_changed_file_is_read_again(tmp_path: Path):
    file = tmp_path / "mine.py"
    for name in ("one", "two"):
        file.write_text(PLUGIN + f"plugin = Plugin(name={name!r})\n")
        assert resolve(tmp_path, ref("mine.py")).plugins[0].name == name


FACTORY = "from steadyhand.plugin import plugin_factory\n@plugin_factory\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nplugin = 1 / 0\n", "mine.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\n\ndef (\n", "mine.py:3: SyntaxError: "),
        ("import sys\nsys.exit(3)\n", "mine.py:2: SystemExit: 3"),
        ("import nothing_of_this_name\n", "mine.py:1: ModuleNotFoundError: "),
        ("x = 1\n", "mine.py has no 'plugin'; define `plugin = Plugin(...)` in it"),
        ("plugin = 5\n", "expected a Plugin or a function declared as a plugin factory, found int"),
        ("def plugin(config): ...\n", "found function; to use a function that returns one, decorate it"),
        (f"{FACTORY}def plugin(config): return 5\n", "the plugin factory returned int; expected a Plugin"),
        (f"{FACTORY}def plugin(): ...\n", "it raised when given its config: TypeError: plugin() takes 0 positional"),
    ],
)
def test_a_broken_file_says_where(tmp_path: Path, source: str, message: str):
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(SetupError) as raised:
        resolve(tmp_path, ref("mine.py"))
    assert str(raised.value).startswith("a.yaml:4:3: plugin 'mine.py': ")
    assert message in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(SetupError, match=r"plugin file .*mine\.py: No such file or directory"):
        resolve(tmp_path, ref("./mine.py"))


def test_what_is_not_enabled_is_left_out_unlooked_at(tmp_path: Path):
    assert resolve(tmp_path, ref("nowhere", enabled=False)) == ResolvedPlugins()


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("1.4.2", None),
        ("==1.4.*", None),
        (">=1,<2", None),
        ("~=1.4", None),
        ("*", None),
        ("1.4", "version 1.4 is required, found 1.4.2"),
        (">=2", "version >=2 is required, found 1.4.2"),
        ("^1.0", "is not understood"),
    ],
)
def test_versions(tmp_path: Path, wanted: str, complaint: str | None):
    (tmp_path / "mine.py").write_text(PLUGIN + "plugin = Plugin(name='m', version='1.4.2')\n")
    if complaint is None:
        assert resolve(tmp_path, ref("mine.py", version=wanted)).plugins
    else:
        with pytest.raises(SetupError, match=complaint.replace("^", r"\^")):
            resolve(tmp_path, ref("mine.py", version=wanted))


def test_a_plugin_without_a_version_cannot_meet_one(tmp_path: Path):
    (tmp_path / "mine.py").write_text(PLUGIN + "plugin = Plugin(name='m')\n")
    with pytest.raises(SetupError, match="does not declare one"):
        resolve(tmp_path, ref("mine.py", version="1"))


def test_names_of_the_runtimes_own_parts_are_accepted_silently(tmp_path: Path):
    refs = [ref(f"@elizaos/plugin-{name}") for name in ("bootstrap", "sql", "openai", "anthropic", "ollama", "node")]
    assert resolve(tmp_path, *refs, live=True) == ResolvedPlugins()
    (warning,) = resolve(tmp_path, ref("@elizaos/plugin-sql", config={"url": "x"})).warnings
    assert "`config` of '@elizaos/plugin-sql' is not used" in warning


@pytest.mark.parametrize("name", ["@elizaos/plugin-github", "@acme/thing"])
def test_a_plugin_of_the_other_world_is_a_warning_and_in_live_mode_an_error(tmp_path: Path, name: str):
    (warning,) = resolve(tmp_path, ref(name)).warnings
    assert "the agent lacks its actions unless they are mocked" in warning
    with pytest.raises(SetupError, match="in live mode no mock replaces it"):
        resolve(tmp_path, ref(name), live=True)


def test_an_unknown_name_says_what_there_is(tmp_path: Path, packages: Path):
    with pytest.raises(SetupError) as raised:
        resolve(tmp_path, ref("prob"))
    text = str(raised.value)
    assert "did you mean 'probe'?" in text
    assert (
        "Looked for an entry point 'prob' in the group 'steadyhand.plugins' (installed: @acme/plugin-make, probe"
        in text
    )


@pytest.mark.parametrize(
    ("point", "noun"),
    [("actions", "action"), ("services", "service"), ("evaluators", "evaluation type"),
     ("terminations", "termination condition")],
)  # fmt: skip
def test_two_plugins_may_not_bring_the_same(tmp_path: Path, point: str, noun: str):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(PLUGIN + f"plugin = Plugin(name='same', {point}={{'x': 'a:b'}})\n")
    with pytest.raises(SetupError, match=rf"'one\.py \(a.yaml:4:3\)' and 'two\.py .* both provide the {noun} 'x'"):
        resolve(tmp_path, ref("one.py"), ref("two.py"))
