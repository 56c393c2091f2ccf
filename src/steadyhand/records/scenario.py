"""A scenario, independent of the file format it was written in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

from steadyhand.records.base import Record
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place

ExpectedConduct = Literal["act", "defer"]


class MatrixAxis(Record):
    """An axis of a matrix. `parameter` is the path of a field of the base scenario, such as `run[0].input`."""

    parameter: str
    values: tuple[Any, ...]
    place: Place


class MatrixSetting(Record):
    """One value of an axis. `shown` is its name in ids, filters and tables, `place` its position in the matrix file."""

    parameter: str
    value: Any
    shown: str
    place: Place


class MatrixCell(Record):
    """The combination of a scenario, in the order of the axes. `base_id` is the id of the base scenario."""

    matrix: str
    file: str
    base_id: str
    settings: tuple[MatrixSetting, ...]


class CaseOrigin(Record):
    """The case of a scenario, and where its values are. `base_id` is the scenario's id without it."""

    name: str
    base_id: str
    place: Place


class VariantText(Record):
    """A text for what the user says. `scenario` is whose it is, None for all of the file; unless somebody `signed` that
    it means what its variant says, it is not run."""

    text: str
    place: Place
    scenario: str | None = None
    signed: str | None = None


class Variant(Record):
    """A way to vary what the agent is told: one of `replace`, `append`, `typos`, `shuffle` and `texts`.

    With several values of each text in `replace`, the first values belong together, then the second. `checks` are those
    that tell the decision, negated, if it must not be the same; `expects` is then the conduct that is right.
    """

    name: str
    kind: Literal["same", "changes"]
    place: Place
    margin: float
    replace: dict[str, tuple[str, ...]] = {}
    append: tuple[str, ...] = ()
    typos: float | None = None
    shuffle: bool = False
    texts: tuple[VariantText, ...] = ()
    expects: ExpectedConduct | None = None
    checks: tuple[EvaluationSpec, ...] = ()


VariantKind = Literal["same", "changes", "fault"]


class VariantOrigin(Record):
    """Which variant a scenario is. `shown` is its name with the value, if it has several; `original` is the id of the
    scenario that it is held against, and `base_id` that without what a matrix and the targets set. `margin` is the
    difference in pass rate that does not matter. A scenario in which a service fails is one of kind *fault*, and is
    compared with nothing.
    """

    shown: str
    kind: VariantKind
    original: str
    base_id: str
    margin: float = 0.0


class TargetChoice(Record):
    """Which of a run's several targets a scenario is for; None if not varied. `base_id` is its id without."""

    base_id: str
    model: str | None = None
    agent: str | None = None


class Matrix(Record):
    """`base_scenarios` are paths of existing files and folders, usable from the current directory.

    Without `runs_per_combination`, the base scenario sets the number of trials.
    """

    name: str
    place: Place
    digest: str
    base_scenarios: tuple[str, ...]
    axes: tuple[MatrixAxis, ...]
    description: str = ""
    runs_per_combination: int | None = None


Strategy = Literal["all_pass", "any_pass", "majority_pass", "weighted"]
KnowledgeLevel = Literal["beginner", "intermediate", "expert"]
TerminationType = Literal[
    "max_turns_reached",
    "user_expresses_satisfaction",
    "agent_provides_solution",
    "conversation_stuck",
    "escalation_needed",
    "goal_achieved",
    "custom_condition",
]


class PluginRef(Record):
    name: str
    place: Place
    version: str | None = None
    enabled: bool = True
    config: dict[str, Any] = {}


class MockFault(Record):
    code: str | None = None
    message: str | None = None
    status: int | None = None


class MockWhen(Record):
    """The conditions of a mock; None means any."""

    args: list[Any] | None = None
    input: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    matcher: str | None = None
    partial_args: list[Any] | None = None


FaultKind = Literal["timeout", "error", "empty", "truncated", "stale", "slow", "twice"]
"""What goes wrong with a service: no answer in time; an error; an answer without content or without its end, with the
dates of a year ago, late, or given twice."""
FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)


class Mock(Record):
    """`description` and `parameters`, a JSON Schema, describe the method to an agent.

    `faults` are those that --faults makes scenarios of, and `fault` is the one that every call of it meets.
    """

    method: str
    place: Place
    service: str | None = None
    when: MockWhen = MockWhen()
    response: Any = None
    response_fn: str | None = None
    error: MockFault | None = None
    delay_ms: float = 0.0
    probability: float | None = None
    description: str = ""
    parameters: dict[str, Any] | None = None
    faults: tuple[FaultKind, ...] = ()
    fault: FaultKind | None = None


class RealService(Record):
    """A service behind the mocks: an MCP server, as the command line that starts it or the URL it is at.

    `timeout_ms` is the time that a call of one of its tools may take.
    """

    name: str
    mcp: str
    place: Place
    timeout_ms: float = 60_000.0

    @property
    def has_url(self) -> bool:
        return is_url(self.mcp)


def is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


class DatabaseSeed(Record):
    """SQL (already read from `sql_file`, if any) and rows to insert, into `url` or a new SQLite file."""

    sql: str | None = None
    sql_file: str | None = None
    records: dict[str, list[dict[str, Any]]] = {}
    url: str | None = None


class Setup(Record):
    """`virtual_fs` paths are already relative to the workspace and free of `..`."""

    mocks: tuple[Mock, ...] = ()
    services: tuple[RealService, ...] = ()
    virtual_fs: dict[str, str] = {}
    database: DatabaseSeed | None = None


