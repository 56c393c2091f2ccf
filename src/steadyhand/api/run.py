"""Run scenarios from Python. `import steadyhand` has these names; docs/python-api.md documents this module for users.

Nothing here prints, handles signals, changes the garbage collector or reads a configuration unless asked to.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from steadyhand.api.result import RunResult, StrPath
from steadyhand.compose.execution import Execution
from steadyhand.compose.run import Run, quick_loop
from steadyhand.compose.scenarios import Given, combinations_of, load_files, open_registries
from steadyhand.compose.settings import Settings, under_test
from steadyhand.errors import DamagedRecord, SetupError, StoreError
from steadyhand.judging.run_comparison import Comparison
from steadyhand.plugins.plugin import AgentSettings, Plugin
from steadyhand.ports.observer import RunObserver
from steadyhand.reading.run import Reading
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.isolation import IsolationChoice
from steadyhand.records.scenario import Scenario
from steadyhand.spec.load import Loaded
from steadyhand.store.reader import RunReader, find_run
from steadyhand.suggestion import nearest

Source = StrPath | Mapping[str, Any] | Scenario
"""A file, folder, glob or library; a dictionary with the structure of a scenario file; or a `Scenario` from `load`."""

AnyAgent = str | Callable[..., Any]
T = TypeVar("T")
_AUTO = "auto"
_CALLABLE = "callable"
_BESIDE = ("agent", "config", "plugins", "observer")


class RunArguments(TypedDict, total=False):
    """The options of `steadyhand run`, with the same defaults."""

    tags: Sequence[str]
    ids: Sequence[str]
    expression: str | None
    filters: Sequence[str]
    variants: bool
    faults: bool
    margin: float | None
    model: str | Sequence[str] | None
    judge: str | None
    user_model: str | None
    environment: str | None
    live: bool
    env_file: StrPath | None
    seed: int | None
    out: StrPath | None
    concurrency: int | None
    workers: int | None
    engine: Literal["local", "ray"] | None
    ray_address: str | None
    ray_env: Sequence[str]
    timeout_s: float | None
    retries: int | None
    wait_limit_s: float | None
    stall_limit_s: float | None
    strict_judge: bool
    judge_canaries: StrPath | None
    sandbox: bool
    isolation: IsolationChoice | None
    agent_can_read: Sequence[str]
    allow_commands: bool
    enforce_deadline: bool
    judge_timeline: bool
    in_process: bool
    trust: bool
    trials: int | None
    pass_rate: float | None
    until: Literal["decided"] | None
    alpha: float | None
    record: StrPath | None
    replay: StrPath | None
    replay_time: Literal["zero", "original"]
    max_cost: float | None
    max_tokens: int | None
    otlp_port: int | None


def run(
    scenarios: Source | Iterable[Source],
    *,
    agent: AnyAgent | Sequence[AnyAgent] | None = None,
    config: StrPath | None = None,
    plugins: Sequence[Plugin | str] = (),
    observer: RunObserver | None = None,
    **options: Unpack[RunArguments],
) -> RunResult:
    """Run scenarios and return the result.

    `agent` is a kind such as `runtime`, or your own function or class, which is called in this process. With a list of
    agents or models, every combination is a separate target. `config` is a configuration file, or `auto` to look for
    one as the command does; without it none is read. `plugins` are objects, or names as for `--plugin`. The other
    options are those of the command.

    The run has its own thread and event loop, so this works in any context. Raises `UsageError` if it cannot start, and
    `StoreError` if its record cannot be written.
    """
    _check_observer(observer)
    prepared = prepare(scenarios, agent=agent, config=config, plugins=plugins, **options)
    factory = quick_loop() if prepared.needs_network else None
    return _in_own_thread(lambda: _execute(prepared, observer), factory)


async def run_async(
    scenarios: Source | Iterable[Source],
    *,
    agent: AnyAgent | Sequence[AnyAgent] | None = None,
    config: StrPath | None = None,
    plugins: Sequence[Plugin | str] = (),
    observer: RunObserver | None = None,
    **options: Unpack[RunArguments],
) -> RunResult:
    """The same on the running event loop. If it is cancelled, the record keeps the finished trials.

    If other code delays the loop during a call, the call's latency is not graded where that could change the grade.
    """
    _check_observer(observer)
    prepared = await asyncio.to_thread(prepare, scenarios, agent=agent, config=config, plugins=plugins, **options)
    return await _execute(prepared, observer)


def load(paths: Source | Iterable[Source], *, plugins: Sequence[Plugin | str] = ()) -> Loaded:
    """Load and check scenarios without running anything. Plugins that a file names by path or module are not loaded;
    names that only they could define cause a warning.

    A matrix is expanded to its combinations. Raises `SetupError` for a plugin or a library that is not found.
    """
    named, objects = _plugins(plugins)
    files, given = _sorted_out(paths, objects)
    registries = open_registries(Settings(RunOptions(ignore_config=True, plugins=named)), given, checking=True)
    loaded = load_files(files, registries, given)
    combinations, problems = combinations_of(loaded, registries)
    return msgspec.structs.replace(
        loaded,
        scenarios=(*loaded.scenarios, *combinations, *given.scenarios),
        problems=(*loaded.problems, *problems),
    )


def open_run(run: StrPath, *, out: StrPath | None = None, config: StrPath | None = None) -> RunResult:
    """Open a recorded run: by the path of its record, or by id, a prefix of an id, or `last`, in the folder `out`.

    Raises `StoreError` if there is no such run, or it cannot be read.
    """
    _, options = _records((), {"out": out, **_configuration(config)})
    if not isinstance(run, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is typed
        raise SetupError(f"`run` is {run!r}; expected the path of a record, an id or `last`")
    if isinstance(run, os.PathLike):
        return RunResult(RunReader.open(Path(run).absolute()))
    return RunResult(RunReader.open(find_run(Settings(options).out, run).absolute()))


def compare(
    *runs: RunResult | StrPath,
    confidence: float = 0.95,
    pair_changed: bool = False,
    out: StrPath | None = None,
    config: StrPath | None = None,
) -> Comparison:
    """Compare runs, each with the first, paired by scenario; a single run compares its targets.

    A run is a `RunResult`, anything that `open_run` takes, the path of a JSON report, or `RUN@TARGET` for one target.
    Raises `StoreError` when a run cannot be read, and `SetupError` when there is nothing to compare it with.
    """
    from steadyhand.compose.comparison import compare_sources, open_source, read_source

    if not isinstance(confidence, int | float) or not 0 < confidence < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
        raise SetupError(f"expected a confidence between 0 and 1, got {confidence!r}")
    if not runs:
        raise SetupError("nothing to compare: give at least one run")
    for each in runs:
        if not isinstance(each, RunResult | str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
            raise SetupError(f"a run to compare is {each!r}; expected a RunResult, a path or an id")
    _, options = _records((), {"out": out, **_configuration(config)})
    folder = Settings(options).out
    sources = [
        read_source(Reading.open(each.path)) if isinstance(each, RunResult) else open_source(folder, os.fspath(each))
        for each in runs
    ]
    return compare_sources(sources, confidence=confidence, pair_changed=pair_changed)


class _Sources(NamedTuple):
    files: tuple[str, ...]
    given: Given


def _sorted_out(scenarios: Source | Iterable[Source], plugins: Sequence[Plugin]) -> _Sources:
    """Raises `SetupError` for anything that is not a scenario."""
    is_several = isinstance(scenarios, Iterable) and not isinstance(
        scenarios, str | bytes | os.PathLike | Mapping | Scenario
    )
    several = cast("Iterable[Any]", scenarios if is_several else (scenarios,))
    files: list[str] = []
    data: list[Mapping[str, Any]] = []
    built: list[Scenario] = []
    for each in several:
        if isinstance(each, Scenario):
            built.append(_checked(each))
        elif isinstance(each, Mapping):
            data.append(cast("Mapping[str, Any]", each))
        elif isinstance(each, str | os.PathLike):
            files.append(os.fspath(cast("StrPath", each)))
        else:
            hint = "; pass its `scenarios`" if isinstance(each, Loaded) else ""
            expected = "a path, a dictionary with the structure of a scenario file, or a Scenario"
            raise SetupError(f"expected {expected}; found {_described(each)}{hint}")
    return _Sources(tuple(files), Given(data=tuple(data), scenarios=tuple(built), plugins=tuple(plugins)))


def _checked(scenario: Scenario) -> Scenario:
    """Raises `SetupError` for one that was built or changed with a value of the wrong type, which `msgspec` accepts."""
    try:
        msgspec.convert(msgspec.to_builtins(scenario, enc_hook=str), Scenario)
    except (msgspec.ValidationError, TypeError) as error:
        what, _, where = _in_python(str(error)).partition(" - at `$.")
        field = f"`{where}" if where else "a value"
        raise SetupError(f"the Scenario {scenario.id!r} is wrong: {field}: {what}") from None
    return scenario


def _check_observer(observer: object) -> None:
    missing = [name for name in vars(RunObserver) if not name.startswith("_") and not hasattr(observer, name)]
    if observer is not None and missing:
        hint = "derive its class from steadyhand.plugin.RunObserver, whose methods do nothing"
        raise SetupError(f"`observer` is {observer!r}, which has no method `{missing[0]}`; {hint}")


def _described(value: object) -> str:
    """What was given instead, for a message."""
    if value is None or isinstance(value, bool | int | float | bytes):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def prepare(
    scenarios: Source | Iterable[Source],
    *,
    agent: AnyAgent | Sequence[AnyAgent] | None = None,
    config: StrPath | None = None,
    plugins: Sequence[Plugin | str] = (),
    checking: bool = False,
    **options: Unpack[RunArguments],
) -> Run:
    """The run that `run` would execute; with `checking`, for inspection only. Raises `UsageError` for anything that
    would prevent it from starting."""
    for name in options:
        if name not in RunArguments.__annotations__:
            near = nearest(name, (*RunArguments.__annotations__, *_BESIDE))
            raise TypeError(f"run() has no option {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    names, objects = _plugins(plugins)
    named: dict[str, Any] = {**options, **_configuration(config), "plugins": names}
    agents, callers = _agents(_several(agent))
    objects = (*objects, *callers)
    named |= under_test(_several(named.pop("model", None)), agents)
    files, given = _sorted_out(scenarios, objects)
    selection, run_options = _records(files, named)
    return Run(selection, run_options, given=given, checking=checking)


def _plugins(given: Sequence[Plugin | str]) -> tuple[tuple[str, ...], tuple[Plugin, ...]]:
    """The plugins given by name, and those given as objects. Raises `SetupError` for anything else."""
    many = cast("object", given)
    several = cast("Sequence[Any]", many if isinstance(many, list | tuple | set | frozenset) else (many,))
    for each in several:
        if not isinstance(each, str | Plugin):
            raise SetupError(f"expected a Plugin or the name of one in `plugins`; found {_described(each)}")
    named = tuple(each for each in several if isinstance(each, str))
    return named, tuple(each for each in several if isinstance(each, Plugin))


def _configuration(config: StrPath | None) -> dict[str, Any]:
    """The value for the options of a run, which search for a configuration unless told otherwise."""
    return {"config": None if config == _AUTO else config, "ignore_config": config is None}


def _several(value: Any) -> tuple[Any, ...]:
    """One value or several; None if there are none."""
    if value is None:
        return ()
    return tuple(cast("Iterable[Any]", value)) if isinstance(value, list | tuple) else (value,)


def _agents(given: Sequence[Any]) -> tuple[list[str], list[Plugin]]:
    """The agents' names, and a plugin for each one that is an object.

    Raises `SetupError` for one that is neither a name nor callable, and for one that is given twice.
    """
    names: list[str] = []
    plugins: list[Plugin] = []
    for position, each in enumerate(given):
        if not isinstance(each, str) and any(each is earlier for earlier in given[:position]):
            raise SetupError(f"the agent {_name_of(each)} is given twice; name each target once")
        if callable(each):
            kind = f"{_CALLABLE}-{len(plugins) + 1}" if plugins else _CALLABLE
            plugins.append(_agent_plugin(each, kind))
            names.append(f"{kind}:{_name_of(each)}")
        elif isinstance(each, str):
            names.append(each)
        else:
            found = type(each).__qualname__
            hint = f"; pass the class {found}, so that each trial gets its own" if hasattr(each, "respond") else ""
            raise SetupError(f"`agent` must be an agent kind, a function or a class, not {each!r}{hint}")
    return names, plugins


def _agent_plugin(agent: Callable[..., Any], kind: str) -> Plugin:
    from steadyhand.builtin.agents.python import PythonAgent

    class CallersAgent(PythonAgent):
        def __init__(self, settings: AgentSettings) -> None:
            super().__init__(settings, found=agent)

    return Plugin(name="the caller", agents={kind: CallersAgent})


def _name_of(agent: Callable[..., Any]) -> str:
    while isinstance(agent, functools.partial):
        agent = cast("functools.partial[Any]", agent).func
    kind = type(agent)
    name = getattr(agent, "__qualname__", None) or kind.__qualname__
    return f"{getattr(agent, '__module__', None) or kind.__module__}:{name}"


def _records(files: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Selection, RunOptions]:
    """Raises `SetupError` for an invalid value."""
    chosen: dict[str, Any] = {"paths": files}
    how: dict[str, Any] = {}
    for name, value in options.items():
        home = chosen if name in Selection.__struct_fields__ else how
        home[name] = os.fspath(cast("StrPath", value)) if isinstance(value, os.PathLike) else value
    try:
        return msgspec.convert(chosen, Selection), msgspec.convert(how, RunOptions, dec_hook=_path)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        name = where.removesuffix("`")
        field = name.partition("[")[0]
        hint = {**get_type_hints(Selection), **get_type_hints(RunOptions)}.get(field)
        allowed = [value for each in (hint, *get_args(hint)) if get_origin(each) is Literal for value in get_args(each)]
        expected = f"expected {' or '.join(map(repr, allowed))}" if allowed else _in_python(what)
        raise SetupError(f"option `{field}` is {options.get(field)!r}: {expected[:1].lower()}{expected[1:]}") from None


def _in_python(message: str) -> str:
    """A message of `msgspec`, which names types as JSON does."""
    for json, python in (("| null", "| None"), ("`null`", "`None`"), ("`array`", "`list`")):
        message = message.replace(json, python)
    return message


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected a path, got {type(value).__name__}")


async def _execute(prepared: Run, observer: RunObserver | None) -> RunResult:
    execution = Execution(prepared)
    path = await execution.execute([] if observer is None else [observer])
    if execution.broken is not None:
        message = prepared.redactor.text(str(execution.broken))
        if isinstance(execution.broken, DamagedRecord):
            raise DamagedRecord(message) from execution.broken
        raise StoreError(f"{message}; finished trials are in {path}") from execution.broken
    if execution.crashed is not None:
        raise execution.crashed
    return RunResult(RunReader.open(path.absolute()))


def _in_own_thread(
    main: Callable[[], Coroutine[Any, Any, T]], factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> T:
    """Run to completion in a new thread. An interrupt while waiting, such as Ctrl-C, cancels the run and is raised
    again."""
    done: Future[T] = Future()
    interrupted = threading.Event()
    cancel: list[Callable[[], object]] = []

    async def stoppable() -> T:
        task = asyncio.ensure_future(main())
        loop = asyncio.get_running_loop()
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if interrupted.is_set():
            task.cancel()
        return await task

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                result = runner.run(stoppable())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="steadyhand run")
    thread.start()
    try:
        return done.result()
    except BaseException:
        interrupted.set()
        if not done.done():
            with suppress(RuntimeError):  # its loop has just been closed
                for each in cancel:
                    each()
        thread.join()
        raise
