"""A chat model as the judge: asks it, and counts its votes."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Literal

from msgspec.structs import replace
from pydantic import Field

from steadyhand.builtin.judges.answer import JudgeAnswer, UnreadableAnswer, answer_schema, read_answer, read_object
from steadyhand.builtin.judges.prompt import SHOWN, Prompt, build_prompt, not_shown, with_repair
from steadyhand.builtin.judges.rubric import score_rubric
from steadyhand.errors import ModelError, SetupError
from steadyhand.plugins.plugin import JudgeSettings, Options, read_options
from steadyhand.ports.agent import Judgement, NoJudgement, Question, TrialContext
from steadyhand.ports.model import ChatModel
from steadyhand.records.base import Record, first_few, shorten
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.records.evaluation import JudgeNote, Material, Rubric, RubricScore
from steadyhand.records.event import Visible

AnswerMode = Literal["schema", "json", "text"]
_MODES: tuple[AnswerMode, ...] = ("schema", "json", "text")
_REPORTED: tuple[Visible, ...] = ("actions", "services", "files", "database")
_SEPARATOR = "\n\n----\n\n"
_RAW_LIMIT = 20_000
_LONG_RECORDS = 30_000


class LlmJudge:
    """Asks a model, validates its answer, asks once more if that cannot be read, and counts votes.

    `models` returns the model for a `model_type`; None means the configured judge, whose name is `name`. `tested` is
    the name of the model under test. One instance serves many trials at once.
    """

    def __init__(
        self,
        models: Callable[[str | None], ChatModel],
        *,
        name: str,
        tested: str | None = None,
        default_votes: int = 1,
        max_tokens: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._models = models
        self.name: str = name
        self._tested = tested
        self._default_votes = default_votes
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._accepted: dict[tuple[str, str], AnswerMode] = {}

    @property
    def self_judged(self) -> bool:
        return self.name == self._tested

    @property
    def instructions_digest(self) -> str:
        """Changes if the prompt around a question changes."""
        question = Question(prompt="", materials=())
        return build_prompt(question, answer_schema(question)).hash

    def warm_up(self) -> None:
        """Read an answer once: what that imports takes longer than a measurement may be disturbed."""
        importlib.import_module("steadyhand.builtin.judges.rubric")
        question = Question(prompt="", materials=(), json_schema={"type": "object", "required": ["judgment"]})
        answer_schema(question)
        read_answer(read_object('{"judgment": "yes"}'), question)

    async def score(
        self, rubric: Rubric, materials: Sequence[Material], trial: TrialContext, *, timeliness: float | None
    ) -> RubricScore:
        """See `ports.agent.RubricJudge`."""
        return await score_rubric(rubric, trial.scenario, materials, judge=self, trial=trial, timeliness=timeliness)

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        """Raises `NoJudgement`."""
        try:
            model = self._models(question.model_type)
        except SetupError as error:
            raise NoJudgement(f"the judge could not be built: {error}") from error
        self_judged = model.name == self._tested
        note = JudgeNote(model=model.name, prompt_hash="", raw="", self_judged=self_judged)
        missing = not_shown(question.materials)
        if missing:
            raise _unseen(missing, note)
        if trial.shows.acts:
            question = replace(question, unseen=trial.shows.only("not_seen", _REPORTED))
        schema = answer_schema(question)
        prompt = build_prompt(question, schema)
        if len(prompt.shown) > SHOWN:
            missing = (f"all the records ({len(prompt.shown)} characters, with hidden ones written out)",)
            raise _unseen(missing, replace(note, prompt_hash=prompt.hash))
        call = _JudgeCall(self, model, question, schema, prompt, trial)
        count = question.votes if question.votes is not None else self._default_votes
        votes = await _together([call.vote(index) for index in range(max(1, count))])
        ballot = Ballot(
            model=model.name,
            prompt_hash=prompt.hash,
            self_judged=self_judged,
            capabilities=question.capabilities,
        )
        return decide(votes, ballot)

    def request(self, question: Question, messages: tuple[Message, ...], *, seed: int) -> ChatRequest:
        return ChatRequest(
            messages=messages,
            temperature=question.temperature if question.temperature is not None else 0.0,
            max_tokens=self._max_tokens,
            seed=seed,
            purpose="judge",
            timeout_s=self._timeout_s,
        )

    def mode_for(self, key: tuple[str, str]) -> AnswerMode:
        """How to ask this model for JSON: the strictest way its server has not refused."""
        return self._accepted.get(key, "schema")

    def accepted(self, key: tuple[str, str], mode: AnswerMode) -> None:
        self._accepted[key] = mode


def _unseen(missing: tuple[str, ...], note: JudgeNote) -> NoJudgement:
    """The judgement could depend on what the judge cannot see, so the judge is not asked."""
    listed = first_few(missing, 3, between="; ")
    reason = f"the judge was not asked, because it cannot be shown everything: {listed}"
    return NoJudgement(reason, note=replace(note, not_shown=missing))


async def _together(votes: Sequence[Coroutine[Any, Any, Vote]]) -> list[Vote]:
    """All votes, asked concurrently. If one raises, its exception is raised, not an exception group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(vote) for vote in votes]
    except BaseExceptionGroup as broken:
        raise broken.exceptions[0] from None
    return [task.result() for task in tasks]


