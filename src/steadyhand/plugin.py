"""The single import for plugin authors: extension points, the parts to implement, and their argument and result types.

`docs/plugins.md` is the guide. A part may inherit from the class here, which provides defaults and reports what is
missing, or just have the same methods.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from steadyhand.errors import (
    AgentError,
    LimitExceeded,
    MockError,
    ModelError,
    ModelErrorKind,
    PluginError,
    ServiceError,
    SetupError,
    TrialError,
    WorkspaceError,
)
from steadyhand.plugins.plugin import (
    AgentFactory,
    AgentSettings,
    EnvironmentFactory,
    EnvironmentSettings,
    JudgeFactory,
    JudgeSettings,
    ModelFactory,
    ModelSettings,
    Options,
    Plugin,
    PluginFactory,
    Service,
    ServiceFactory,
    Termination,
    UserFactory,
    UserSettings,
    action,
    plugin_factory,
    read_options,
)
from steadyhand.ports.agent import (
    ASKED_AGAIN,
    EVERYTHING_SEEN,
    Addresses,
    Agent,
    AgentFacts,
    AgentProcess,
    Judge,
    Judgement,
    NoJudgement,
    Question,
    Reply,
    ReusableAddresses,
    RubricJudge,
    Shows,
    Sight,
    TrialContext,
    Turn,
    UserSimulator,
    Visible,
)
from steadyhand.ports.environment import Database, OnThisMachine
from steadyhand.ports.environment import EnvironmentProvider as Environment
from steadyhand.ports.evaluator import AnyEvaluator, EvaluationContext, EvaluationParams, TextCheck
from steadyhand.ports.model import (
    ChatModel,
    Clock,
    ModelFacts,
)
from steadyhand.ports.observer import EventSink, RunObserver
from steadyhand.ports.services import (
    Action,
    ActionContext,
    ScriptSandbox,
    ServiceAnswer,
    ServiceFault,
    ServiceMethod,
    Services,
    ToolServer,
)
from steadyhand.records.chat import (
    ArrivalClock,
    Attempt,
    ChatRequest,
    ChatResponse,
    ClientBody,
    Finish,
    FinishReason,
    Message,
    ToolCall,
    ToolSpec,
    Usage,
)
from steadyhand.records.config import Price
from steadyhand.records.deed import Deed
from steadyhand.records.deed_name import NamedDeed, OfferedTool, ToolOffer
from steadyhand.records.evaluation import (
    EvaluationResult,
    EvaluationSpec,
    Evidence,
    JudgeNote,
    LatencyBounds,
    Material,
    Rubric,
    RubricScore,
    Verdict,
    failed,
    inconclusive,
    passed,
)
from steadyhand.records.event import (
    ActionTaken,
    AnyEvent,
    Noted,
    Observed,
    ServiceCalled,
    Thought,
    ToolsOffered,
    TrajectoryStep,
)
from steadyhand.records.location import Place
from steadyhand.records.result import (
    CapturedFile,
    CommandResult,
    ConversationResult,
    ConversationTurn,
    ExecutionResult,
    FileSystemOperation,
    Latency,
)
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.records.scenario import Scenario, UserSimulatorConfig

__all__ = [
    "ASKED_AGAIN",
    "EVERYTHING_SEEN",
    "Action",
    "ActionContext",
    "ActionTaken",
    "Addresses",
    "Agent",
    "AgentError",
    "AgentFactory",
    "AgentFacts",
    "AgentProcess",
    "AgentSettings",
    "AnyEvaluator",
    "AnyEvent",
    "ArrivalClock",
    "Attempt",
    "CapturedFile",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "ClientBody",
    "Clock",
    "CommandResult",
    "ConversationResult",
    "ConversationTurn",
    "Database",
    "Deed",
    "Environment",
    "EnvironmentFactory",
    "EnvironmentSettings",
    "EvaluationContext",
    "EvaluationParams",
    "EvaluationResult",
    "EvaluationSpec",
    "Evaluator",
    "EventSink",
    "Evidence",
    "ExecutionResult",
    "FileSystemOperation",
    "Finish",
    "FinishReason",
    "Judge",
    "JudgeFactory",
    "JudgeNote",
    "JudgeSettings",
    "Judgement",
    "Latency",
    "LatencyBounds",
    "LimitExceeded",
    "Material",
    "Message",
    "MockError",
    "ModelError",
    "ModelErrorKind",
    "ModelFactory",
    "ModelFacts",
    "ModelSettings",
    "NamedDeed",
    "NoJudgement",
    "Noted",
    "Observed",
    "OfferedTool",
    "OnThisMachine",
    "Options",
    "Place",
    "Plugin",
    "PluginError",
    "PluginFactory",
    "Price",
    "Question",
    "Reply",
    "ReusableAddresses",
    "Rubric",
    "RubricJudge",
    "RubricScore",
    "RunHeader",
    "RunObserver",
    "Scenario",
    "ScriptSandbox",
    "Service",
    "ServiceAnswer",
    "ServiceCalled",
    "ServiceError",
    "ServiceFactory",
    "ServiceFault",
    "ServiceMethod",
    "Services",
    "SetupError",
    "Shows",
    "Sight",
    "Termination",
    "TextCheck",
    "Thought",
    "ToolCall",
    "ToolOffer",
    "ToolServer",
    "ToolSpec",
    "ToolsOffered",
    "TrajectoryStep",
    "TrialContext",
    "TrialError",
    "TrialKey",
    "TrialRecord",
    "Turn",
    "Usage",
    "UserFactory",
    "UserSettings",
    "UserSimulator",
    "UserSimulatorConfig",
    "Verdict",
    "Visible",
    "WorkspaceError",
    "action",
    "failed",
    "inconclusive",
    "passed",
    "plugin_factory",
    "read_options",
]

Params = TypeVar("Params", bound=EvaluationParams)


class Evaluator(AnyEvaluator, Generic[Params]):
    """A check whose parameters are `Params`: `class AmountQuoted(Evaluator[AmountQuotedParams])`.

    `type` is its name in files. `params` is `Params`, unless the class overrides it.
    """

    params: ClassVar[type[EvaluationParams]] = EvaluationParams

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in getattr(cls, "__orig_bases__", ()) if "params" not in vars(cls) else ():
            given = get_args(base)[:1] if get_origin(base) is Evaluator else ()
            if given and isinstance(given[0], type) and issubclass(given[0], EvaluationParams):
                cls.params = given[0]

    @abstractmethod
    async def evaluate(self, params: Params, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        """Return `passed`, `failed` or `inconclusive`. An exception makes the check an *error*, never a failure of the
        agent."""
        ...
