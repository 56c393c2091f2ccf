"""A chat model as the judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from holdfast.builtin.judges.answer import Answer, answer_schema, read_answer
from holdfast.builtin.judges.prompt import Prompt, build_prompt, with_repair
from holdfast.builtin.judges.reading import Unreadable, read_object
from holdfast.builtin.judges.voting import Ballot, Vote, decide
from holdfast.errors import ModelError, SetupError
from holdfast.ports.agent import TrialContext
from holdfast.ports.judge import Judgement, NoJudgement, Question
from holdfast.ports.model import ChatModel
from holdfast.records.message import Message
from holdfast.records.model import ChatRequest, ChatResponse
from holdfast.records.trajectory import Visible

AnswerMode = Literal["schema", "json", "text"]
_TOLD: tuple[Visible, ...] = ("actions", "services", "files", "database")
_MODES: tuple[AnswerMode, ...] = ("schema", "json", "text")


class LlmJudge:
    """Asks a model, validates what it answers, asks once more when that cannot be read, and counts votes.

    `models` gives the model for a `model_type`; None stands for the judge that was named. `name` is that one's. One
    instance serves many trials at once.
    """

    def __init__(
        self,
        models: Callable[[str | None], ChatModel],
        *,
        name: str,
        self_judged: bool = False,
        default_votes: int = 1,
        max_tokens: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._models = models
        self._name = name
        self._self_judged = self_judged
        self._default_votes = default_votes
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._accepted: dict[tuple[str, str], AnswerMode] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def self_judged(self) -> bool:
        return self._self_judged

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        """Raises `NoJudgement`."""
        try:
            model = self._models(question.model_type)
        except SetupError as error:
            raise NoJudgement(f"the judge could not be built: {error}") from error
        if trial.shows.acts:
            question = replace(question, unseen=trial.shows.only("not_seen", _TOLD))
        schema = answer_schema(question)
        prompt = build_prompt(question, schema)
        asking = _Asking(self, model, question, schema, prompt, trial)
        count = question.votes if question.votes is not None else self._default_votes
        votes = await _together([asking.vote(index) for index in range(max(1, count))])
        ballot = Ballot(
            model=model.name,
            prompt_hash=prompt.hash,
            self_judged=self._self_judged and model.name == self._name,
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
        """How this model is asked for JSON: the strictest way that its server has not refused."""
        return self._accepted.get(key, "schema")

    def accepted(self, key: tuple[str, str], mode: AnswerMode) -> None:
        self._accepted[key] = mode


async def _together(votes: Sequence[Coroutine[Any, Any, Vote]]) -> list[Vote]:
    """All votes, asked at once; when one of them breaks, its own exception and not a group's."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(vote) for vote in votes]
    except BaseExceptionGroup as broken:
        raise broken.exceptions[0] from None
    return [task.result() for task in tasks]


class _Asking:
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
        # A server that refuses one author's schema may still take another's.
        own = question.json_schema
        self._key = (model.name, "" if own is None else json.dumps(own, sort_keys=True, default=str))

    async def vote(self, index: int) -> Vote:
        """One answer, or an abstention with its reason. Never raises for what the model does."""
        raw = ""
        try:
            raw = (await self._call(self._prompt.messages, index)).text
            try:
                return Vote(raw=raw, answer=self._read(raw))
            except Unreadable as error:
                problem = str(error)
            again = (await self._call(with_repair(self._prompt, raw, problem), index)).text
        except ModelError as error:
            return Vote(raw=raw, problem=f"the judge could not be reached: {error}")
        both = f"{raw}\n\n---- asked again ----\n\n{again}"
        try:
            return Vote(raw=both, answer=self._read(again), repaired=True)
        except Unreadable as error:
            return Vote(raw=both, problem=f"the judge's answer could not be used, twice: {error}", repaired=True)

    def _read(self, raw: str) -> Answer:
        fields = read_object(raw, shown=self._prompt.shown, nonce=self._prompt.nonce)
        return read_answer(fields, self._question)

    async def _call(self, messages: tuple[Message, ...], index: int) -> ChatResponse:
        """Ask the strictest way that the server takes. Raises `ModelError`."""
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