class Character(Record):
    name: str | None = None
    bio: tuple[str, ...] = ()
    system: str | None = None
    model: str | None = None
    temperature: float | None = None


class UserSimulatorConfig(Record):
    persona: str
    objective: str
    model_type: str = "TEXT_LARGE"
    temperature: float = 0.7
    max_tokens: int = 200
    style: str | None = None
    constraints: tuple[str, ...] = ()
    emotional_state: str | None = None
    knowledge_level: KnowledgeLevel = "intermediate"


class TerminationJudge(Record):
    prompt: str
    threshold: float = 0.8


class TerminationCondition(Record):
    type: TerminationType
    place: Place
    description: str | None = None
    keywords: tuple[str, ...] = ()
    function: str | None = None
    llm_judge: TerminationJudge | None = None


class DebugOptions(Record):
    log_user_simulation: bool = False
    log_turn_decisions: bool = False
    export_full_transcript: bool = True


class ScriptedTurn(Record):
    """What the user says next: `say` verbatim, or the simulator's message if it is None. Checks run on the reply."""

    say: str | None = None
    type: str | None = None
    evaluations: tuple[EvaluationSpec, ...] = ()


class ConversationConfig(Record):
    """`script` is what the user says after the opening, entry by entry; then the simulator continues, if there is one.

    If a step has no opening, the script's first entry or else the simulator opens the conversation.
    """

    max_turns: int
    user_simulator: UserSimulatorConfig | None = None
    script: tuple[ScriptedTurn, ...] = ()
    timeout_per_turn_ms: int = 30_000
    total_timeout_ms: int = 300_000
    termination_conditions: tuple[TerminationCondition, ...] = ()
    turn_evaluations: tuple[EvaluationSpec, ...] = ()
    final_evaluations: tuple[EvaluationSpec, ...] = ()
    debug_options: DebugOptions = DebugOptions()


class Ask(Record, tag="ask", tag_field="kind"):
    """Send these messages to the agent; the last one is the user's."""

    messages: tuple[Message, ...]


class RunCode(Record, tag="code", tag_field="kind"):
    """Run the author's code in the environment."""

    code: str
    lang: str = "bash"


class Converse(Record, tag="conversation", tag_field="kind"):
    """Open with these messages and let the scripted or simulated user continue."""

    opening: tuple[Message, ...]
    config: ConversationConfig


class Step(Record):
    """With `reply_due` the agent must say something: an empty reply fails, whatever the checks say."""

    index: int
    name: str
    place: Place
    task: Ask | RunCode | Converse
    evaluations: tuple[EvaluationSpec, ...] = ()
    timeout_ms: int | None = None
    reply_due: bool = False


class VerdictPolicy(Record):
    """How evaluations become a verdict. `threshold` is for `weighted`: the share of weight that must pass."""

    strategy: Strategy = "all_pass"
    threshold: float | None = None


class Constraint(Record):
    description: str
    time_pressure: Literal["immediate", "urgent", "minutes", "hours"]
    consequence_of_delay: str


class ExampleAnswers(Record):
    """Answers that the scenario's own checks must accept and reject; `steadyhand selftest` verifies this."""

    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


class Scenario(Record):
    """A scenario. `digest` changes whenever the meaning of the file does.

    `agent` is the one set by its author, `default_agent` the one to use if none is set. `expects: defer` marks a case
    where raising the alarm is the mistake. `trials` is the number of trials and `pass_rate` the share that must pass,
    if the file sets them, and `reasoning_tags` the marks of a model's thoughts. `overrides` is what a matrix sets of
    `model`, `agent` and `judge`; it overrides every other setting. `case` is its row of a table, `cell` its combination
    of a matrix, and `target` its target, if there are several. `variants` are those it declares, and `variant` the one
    that it is. `sources` are the other files that it was made from.
    """

    id: str
    name: str
    description: str
    place: Place
    digest: str
    steps: tuple[Step, ...]
    judgment: VerdictPolicy = VerdictPolicy()
    environment: str | None = None
    setup: Setup = Setup()
    plugins: tuple[PluginRef, ...] = ()
    agent: str | None = None
    default_agent: str = "runtime"
    character: Character | None = None
    context: dict[str, Any] = {}
    domain: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    severity: float | None = None
    constraint: Constraint | None = None
    rubric: str | None = None
    rubric_place: Place | None = None
    expected_action: str | None = None
    expects: ExpectedConduct = "act"
    examples: ExampleAnswers = ExampleAnswers()
    trials: int | None = None
    pass_rate: float | None = None
    reasoning_tags: tuple[str, ...] | None = None
    overrides: dict[str, str] = {}
    case: CaseOrigin | None = None
    cell: MatrixCell | None = None
    target: TargetChoice | None = None
    variants: tuple[Variant, ...] = ()
    variant: VariantOrigin | None = None
    sources: tuple[str, ...] = ()


def leaf_specs(scenario: Scenario) -> Iterator[EvaluationSpec]:
    """All checks of all stages, those in groups one by one."""
    for spec in evaluation_specs(scenario):
        yield from spec.leaves


def evaluation_specs(scenario: Scenario) -> Iterator[EvaluationSpec]:
    """All checks and groups of checks of all stages. Without any, the verdict can only be inconclusive."""
    for step in scenario.steps:
        yield from step.evaluations
        if isinstance(step.task, Converse):
            config = step.task.config
            yield from config.turn_evaluations
            yield from config.final_evaluations
            for scripted in config.script:
                yield from scripted.evaluations
