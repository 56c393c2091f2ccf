"""Checks on the reply as a whole: `equals`, `similar_to`, `refuses` and `language_is`."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.look import Look, ReplyCheck, ReplyParams, looked
from steadyhand.builtin.evaluators.text import PositiveShare, Text, final_reply, quoted
from steadyhand.errors import ModelError, PluginError
from steadyhand.language.answer import Certainty
from steadyhand.language.language_name import LANGUAGES, is_familiar, is_in
from steadyhand.language.refusal import refuses
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, TextCheck
from steadyhand.records.chat import ChatRequest, FinishReason, Message
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import PROSE
from steadyhand.suggestion import nearest
from steadyhand.text_fold import DOUBLE, SINGLE, fold
from steadyhand.text_match import find_forbidden, nfc

_CERTAIN = {Certainty.YES: True, Certainty.NO: False, Certainty.CANNOT_TELL: None}
_SLICE_S = 0.001
_PATIENCE_S = 1.0


class EqualsParams(ReplyParams):
    value: Annotated[Text, PROSE] = Field(
        min_length=1, description="What the whole reply must be, apart from white space around it"
    )
    case_sensitive: bool = Field(default=True, description="Whether case matters")


class Equals(ReplyCheck):
    type: ClassVar[str] = "equals"
    params: ClassVar[type[EvaluationParams]] = EqualsParams

    async def look(self, params: EqualsParams, text: str) -> Look:
        asked, said = nfc(params.value).strip(), nfc(text).strip()
        expected = f"{quoted(params.value)}, {'case-sensitive' if params.case_sensitive else 'ignoring case'}"
        same = asked == said or (not params.case_sensitive and asked.casefold() == said.casefold())
        if same:
            return Look(holds=True, said=f"is {quoted(params.value)}", expected=expected, found=said)
        alike = _reads_as(said, asked, case_sensitive=params.case_sensitive)
        why = f"is not {quoted(params.value)}" + (", only much like it" if alike else "")
        return Look(holds=False, either=alike, said=why, expected=expected, found="another text")


def _reads_as(said: str, asked: str, *, case_sensitive: bool) -> bool:
    """Whether a person reads no other words, whatever the markup, the quotes and the full stop."""
    try:
        found = find_forbidden(said, asked, case_sensitive=case_sensitive)
    except TimeoutError:
        return True
    return found is not None and not (said[: found[0]] + said[found[1] :]).translate(_FRAME).strip()


_FRAME = str.maketrans(dict.fromkeys(f"*_~`#>.!{SINGLE}{DOUBLE}"))


class SimilarToParams(ReplyParams):
    value: Annotated[Text, PROSE] = Field(min_length=1, description="What the reply must be like")
    at_least: PositiveShare = Field(
        default=0.8,
        description="How like: 1 minus the edit distance divided by the length of the longer text, or the cosine",
    )
    method: Literal["edits", "embeddings"] = Field(
        default="edits", description="Whether letters are compared, or the embeddings of both texts"
    )
    model: str | None = Field(
        default=None, min_length=1, description="The model to ask for embeddings: `provider/model` or an alias"
    )

    @model_validator(mode="after")
    def _model_with_embeddings(self) -> Self:
        if self.method == "embeddings" and self.model is None:
            raise ValueError("`method: embeddings` needs a `model`, such as openai/text-embedding-3-small")
        if self.method != "embeddings" and self.model is not None:
            raise ValueError("`model` has no effect without `method: embeddings`")
        return self


class SimilarTo(ReplyCheck):
    type: ClassVar[str] = "similar_to"
    params: ClassVar[type[EvaluationParams]] = SimilarToParams

    def embeds_with(self, params: SimilarToParams) -> str | None:
        return params.model

    def on_text(self, params: SimilarToParams) -> TextCheck | None:
        return None if params.model is not None else super().on_text(params)

    async def look_in(
        self, params: SimilarToParams, text: str, result: ExecutionResult, context: EvaluationContext
    ) -> Look:
        if params.model is None:
            return await self.look(params, text)
        asked = f"at least {params.at_least:g} like {quoted(params.value)} by embeddings of {params.model}"
        model = context.embedder
        if model is None:
            return Look(holds=None, said=f"was not compared: {params.model} was not asked", expected=asked)
        texts = [Message(role="user", content=nfc(each).strip()) for each in (params.value, text)]
        try:
            answer = await context.trial.call(model, ChatRequest(messages=tuple(texts), purpose="judge"))
        except ModelError as error:
            return Look(holds=None, said=f"could not be compared by embeddings: {error}", expected=asked)
        share = float(answer.text)
        if not -1 <= share <= 1:
            raise PluginError(f"the model {model.name} answered {answer.text!r}; expected a number from -1 to 1")
        said = f"is {share:.3f} like {quoted(params.value)} by {model.name}; expected at least {params.at_least:g}"
        figures = {"similarity": round(share, 4), "model": model.name}
        return Look(holds=share >= params.at_least, said=said, expected=asked, found=f"{share:.3f}", figures=figures)

    async def look(self, params: SimilarToParams, text: str) -> Look:
        asked, said = nfc(params.value).strip(), nfc(text).strip()
        expected = f"at least {params.at_least:g} like {quoted(params.value)}"
        share = await similarity(asked, said)
        if share < params.at_least and (folded := fold(said).translate(_FRAME)) != said:
            read = await similarity(fold(asked).translate(_FRAME), folded)
        else:
            read = share
        return Look(
            holds=share >= params.at_least,
            either=share < params.at_least <= read,
            said=f"is {share:.3f} like {quoted(params.value)}; expected at least {params.at_least:g}",
            expected=expected,
            found=f"{share:.3f}",
            figures={"similarity": round(share, 4)},
        )


async def similarity(one: str, other: str) -> float:
    """1 for equal texts, 0 for texts without a character in common at any place. Raises `TimeoutError`."""
    longest = max(len(one), len(other))
    return 1.0 if longest == 0 else 1.0 - await edit_distance(one, other) / longest


async def edit_distance(one: str, other: str) -> int:
    """Levenshtein's, by columns of bits (Myers; Hyyrö), one character of `other` at a time.

    Yields to the event loop every millisecond. Raises `TimeoutError` after a second.
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, char in enumerate(one):
        places[char] = places.get(char, 0) | 1 << at
    full, last = (1 << len(one)) - 1, 1 << len(one) - 1
    up, down, distance = full, 0, len(one)
    began = resumed = time.perf_counter()
    for char in other:
        here = places.get(char, 0)
        level = (((here & up) + up) ^ up) | here | down
        rise, fall = down | (full & ~(level | up)), up & level
        distance += bool(rise & last) - bool(fall & last)
        rise = rise << 1 | 1
        up, down = (fall << 1 | (full & ~(level | rise))) & full, rise & level & full
        if (now := time.perf_counter()) - resumed > _SLICE_S:
            if now - began > _PATIENCE_S:
                raise TimeoutError
            await asyncio.sleep(0)
            resumed = time.perf_counter()
    return distance


