"""User settings: the configuration of a project, and the options of a run, which override it."""

from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from steadyhand.records.base import Record, doc
from steadyhand.records.isolation import IsolationChoice

REASONING_TAGS = (
    "Marks around a model's thoughts at the start of an answer: names of tags, `harmony`, pairs such as "
    "`[THINK] [/THINK]`, or `none`. Default: the marks that models are known to use"
)
NonEmpty = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]
_Price = Annotated[float, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Kappa = Annotated[float, Meta(ge=-1, le=1)]


class ProviderConfig(Record):
    """How to reach a model provider. The key is never in the file; the option `api_key_env` names its variable.

    `type` is the provider whose API it uses, if the user chose its name.
    """

    type: Annotated[NonEmpty | None, doc("For a custom provider: the interface it uses. Default: openai")] = None
    requests_per_minute: Annotated[Amount | None, doc("Maximum number of requests per minute")] = None
    tokens_per_minute: Annotated[Amount | None, doc("Maximum number of tokens per minute")] = None
    reasoning_tags: Annotated[tuple[str, ...] | None, doc(REASONING_TAGS)] = None
    options: dict[str, Any] = {}

    @property
    def base_url(self) -> str | None:
        return self.options.get("base_url")

    @property
    def api_key_env(self) -> str | None:
        return self.options.get("api_key_env")


class PluginConfig(Record):
    """A plugin that every scenario of the project may use."""

    name: str
    version: str | None = None
    enabled: bool = True
    config: dict[str, Any] = {}


# fmt: off
# Formatted as a table, as the options below.
class Price(Record):
    """Price per million tokens."""

    input: Annotated[_Price, doc("Price of a million input tokens")]
    output: Annotated[_Price, doc("Price of a million output tokens")]


class CalibrationConfig(Record):
    """Whether a judge must be calibrated before it decides, and how good it must be."""

    required: Annotated[bool,
        doc("If true, the checks of a judge without a good enough calibration are inconclusive")] = False
    file: Annotated[NonEmpty | None, doc("Where calibrations are kept. Default: calibration.json")] = None
    min_labels: Annotated[Count, doc("Minimum number of labels for a calibration")] = 20
    min_kappa: Annotated[_Kappa | None, doc("Minimum agreement with people's labels (Cohen's kappa)")] = 0.6
    max_false_pass: Annotated[_Share | None, doc("Maximum share of bad answers that the judge may pass")] = 0.1
    max_false_fail: Annotated[_Share | None, doc("Maximum share of good answers that the judge may fail")] = None


class Config(Record):
    """The configuration. None means not set. `folder` is the folder of `file`, and paths are relative to it.

    The file has a key for each field that is described here, or in `RunOptions` as the option that overrides it.
    `reasoning_tags` are those of `agents`, by kind.
    """

    folder: Path
    file: Path | None = None
    model: Annotated[NonEmpty | None, doc("Model under test, provider/model")] = None
    judge: Annotated[NonEmpty | None, doc("Model that judges, provider/model")] = None
    user_model: Annotated[NonEmpty | None, doc("Model that plays the user, provider/model")] = None
    agent: Annotated[NonEmpty | None,
        doc("Agent under test, for scenarios that name none, such as python:package.module:name")] = None
    environment: Annotated[NonEmpty | None, doc("For scenarios that name none. Default: local")] = None
    env_file: Annotated[NonEmpty | None,
        doc("File with environment variables for runs, such as .env. Without it, none is read")] = None
    out: Annotated[NonEmpty | None, doc("Folder of run records")] = None
    seed: Annotated[int | None, doc("Random seed. Default: a new one for each run")] = None
    concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    wait_limit_s: float | None = None
    stall_limit_s: float | None = None
    rubrics: Annotated[NonEmpty | None, doc("Folder of rubrics")] = None
    sandbox: bool | None = None
    isolation: Annotated[IsolationChoice | None,
        doc("What keeps agents that Steadyhand starts from what they are judged by. Default: auto, the best that this "
            "machine can do")] = None
    agent_can_read: Annotated[tuple[NonEmpty, ...],
        doc("Files and folders that agents may read although trials are judged by them")] = ()
    allow_commands: bool | None = None
    strict_judge: bool | None = None
    votes: Annotated[Count | None,
        doc("Number of times a judge is asked about each check; the majority decides")] = None
    judge_kind: Annotated[NonEmpty | None, doc("A plugin's kind of judge. Default: llm")] = None
    user_kind: Annotated[NonEmpty | None, doc("A plugin's kind of simulated user. Default: llm")] = None
    defaults: Annotated[dict[str, Any],
        doc("Keys of scenarios, for those that do not have them, such as `trials` or `latency_budget`; no checks")] = {}
    plugins: Annotated[tuple[PluginConfig, ...], doc("Plugins of the project; files are relative to this one")] = ()
    models: Annotated[dict[str, NonEmpty], doc("Aliases, such as TEXT_SMALL, to provider/model")] = {}
    providers: Annotated[dict[str, ProviderConfig], doc("How to reach model providers, by name")] = {}
    agents: Annotated[dict[str, dict[str, Any]], doc("Options of agents, by kind")] = {}
    environments: Annotated[dict[str, dict[str, Any]], doc("Options of environments, by type")] = {}
    services: Annotated[dict[str, dict[str, Any]],
        doc("Options of the real services that scenarios name in `setup.services`, by name")] = {}
    judges: Annotated[dict[str, dict[str, Any]], doc("Options of judges, by kind")] = {}
    users: Annotated[dict[str, dict[str, Any]], doc("Options of simulated users, by kind")] = {}
    prices: Annotated[dict[str, Price], doc("By provider/model")] = {}
    calibration: Annotated[CalibrationConfig,
        doc("Whether a judge must be calibrated before it decides, and how well")] = CalibrationConfig()
    reasoning_tags: dict[str, tuple[str, ...]] = {}


# fmt: on
Repeating = Literal["rejudge", "failed_of", "copy"]


class Option(Record):
    """What the field of an option declares. Everything else that has to know is derived from it.

    `flag` is empty if no command takes it; `former_flag` is also taken, not shown. `help` is for the `commands`
    that take it, unless `elsewhere` has another text for one of them, and `heading` the group that it stands in.
    `default` is used if neither the command line nor the configuration says anything; `default_text` describes it if it
    is no plain value, and None says nothing of it. `opens` is what kind of path the value is. With `or_auto`, a number
    may be `auto`, as if it were not given.

    A run that is repeated keeps its options. `ends_with` names what does without this one: a rejudgement, a rerun of
    what did not pass, or a copy of the project on another machine. `varies` is whether it may differ between the shards
    of a run. `guarded` is whether --trust is needed to repeat it from a record outside the project: always, where
    agents run, where they run and the value names code, or for a model whose name is a path that leads elsewhere.
    """

    flag: str = ""
    former_flag: str = ""
    help: str = ""
    heading: str = ""
    commands: tuple[str, ...] = ("run",)
    metavar: str | None = None
    default: Any = None
    default_text: str | None = ""
    elsewhere: dict[str, str] = {}
    opens: Literal["", "existing file", "file", "folder", "existing folder"] = ""
    ends_with: tuple[Repeating, ...] = ()
    varies: bool = False
    guarded: Literal["", "always", "running", "code", "path"] = ""
    or_auto: bool = False

    @property
    def shown_default(self) -> str:
        """The default in words; empty if there is nothing to say of it."""
        if self.default_text != "" or self.default is None:
            return self.default_text or ""
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


class Heading(str):
    """A group of options in the help of `run`. Called, it makes an option of the group."""

    __slots__ = ()

    def __call__(self, flag: str, help: str, **more: Any) -> Option:  # noqa: A002 - as in the declaration
        return Option(flag=flag, help=help, heading=self, **more)


_WHAT, _WHO, _TRIALS, _SAFETY, _TIME, _WORKERS, _OUTPUT = HEADINGS = (
    Heading("What to run"),
    Heading("Agent, models and judge"),
    Heading("Trials"),
    Heading("Safety"),
    Heading("Time and cost"),
    Heading("Workers"),
    Heading("Output"),
)
_SELECTING = ("run", "plan", "list", "selftest", "mutate")
_CHECKING = ("validate", "lint", "selftest", "list", "schema", "doctor")
_READING = ("runs", "show", "report", "compare", "gate")
_RUNNING = ("run", "rejudge")
_ASKING = ("run", "rejudge", "calibrate", "mutate")
_LABELLING = ("baseline", "export", "labels", "calibrate")
_ANYWHERE = ("run", "resume")


# fmt: off
# Formatted as a table: otherwise an option takes ten lines.
class Selection(Record):
    """Which scenarios to run. `ids` are exact, and all of them must exist."""

    paths: Annotated[tuple[str, ...], Option(varies=True)]
    ids: tuple[str, ...] = ()
    tags: Annotated[tuple[str, ...], _WHAT("--tag", "Only scenarios with this tag (repeatable).", commands=_SELECTING,
        metavar="TAG")] = ()
    expression: Annotated[str | None, _WHAT("-k",
        "Only scenarios whose id or name matches, as in 'stemi and not slow'.", commands=_SELECTING,
        metavar="EXPR")] = None
    filters: Annotated[tuple[str, ...], _WHAT("--filter",
        "Only matrix combinations or targets with this value (repeatable).", commands=_SELECTING,
        metavar="PARAM=VALUE")] = ()
    variants: Annotated[bool, _WHAT("--variants",
        "Also run the variants of scenarios, and compare each with its original.", commands=_SELECTING)] = False
    faults: Annotated[bool, _WHAT("--faults",
        "Also run scenarios with each fault of their mocks, and count what the agent makes of it.",
        commands=_SELECTING)] = False


class RunOptions(Record):
    """How to run them.

    `config` is the configuration file; without it, the nearest one upwards is used, unless `ignore_config` is set.
    `ignore_env_file` is for cluster nodes, which use their own environment. With several `models` or `agents`, every
    combination is a separate target.
    """

    failed_of: Annotated[str | None, _WHAT("--failed-of",
        "Rerun the scenarios of RUN that did not pass, with its options.", metavar="RUN",
        ends_with=("rejudge",))] = None
    """The run that they did not pass in."""
    shard: Annotated[str | None, _WHAT("--shard", "Run only this shard; `steadyhand merge` joins the shards.",
        metavar="N/TOTAL", ends_with=("rejudge", "failed_of"), varies=True)] = None
    models: Annotated[tuple[str, ...], _WHO("--model",
        "Model under test, as provider/model (repeatable: each is a separate target).", commands=("run", "plan"),
        metavar="NAME", elsewhere={"plan": "Model under test (repeatable)."}, guarded="path")] = ()
    model: Annotated[str | None, _WHO("--model", "Model that answers model calls, as provider/model.",
        commands=("gateway",), metavar="NAME", guarded="path")] = None
    agents: Annotated[tuple[str, ...], _WHO("--agent", "Agent under test (repeatable).", commands=("run", "plan"),
        metavar="KIND", guarded="code")] = ()
    agent: Annotated[str | None, Option(flag="--agent", guarded="code", commands=())] = None
    judge: Annotated[str | None, _WHO("--judge", "Judge model, as provider/model.", commands=_ASKING, metavar="NAME",
        guarded="path", elsewhere={
            "rejudge": "Judge model, as provider/model. [default: as when the run started]",
            "calibrate": "Judge model, as provider/model. [default: the configured one]",
            "mutate": "Judge model to ask where the checks would ask one. [default: none]",
        })] = None
    rubric: Annotated[str | None, _WHO("--rubric", "Rubric to score with, in place of each scenario's own.",
        commands=("rejudge",), metavar="NAME", guarded="always")] = None
    votes: Annotated[Count | None, _WHO("--votes", "Number of times to ask, for checks that do not set it.",
        commands=("rejudge", "calibrate"), default=1, default_text="as configured, or 1")] = None
    user_model: Annotated[str | None, _WHO("--user-model", "Model that simulates the user.", metavar="NAME",
        guarded="path")] = None
    strict_judge: Annotated[bool, _WHO("--strict-judge",
        "Refuse to let a model be judged by itself or by a model from the same vendor.", commands=_RUNNING)] = False
    judge_canaries: Annotated[Path | None, _WHO("--judge-canaries",
        "Ask the judge about these labelled cases too, and report how many it got right.", metavar="LABELS",
        opens="file", ends_with=("rejudge", "copy"), guarded="always")] = None
    judge_timeline: Annotated[bool, _WHO("--judge-timeline",
        "Ask the judge about parts of an answer too, where only it can tell when the answer became safe.")] = False
    environment: Annotated[str | None, _WHO("--environment", "Environment to run in, overriding the scenario.",
        metavar="TYPE")] = None
    live: Annotated[bool, _WHO("--live", "Ignore mocks and database seeding; use the real services.",
        guarded="running")] = False
    plugins: Annotated[tuple[str, ...], _WHO("--plugin",
        "Plugin to load: a file, package.module:name or an installed one (repeatable).",
        commands=(*_CHECKING, "run", "plan", "mutate", "gateway", "rejudge", "calibrate"), metavar="NAME",
        guarded="always")] = ()
    config: Annotated[Path | None, _WHO("--config", "Configuration file.",
        commands=(*_CHECKING, *_READING, *_ASKING, "plan", "resume", "merge", "gateway", "view", *_LABELLING),
        default_text="steadyhand.toml in this folder or the nearest parent", opens="existing file",
        guarded="always")] = None
    env_file: Annotated[Path | None, _WHO("--env-file", "File with environment variables for this run.",
        commands=(*_ASKING, "gateway"), elsewhere={"gateway": "File with environment variables."}, opens="file",
        ends_with=("copy",), varies=True, guarded="always")] = None
    trials: Annotated[Annotated[int, Meta(ge=1, le=100000)] | None, _TRIALS("--trials",
        "Number of trials per scenario.", default_text="set by the scenario, or 1", ends_with=("rejudge",))] = None
    pass_rate: Annotated[Annotated[float, Meta(gt=0, le=1)] | None, _TRIALS("--pass-rate",
        "Share of trials that must pass.", default_text="set by the scenario, or 1")] = None
    until: Annotated[Literal["decided"] | None, _TRIALS("--until",
        "Stop a scenario's trials once its pass rate is decided; --trials is the maximum.")] = None
    alpha: Annotated[Annotated[float, Meta(gt=0, lt=1)] | None, _TRIALS("--alpha",
        "With --until, the chance of a wrong decision.", default=0.05)] = None
    margin: Annotated[Annotated[float, Meta(gt=0, lt=1)] | None, _TRIALS("--margin",
        "Difference in pass rate, 0 to 1, that does not matter between variants.", commands=("run", "plan"),
        default_text="set by the scenario, or 0.1")] = None
    seed: Annotated[int | None, _TRIALS("--seed", "Random seed.", default_text="a new one, recorded with the run",
        ends_with=("failed_of",))] = None
    sandbox: Annotated[bool, _SAFETY("--sandbox", "Run commands in a sandbox without network access.")] = False
    allow_commands: Annotated[bool, _SAFETY("--allow-commands",
        "Allow commands written by a model to run on this machine.", guarded="running")] = False
    trust: Annotated[bool, _SAFETY("--trust", "Allow code, commands and files named by scenarios outside the project.",
        commands=(*_RUNNING, "resume", "gateway", "mutate"), ends_with=("rejudge",), varies=True)] = False
    in_process: Annotated[bool, _SAFETY("--in-process",
        "Run `python:` agents in this process, for debugging.")] = False
    isolation: Annotated[IsolationChoice | None, _SAFETY("--isolation",
        "What keeps agents from what they are judged by.", default="auto",
        default_text="auto, the best this machine can do", guarded="running")] = None
    agent_can_read: Annotated[tuple[str, ...], _SAFETY("--agent-can-read",
        "Let agents read this, although trials are judged by it (repeatable).", metavar="PATH", guarded="running")] = ()
    concurrency: Annotated[Count | None, _TIME("--concurrency", "Number of trials to run at once.",
        commands=(*_RUNNING, "resume", "calibrate"), default=8,
        varies=True, elsewhere={
            "resume": "Number of trials to run at once. [default: as when the run started]",
            "rejudge": "Number of trials to judge at once.",
            "calibrate": "Number of trials to judge at once.",
        })] = None
    timeout_s: Annotated[Amount | None, _TIME("--timeout", "Time limit for a model call, in seconds.",
        commands=(*_RUNNING, "doctor"), default=60.0, default_text=None)] = None
    retries: Annotated[Annotated[int, Meta(ge=0, le=20)] | None, _TIME("--retries",
        "Number of retries for a failed model call.", commands=_RUNNING, default=2)] = None
    wait_limit_s: Annotated[Amount | None, _TIME("--wait-limit",
        "How long a trial may wait for servers in all, in seconds.", commands=_RUNNING, default=120.0)] = None
    stall_limit_s: Annotated[Amount | None, _TIME("--stall-limit",
        "End the run if providers fail and nothing has succeeded for this long, in seconds.", commands=_RUNNING,
        default=300.0)] = None
    enforce_deadline: Annotated[bool, _TIME("--enforce-deadline",
        "Cut off calls at critical_ms and grade what has arrived.")] = False
    max_cost: Annotated[Amount | None, _TIME("--max-cost", "Stop starting trials once this much is spent.",
        commands=(*_RUNNING, "mutate"), ends_with=("rejudge",))] = None
    max_tokens: Annotated[Count | None, _TIME("--max-tokens", "Stop starting trials once this many tokens are used.",
        commands=(*_RUNNING, "mutate"), ends_with=("rejudge",))] = None
    record: Annotated[Path | None, _TIME("--record", "Record every model call to this folder.", metavar="DIR",
        opens="folder", ends_with=("rejudge", "failed_of"), varies=True, guarded="always")] = None
    replay: Annotated[Path | None, _TIME("--replay", "Answer model calls from a recording, without using the network.",
        metavar="DIR", opens="existing folder", ends_with=("rejudge",), guarded="always")] = None
    replay_time: Annotated[Literal["zero", "original"], _TIME("--replay-time", "How long replayed answers take.",
        default="zero")] = "zero"
    workers: Annotated[Annotated[int, Meta(ge=1, le=10000)] | None, _WORKERS("--workers",
        "Number of processes that run trials, or auto.", commands=_ANYWHERE, default=1, or_auto=True,
        default_text="auto: one per processor for trials that compute for seconds, else 1; with Ray, one per processor",
        ends_with=("rejudge", "copy"))] = None
    engine: Annotated[Literal["local", "ray"] | None, _WORKERS("--engine", "Where the workers run.",
        commands=_ANYWHERE, default_text="local", ends_with=("rejudge", "copy"))] = None
    ray_address: Annotated[str | None, _WORKERS("--ray-address", "Ray cluster to use.", commands=_ANYWHERE,
        metavar="HOST:PORT", default_text="start one on this machine", ends_with=("rejudge", "copy"),
        guarded="always")] = None
    ray_env: Annotated[tuple[str, ...], _WORKERS("--ray-env",
        "Environment variable to send to the nodes (repeatable).", commands=_ANYWHERE, metavar="NAME",
        default_text="nodes use their own environment", ends_with=("rejudge", "copy"), guarded="always")] = ()
    out: Annotated[Path | None, _OUTPUT("--runs", "Folder for run records.",
        commands=(*_RUNNING, *_READING, *_LABELLING, "resume", "mutate", "merge"), default=Path(".steadyhand/runs"),
        former_flag="--out", opens="folder", ends_with=("copy",), varies=True)] = None
    otlp_port: Annotated[Annotated[int, Meta(ge=1, le=65535)] | None, _OUTPUT("--otlp-port",
        "Receive spans from services that are already running, as OTLP over HTTP on this loopback port.")] = None
    ignore_config: bool = False
    ignore_env_file: bool = False
    rejudge: Annotated[Path | None, Option(ends_with=("failed_of",))] = None
    """The record of a run whose stored trials are judged again instead of running any."""
    only: Annotated[tuple[str, ...], Option(ends_with=("rejudge",))] = ()
    """The ids of the scenarios to run, of those that are loaded; all when empty."""
    command: Annotated[tuple[str, ...], Option(varies=True)] = ()

    # fmt: on

    @property
    def users_agents(self) -> tuple[str, ...]:
        """Each that the user named, one or several."""
        return self.agents if self.agent is None else (self.agent, *self.agents)

    def without(self, repeating: Repeating) -> Self:
        """With the defaults of the options that do not outlast it."""
        defaults = RunOptions()
        ended = [name for name, option in declared_by(RunOptions).items() if repeating in option.ends_with]
        return msgspec.structs.replace(self, **{name: getattr(defaults, name) for name in ended})

    def given(self) -> dict[str, Any]:
        """Those that were given, by name."""
        defaults = RunOptions()
        both = ((name, getattr(self, name), getattr(defaults, name)) for name in self.__struct_fields__)
        return {name: value for name, value, default in both if value != default}


@cache
def declared_by(record: type[Record]) -> dict[str, Option]:
    """What the fields of the record declare, by name."""
    found = ((field.name, getattr(field.type, "__metadata__", ())) for field in msgspec.structs.fields(record))
    return {name: each for name, metadata in found for each in metadata if isinstance(each, Option)}


def default_of(name: str) -> Any:
    """The value of an option of `RunOptions` that nobody sets."""
    return declared_by(RunOptions)[name].default


def plain_type(annotation: Any) -> tuple[Any, Meta | None]:
    """The type without None and annotations, and its bounds."""
    bounds: Meta | None = None
    while True:
        metadata = cast("tuple[Any, ...]", getattr(annotation, "__metadata__", ()))
        bounds = next((each for each in metadata if isinstance(each, Meta)), bounds)
        if metadata:
            annotation = annotation.__origin__
        elif get_origin(annotation) in (Union, UnionType):
            (annotation,) = (each for each in get_args(annotation) if each is not type(None))
        else:
            return annotation, bounds


def bounds_of(name: str) -> dict[str, Any]:
    """Of an option of a run: some of `ge`, `gt`, `le` and `lt`."""
    types = {field.name: field.type for field in msgspec.structs.fields(RunOptions)}
    _, bounds = plain_type(types[name])
    found: dict[str, Any] = {each: getattr(bounds, each, None) for each in ("ge", "gt", "le", "lt")}
    return {each: value for each, value in found.items() if value is not None}