class _JudgeCall:
    """One question to one model."""

    def __init__(
        self,
        judge: LlmJudge,
        model: ChatModel,
        question: Question,
        schema: dict[str, Any],
        prompt: Prompt,
        trial: TrialContext,
    ) -> None:
        self._judge = judge
        self._model = model
        self._question = question
        self._schema = schema
        self._prompt = prompt
        self._trial = trial
        # A server that refuses one schema may still accept another.
        own = question.json_schema
        self._key = (model.name, "" if own is None else json.dumps(own, sort_keys=True, default=str))

    async def vote(self, index: int) -> Vote:
        """One answer, or an abstention with its reason. Never raises because of the model."""
        raw = ""
        try:
            first = await self._call(self._prompt.messages, index)
            raw = first.text
            try:
                return Vote(raw=raw, answer=await self._read(first))
            except UnreadableAnswer as error:
                problem = str(error)
            second = await self._call(with_repair(self._prompt, raw, problem), index)
        except ModelError as error:
            return Vote(raw=raw, problem=f"the judge could not be reached: {error}")
        both = f"{raw}\n\n---- asked again ----\n\n{second.text}"
        try:
            return Vote(raw=both, answer=await self._read(second), repaired=True)
        except UnreadableAnswer as error:
            return Vote(
                raw=both, problem=f"the judge gave no usable answer, even when asked again: {error}", repaired=True
            )

    async def _read(self, response: ChatResponse) -> JudgeAnswer:
        """Raises `UnreadableAnswer`. Long records are compared in a thread, as the event loop is timing calls."""
        finish = response.finish
        if finish is not None and not finish.plain:
            raise UnreadableAnswer(f"it is incomplete: {finish}")
        if len(self._prompt.shown) > _LONG_RECORDS:
            return await asyncio.to_thread(self._parse, response)
        return self._parse(response)

    def _parse(self, response: ChatResponse) -> JudgeAnswer:
        fields = read_object(response.text, shown=self._prompt.shown, nonce=self._prompt.nonce)
        return read_answer(fields, self._question)

    async def _call(self, messages: tuple[Message, ...], index: int) -> ChatResponse:
        """Ask in the strictest way the server accepts. Raises `ModelError`."""
        request = self._judge.request(self._question, messages, seed=self._trial.seed + index)
        first = _MODES.index(self._judge.mode_for(self._key))
        for mode in _MODES[first:]:
            try:
                response = await self._trial.call(self._model, self._in_mode(request, mode))
            except ModelError as error:
                if error.kind != "refused" or mode == "text":
                    raise
                continue
            self._judge.accepted(self._key, mode)
            return response
        raise AssertionError("the last mode either answers or raises")

    def _in_mode(self, request: ChatRequest, mode: AnswerMode) -> ChatRequest:
        if mode == "schema":
            return replace(request, json_schema=self._schema)
        return replace(request, json_mode=True) if mode == "json" else request