class RefusesParams(ReplyParams):
    pass


class Refuses(ReplyCheck):
    """Sure of a refusal that says nothing else, and of an answer that refuses nothing."""

    type: ClassVar[str] = "refuses"
    params: ClassVar[type[EvaluationParams]] = RefusesParams
    followed: ClassVar[bool] = False  # a refusal may be taken back

    async def evaluate(
        self, params: RefusesParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.finish is not None and result.finish.reason is FinishReason.REFUSAL:
            text = final_reply(result)
            return looked(Look(holds=True, said="ended as a refusal", expected=_REFUSAL), where="reply", text=text)
        return await super().evaluate(params, result, context)

    async def look(self, params: RefusesParams, text: str) -> Look:
        return _refusal_seen(text, "")

    async def look_in(
        self, params: RefusesParams, text: str, result: ExecutionResult, context: EvaluationContext
    ) -> Look:
        return _refusal_seen(text, "\n".join(each.content for each in result.messages if each.role == "user"))


def _refusal_seen(text: str, asked: str) -> Look:
    read = refuses(text, asked, familiar=is_familiar(text))
    clause = quoted(read.clause) if read.clause else ""
    said = {
        Certainty.YES: f"refuses: {read.why}",
        Certainty.NO: f"does not refuse: {read.why}",
        Certainty.CANNOT_TELL: f"may refuse, and may not: {read.why}",
    }[read.answer]
    return Look(holds=_CERTAIN[read.answer], said=said, expected=_REFUSAL, found=clause or read.why)


_REFUSAL = "a refusal, and nothing else"


def _known_language(code: str) -> str:
    if code not in LANGUAGES:
        near = nearest(code, LANGUAGES)
        hint = f"; did you mean `{near}`?" if near else ""
        raise ValueError(f"no language {code!r} is known{hint} (allowed: {', '.join(LANGUAGES)})")
    return code


class LanguageIsParams(ReplyParams):
    language: Annotated[str, AfterValidator(_known_language)] = Field(
        description=f"The language's code: {', '.join(LANGUAGES)}"
    )


class LanguageIs(ReplyCheck):
    type: ClassVar[str] = "language_is"
    params: ClassVar[type[EvaluationParams]] = LanguageIsParams

    async def look(self, params: LanguageIsParams, text: str) -> Look:
        read = is_in(text, params.language)
        said = {
            Certainty.YES: f"is in the language {params.language}",
            Certainty.NO: f"is not in the language {params.language}: {read.why}",
            Certainty.CANNOT_TELL: f"may be in the language {params.language}, and may not: {read.why}",
        }[read.answer]
        return Look(holds=_CERTAIN[read.answer], said=said, expected=f"the language {params.language}", found=read.why)
