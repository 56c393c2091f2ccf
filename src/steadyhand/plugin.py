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
    PluginError,
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
    EVERYTHING_SEEN,
    Agent,
    AgentFacts,
    Judge,
    Judgement,
    NoJudgement,
    Question,
    Reply,
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
from steadyhand.ports.model import ChatModel, ModelFacts
from steadyhand.ports.observer import EventSink, RunObserver
from steadyhand.ports.services import Action, ActionContext, ServiceFault, Services
from steadyhand.records.chat import (
    Attempt,
    ChatRequest,
    ChatResponse,
    Finish,
    FinishReason,
    Message,
    ToolCall,
    ToolSpec,
    Usage,
)
from steadyhand.records.evaluation import (
    EvaluationResult,
    Evidence,
    LatencyBounds,
    Material,
    failed,
    inconclusive,
    passed,
)
from steadyhand.records.event import ActionTaken, Noted, Observed, ServiceCalled, Thought, TrajectoryStep
from steadyhand.records.result import (
    CapturedFile,
    CommandResult,
    ConversationTurn,
    ExecutionResult,
    FileSystemOperation,
)
from steadyhand.records.scenario import Scenario

__all__ = [
    "EVERYTHING_SEEN",
    "Action",
    "ActionContext",
    "ActionTaken",
    "Agent",
    "AgentError",
    "AgentFactory",
    "AgentFacts",
    "AgentSettings",
    "AnyEvaluator",
    "Attempt",
    "CapturedFile",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "CommandResult",
    "ConversationTurn",
    "Database",
    "Environment",
    "EnvironmentFactory",
    "EnvironmentSettings",
    "EvaluationContext",
    "EvaluationParams",
    "EvaluationResult",
    "Evaluator",
    "EventSink",
    "Evidence",
    "ExecutionResult",
    "FileSystemOperation",
    "Finish",
    "FinishReason",
    "Judge",
    "JudgeFactory",
    "JudgeSettings",
    "Judgement",
    "LatencyBounds",
    "LimitExceeded",
    "Material",
    "Message",
    "MockError",
    "ModelError",
    "ModelFactory",
    "ModelFacts",
    "ModelSettings",
    "NoJudgement",
    "Noted",
    "Observed",
    "OnThisMachine",
    "Options",
    "Plugin",
    "PluginError",
    "PluginFactory",
    "Question",
    "Reply",
    "RunObserver",
    "Scenario",
    "Service",
    "ServiceCalled",
    "ServiceFactory",
    "ServiceFault",
    "Services",
    "SetupError",
    "Shows",
    "Sight",
    "Termination",
    "TextCheck",
    "Thought",
    "ToolCall",
    "ToolSpec",
    "TrajectoryStep",
    "TrialContext",
    "TrialError",
    "Turn",
    "Usage",
    "UserFactory",
    "UserSettings",
    "UserSimulator",
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
