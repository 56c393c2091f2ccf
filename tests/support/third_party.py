"""A third party's plugin with one part for every extension point, which imports from `steadyhand.plugin` alone.

`tests/cli/test_cli_third_party.py` runs it in each way that a plugin can be named.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from steadyhand.plugin import (
    EVERYTHING_SEEN,
    ActionContext,
    Agent,
    AgentSettings,
    Attempt,
    CapturedFile,
    ChatModel,
    ChatRequest,
    ChatResponse,
    CommandResult,
    ConversationTurn,
    Environment,
    EnvironmentSettings,
    EvaluationContext,
    EvaluationParams,
    EvaluationResult,
    Evaluator,
    ExecutionResult,
    FileSystemOperation,
    FinishReason,
    Judge,
    Judgement,
    JudgeNote,
    JudgeSettings,
    LatencyBounds,
    Material,
    Message,
    ModelSettings,
    NoJudgement,
    Options,
    Plugin,
    Question,
    Reply,
    Rubric,
    RubricScore,
    Service,
    ServiceFault,
    Shows,
    TextCheck,
    TrialContext,
    Turn,
    Usage,
    UserSettings,
    UserSimulator,
    UserSimulatorConfig,
    Visible,
    action,
    failed,
    inconclusive,
    passed,
    read_options,
)

# Evaluators


class SaysParams(EvaluationParams):
    word: str


class Says(Evaluator[SaysParams]):
    """The reply contains a word. Depends on nothing but the reply."""

    type = "acme_says"
    deterministic = True

    async def evaluate(
        self, params: SaysParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        found = passed if params.word in result.reply else failed
        return found(f"acme looked for {params.word}")

    def on_text(self, params: SaysParams) -> TextCheck:
        async def holds(text: str) -> bool:
            return params.word in text

        return holds


class ApprovesParams(EvaluationParams):
    question: str
    by_judge: bool = True


class Approves(Evaluator[ApprovesParams]):
    """A judge approves of the reply. If `by_judge` is false, every reply will do."""

    type = "acme_approves"

    async def evaluate(
        self, params: ApprovesParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        judge = context.trial.judge
        if not params.by_judge:
            return passed("acme has no judge") if judge is None else failed("acme has a judge")
        if judge is None:
            return inconclusive("acme has no judge")
        material = Material(title="reply", text=result.reply)
        try:
            judgement = await judge.ask(Question(prompt=params.question, materials=(material,)), context.trial)
        except NoJudgement as missing:
            return inconclusive(str(missing), judge=missing.note)
        found = passed if judgement.judgment == "yes" else failed
        return found(f"acme's judge says {judgement.judgment}", judge=judgement.note)

    def needs_judge(self, params: ApprovesParams) -> bool:
        return params.by_judge


class DidParams(EvaluationParams):
    action: str


class Did(Evaluator[DidParams]):
    """The agent carried out an action."""

    type = "acme_did"
    reads: ClassVar[frozenset[Visible]] = frozenset({"actions"})

    async def evaluate(
        self, params: DidParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        names = [step.name for step in result.trajectory if step.type == "action"]
        if params.action in names:
            return passed(f"acme saw {params.action}")
        return failed(f"acme saw {names}")


class PromptParams(EvaluationParams):
    within_ms: float


class Prompt(Evaluator[PromptParams]):
    """The answer came in time."""

    type = "acme_prompt"

    async def evaluate(
        self, params: PromptParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        latency = result.latency
        if latency is None or latency.ms is None:
            return inconclusive("acme has no latency")
        within = latency.ms <= params.within_ms
        figures = {"latency_ms": latency.ms, "tier": "target" if within else "exceeded"}
        return (passed if within else failed)("acme looked at its watch", figures=figures)

    def latency_bounds(self, params: PromptParams) -> LatencyBounds:
        return LatencyBounds(target_ms=params.within_ms, acceptable_ms=params.within_ms, critical_ms=params.within_ms)


# A model


class ModelOptions(Options):
    say: str = "acme says hello"


class AcmeModel(ChatModel):
    """Says what its options say, judges everything as good, and plays no user."""

    uses_network: ClassVar[bool] = False
    base_url_variable: ClassVar[str] = "ACME_SERVER"
    options: ClassVar[type[Options]] = ModelOptions

    def __init__(self, settings: ModelSettings) -> None:
        self._name = f"{settings.provider}/{settings.name}"
        self._say = read_options(ModelOptions, settings.options, "[providers.acme]").say

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        text = json.dumps({"verdict": "good"}) if request.purpose == "judge" else self._say
        at_ms = (time.perf_counter() - zero) * 1000
        attempt = Attempt(
            started_ms=at_ms, sent_ms=at_ms, first_byte_ms=at_ms, first_token_ms=at_ms, last_byte_ms=at_ms + 1
        )
        return ChatResponse(
            text=text,
            attempt=attempt,
            chunks=((1.0, len(text)),),
            usage=Usage(input_tokens=1000, output_tokens=100),
            finish_reason=FinishReason.STOP,
        )

    async def close(self) -> None:
        """Nothing is open."""


class FreeModel(AcmeModel):
    """The same, free of charge."""

    free: ClassVar[bool] = True


# An agent


class AgentOptions(Options):
    note: str = "hello"


class AcmeAgent(Agent):
    """Asks its model, writes the answer down through an action, and leaves it in a file."""

    shows: Shows = EVERYTHING_SEEN
    runs_target: ClassVar[bool] = False
    closes_at_once: bool = True
    asks_model: ClassVar[str] = "once"
    options: ClassVar[type[Options]] = AgentOptions

    def __init__(self, settings: AgentSettings) -> None:
        self._model = settings.model
        self._note = read_options(AgentOptions, settings.options, "[agents.acme]").note
        self._trial: TrialContext | None = None

    @property
    def name(self) -> str:
        return "acme"

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        trial = self._trial
        assert trial is not None
        if self._model is None:
            return Reply(text="acme has no model")
        answer = await trial.call(self._model, ChatRequest(messages=turn.messages))
        if trial.services is not None:
            await trial.services.perform("acme_note", {"text": self._note})
        await trial.environment.write("answer.txt", answer.text.encode())
        return Reply(text=answer.text)

    async def close(self) -> None:
        self._trial = None


# An environment


class EnvironmentOptions(Options):
    motd: str = "welcome"


class AcmeEnvironment(Environment):
    """Files in memory, and one program: `motd`."""

    closes_at_once: bool = True
    options: ClassVar[type[Options]] = EnvironmentOptions

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._motd = read_options(EnvironmentOptions, settings.options, "[environments.acme]").motd
        self._files: dict[str, bytes] = {}

    @property
    def name(self) -> str:
        return "acme"

    @property
    def sandboxed(self) -> bool:
        return True

    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        for file in files:
            await self.write(file.path, file.content)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        known = command == "motd" or command[0] == "motd"
        return CommandResult(
            exit_code=0 if known else 127, stdout=self._motd if known else "", stderr="", duration_ms=0.1
        )

    def export(self, variables: Mapping[str, str]) -> None:
        """`motd` needs none."""

    async def read(self, path: str) -> bytes | None:
        return self._files.get(path.removeprefix("./").lstrip("/"))

    async def write(self, path: str, content: bytes) -> None:
        self._files[path.removeprefix("./").lstrip("/")] = content

    async def list_files(self) -> Sequence[str]:
        return sorted(self._files)

    async def capture(self) -> Mapping[str, CapturedFile]:
        return {path: CapturedFile(size=len(content), content=content) for path, content in self._files.items()}

    async def teardown(self) -> None:
        self._files.clear()


# A judge


class JudgeOptions(Options):
    good: str = "good"


class AcmeJudge(Judge):
    """Asks its model for one word, which its options say must be `good`."""

    options: ClassVar[type[Options]] = JudgeOptions
    instructions_digest: str = "acme-1"

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._good = read_options(JudgeOptions, settings.options, "[judges.acme]").good

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def self_judged(self) -> bool:
        return self._settings.name == self._settings.tested

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        model = self._settings.choose(question.model_type)
        shown = "\n".join(material.text for material in question.materials)
        messages = (Message(role="system", content=question.prompt), Message(role="user", content=shown))
        answer = await trial.call(model, ChatRequest(messages=messages, purpose="judge"))
        word = str(json.loads(answer.text)["verdict"])
        note = JudgeNote(
            model=model.name,
            prompt_hash=hashlib.sha256(question.prompt.encode()).hexdigest()[:12],
            raw=answer.text,
            self_judged=self.self_judged,
            reasoning=f"acme heard {word}",
        )
        return Judgement(judgment="yes" if word == self._good else "no", note=note, confidence=1.0)

    async def score(
        self, rubric: Rubric, materials: Sequence[Material], trial: TrialContext, *, timeliness: float | None
    ) -> RubricScore:
        scores = {dimension.name: 0.75 for dimension in rubric.dimensions}
        return RubricScore(name=rubric.name, scores=scores, overall=0.75)


# A simulated user


class UserOptions(Options):
    lines: list[str] = ["acme's user wants help", "acme's user says thanks"]


class AcmeUser(UserSimulator):
    """Says its lines, whatever it hears."""

    needs_model: ClassVar[bool] = False
    options: ClassVar[type[Options]] = UserOptions

    def __init__(self, settings: UserSettings) -> None:
        self._lines = read_options(UserOptions, settings.options, "[users.acme]").lines

    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        return self._lines[min(len(history), len(self._lines) - 1)]


# What an agent acts through


class Log:
    """The service. One for each trial."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._prefix = str(config.get("prefix", ""))
        self._lines: list[str] = []

    async def add(self, text: str) -> dict[str, Any]:
        if not text:
            raise ServiceFault("there is nothing to note", code="EMPTY")
        self._lines.append(f"{self._prefix}{text}")
        return {"lines": list(self._lines)}


@action(description="Note a text in the log.")
async def acme_note(text: str, context: ActionContext) -> dict[str, Any]:
    noted: dict[str, Any] = await context.get_service("acme_log").add(text)
    return noted


def acme_thanked(turns: tuple[ConversationTurn, ...], trial: TrialContext) -> str:
    return "acme was thanked" if "thanks" in turns[-1].user_input else ""


plugin = Plugin(
    name="acme",
    version="2.1.0",
    evaluators={"acme_says": Says, "acme_approves": Approves, "acme_did": Did, "acme_prompt": Prompt},
    models={"acme": AcmeModel, "acme_free": FreeModel},
    agents={"acme": AcmeAgent},
    environments={"acme": AcmeEnvironment},
    judges={"acme": AcmeJudge},
    users={"acme": AcmeUser},
    actions={"acme_note": acme_note},
    services={"acme_log": Service(factory=Log, tools=True)},
    terminations={"acme_thanked": acme_thanked},
)