class Vote(Record):
    """The result of asking once. Without an `answer` it is an abstention, and `problem` says why."""

    raw: str
    answer: JudgeAnswer | None = None
    problem: str | None = None
    repaired: bool = False


class Ballot(Record):
    """Who was asked, and with which prompt."""

    model: str
    prompt_hash: str
    self_judged: bool
    capabilities: tuple[str, ...]


def decide(votes: Sequence[Vote], ballot: Ballot) -> Judgement:
    """Raises `NoJudgement` when there is no majority."""
    answers = [vote.answer for vote in votes if vote.answer is not None]
    counts = Counter(answer.judgment.casefold() for answer in answers)
    word, most = counts.most_common(1)[0] if counts else ("", 0)
    if 2 * most <= len(votes):
        raise NoJudgement(_no_majority(votes, counts), note=_note(votes, ballot, [], {}))
    winners = [answer for answer in answers if answer.judgment.casefold() == word]
    achieved = {name: 2 * sum(answer.achieved[name] for answer in answers) > len(votes) for name in ballot.capabilities}
    note = _note(votes, ballot, winners, achieved)
    return Judgement(
        judgment=winners[0].judgment,
        note=note,
        confidence=note.confidence,
        reasoning=winners[0].reasoning,
        achieved=achieved,
        fields=winners[0].fields,
        needs_unseen=any(answer.needs_unseen for answer in winners),
    )


def _note(
    votes: Sequence[Vote], ballot: Ballot, winners: Sequence[JudgeAnswer], achieved: dict[str, bool]
) -> JudgeNote:
    sure = [answer.confidence for answer in winners if answer.confidence is not None]
    return JudgeNote(
        model=ballot.model,
        prompt_hash=ballot.prompt_hash,
        raw=_SEPARATOR.join(_stored_answer(vote.raw) for vote in votes),
        self_judged=ballot.self_judged,
        confidence=round(sum(sure) / len(sure), 6) if sure else None,
        reasoning=winners[0].reasoning if winners else None,
        capabilities=achieved,
        votes=tuple(vote.answer.judgment if vote.answer else "abstained" for vote in votes) if len(votes) > 1 else (),
        repaired=any(vote.repaired for vote in votes),
    )


def _no_majority(votes: Sequence[Vote], counts: Counter[str]) -> str:
    problems = [vote.problem for vote in votes if vote.problem]
    if len(votes) == 1 or len(problems) == len(votes):
        return problems[0]
    tally = [f"{count} {word!r}" for word, count in counts.most_common()]
    if problems:
        tally.append(f"{len(problems)} abstained (first: {problems[0]})")
    return f"no majority among the judge's {len(votes)} votes: {', '.join(tally)}"


def _stored_answer(raw: str) -> str:
    """The raw answer as stored: valid Unicode, of a limited size."""
    return shorten(raw.encode("utf-8", "replace").decode("utf-8"), _RAW_LIMIT, keep="both", count=True)


class LlmJudgeOptions(Options):
    """Limits on each answer of the judge; None leaves them to the model's own settings."""

    max_tokens: int | None = Field(default=None, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)


class LlmJudgeFactory:
    options: ClassVar[type[Options]] = LlmJudgeOptions

    def __call__(self, settings: JudgeSettings) -> LlmJudge:
        options = read_options(LlmJudgeOptions, settings.options, "judge llm")
        return LlmJudge(
            settings.choose,
            name=settings.name,
            tested=settings.tested,
            default_votes=settings.votes,
            max_tokens=options.max_tokens,
            timeout_s=options.timeout_s,
        )


llm_judge = LlmJudgeFactory()
