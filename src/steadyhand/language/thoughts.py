"""Where a model's thoughts end and its answer begins, in the text of an answer.

Only marks that open the answer count, and a closing mark that nothing in the text opened: some templates open the
thought in the prompt. Marks inside code are text, and so are marks further on. docs/models.md explains this to users.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from steadyhand.records.base import Record

HARMONY = "harmony"
NONE = "none"
DEFAULT_TAGS: tuple[str, ...] = (
    "think", "thinking", "thought", "thoughts", "reasoning", "scratchpad", "seed:think", "longcat_think",
    "[THINK] [/THINK]", "\u25c1think\u25b7 \u25c1/think\u25b7", "<|begin_of_thought|> <|end_of_thought|>",
    "<|START_THINKING|> <|END_THINKING|>", "<|inner_prefix|> <|inner_suffix|>", "<|channel>thought <channel|>",
    "<unused94>thought <unused95>", HARMONY,
)  # fmt: skip
_TAG = re.compile(r"[A-Za-z][\w:.-]*")
_BLANK = r"[\s\u200b-\u200d\u2060\ufeff]*+"
_HEADER = r"(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*"
_MESSAGE = r"(?:[^<]|<(?!\|message\|>)){0,200}?<\|message\|>"
_SEGMENT_END = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)", re.IGNORECASE)
_FINAL_END = re.compile(r"<\|(?:end|return|call)\|>\s*(?=\Z|<\|(?:start|channel)\|>)", re.IGNORECASE)
_MOST_MARKS = 200
"""Nobody thinks that often. Of a text with more marks, all that stands before the last closing one is thought."""

_LONGEST_MARK = 400


class Split(Record):
    """The text of an answer without its marks. With only thoughts, `answer` is empty."""

    thoughts: tuple[str, ...]
    answer: str


class Marks:
    """The marks of one setting of `reasoning_tags`."""

    __slots__ = ("_closer", "_hints", "_mark", "_opener", "_starts")

    def __init__(self, tags: Sequence[str]) -> None:
        """A tag is a name, `harmony`, or an opening and a closing mark with a space between. Raises `ValueError`."""
        openers, closers = zip(*map(_pair, tags), strict=True)
        self._starts: tuple[str, ...] = tuple(start for tag in tags for start in _starts(tag))
        closing = "|".join(filter(None, closers))
        self._hints: tuple[str, ...] = tuple({each.replace("\\", "")[0] for each in (*openers, *closers) if each})
        harmony = (
            rf"(?P<harmony>{_HEADER}(?P<channel>\w*)(?:{_MESSAGE})?+)"
            if HARMONY in tags
            else r"(?P<harmony>(?P<channel>)(?!))"
        )
        plain = "|".join(opener for opener, tag in zip(openers, tags, strict=True) if tag != HARMONY) or "(?!)"
        final = rf"{_HEADER}final\b{_MESSAGE}" if HARMONY in tags else "(?!)"
        self._opener: re.Pattern[str] = re.compile(rf"{_BLANK}(?:{plain}|{harmony})", re.IGNORECASE)
        self._closer: re.Pattern[str] = re.compile(closing or "(?!)", re.IGNORECASE)
        marks = rf"(?P<final>{final})|(?P<close>{closing or '(?!)'})|(?P<open>{plain})"
        self._mark: re.Pattern[str] = re.compile(marks, re.IGNORECASE)

    def split(self, text: str, *, growing: bool = False) -> Split | None:
        """The thoughts and the answer; None if all of the text is the answer.

        While the text is still `growing`, the beginning of what may become an opening mark is no answer yet.
        """
        for hint in self._hints:
            if hint in text:
                break
        else:
            return None
        found: list[str] = []
        answer = self._read(text, 0, found, growing=growing)
        return None if not found and answer is text else Split(thoughts=tuple(found), answer=answer)

    def answer(self, text: str) -> str:
        """The answer as far as it has arrived with `text`."""
        split = self.split(text, growing=True)
        return text if split is None else split.answer

    def _read(self, text: str, at: int, thoughts: list[str], *, growing: bool) -> str:
        """The answer in the text from `at` on. Adds to `thoughts`."""
        begin, end = at, len(text)
        rest: int | None = None
        while True:
            opener = self._opener.match(text, at, end)
            if opener is None:
                after = self._after_lone_closer(text, at, end, thoughts)
                if after is None:
                    break
                at = after
            elif (opener["channel"] or "").casefold() == "final" and opener[0].endswith(">"):
                at = begin = opener.end()
                if (over := _FINAL_END.search(text, at)) is not None:
                    end, rest = over.start(), over.end()
            else:
                closer = (_SEGMENT_END if opener["harmony"] else self._closer).search(text, opener.end(), end)
                thoughts.append(text[opener.end() : end if closer is None else closer.start()])
                if closer is None:
                    return ""
                at = closer.end()
        if growing and self._may_open(text[at:end]):
            return ""
        if at == 0 and end == len(text):
            return text
        answer = text[at:end] if at == begin else text[at:end].lstrip()
        if rest is not None and rest < len(text):  # a final channel, and then another message
            answer = "\n\n".join(filter(None, (answer, self._read(text, rest, thoughts, growing=growing))))
        return answer

    def _may_open(self, rest: str) -> bool:
        """Whether the text is the beginning of an opening mark."""
        rest = re.sub(rf"\A{_BLANK}", "", rest[:_LONGEST_MARK]).casefold()
        return any(
            start.startswith(rest) or (rest.startswith(start) and rest[len(start)].isspace() and ">" not in rest)
            for start in self._starts
        )

    def _after_lone_closer(self, text: str, at: int, end: int, thoughts: list[str]) -> int | None:
        """The end of the last closing mark that closes nothing, outside code; what stands before it is a thought."""
        marks = list(self._mark.finditer(text, at, end))
        if not any(mark["open"] is None for mark in marks):
            return None
        depth, lone = 0, None
        if len(marks) > _MOST_MARKS:
            lone = next(mark for mark in reversed(marks) if mark["open"] is None)
            marks = []
        code = _code_spans(text, at, end) if marks and ("`" in text or "~~~" in text) else ()
        for mark in marks:
            if any(first <= mark.start() < last for first, last in code):
                continue
            if mark["open"] is not None:
                depth += 1
            elif mark["final"] is not None or not depth:
                depth, lone = 0, mark
            else:
                depth -= 1
        if lone is None:
            return None
        thoughts.append(text[at : lone.start()])
        return lone.end()


def _pair(tag: str) -> tuple[str, str]:
    """The patterns of its opening and its closing mark. Raises `ValueError`."""
    if tag == HARMONY:
        return r"<\|", ""
    if _TAG.fullmatch(tag):
        return rf"<{re.escape(tag)}(?:\s[^<>]{{0,200}})?>", rf"</{re.escape(tag)}\s*>"
    pair = tag.split()
    if len(pair) != 2:
        raise ValueError(
            f"{tag!r} is not a tag; expected a name such as `think`, `harmony`, or an opening and a closing mark with "
            "a space between them, such as `[THINK] [/THINK]`"
        )
    return re.escape(pair[0]), re.escape(pair[1])


def _starts(tag: str) -> tuple[str, ...]:
    """What its opening marks begin with."""
    if tag == HARMONY:
        return "<|channel|>", "<|start|>assistant<|channel|>"
    return ((f"<{tag}" if _TAG.fullmatch(tag) else tag.split(maxsplit=1)[0]).casefold(),)


@functools.cache
def marks_of(tags: tuple[str, ...]) -> Marks | None:
    """The marks of these tags, None for `none`. Raises `ValueError`."""
    return None if tags == (NONE,) else Marks(tags)


def answer_of(text: str) -> str:
    """The text without thoughts between the usual marks."""
    marks = marks_of(DEFAULT_TAGS)
    split = None if marks is None else marks.split(text)
    return text if split is None else split.answer


def tags_of(setting: str | Iterable[str]) -> tuple[str, ...]:
    """A setting of `reasoning_tags`: one tag or several, or `none`. Raises `ValueError`."""
    tags = (setting,) if isinstance(setting, str) else tuple(setting)
    if not tags:
        raise ValueError(f"no tags; write `{NONE}` to switch it off")
    if NONE in tags and len(tags) > 1:
        raise ValueError(f"`{NONE}` switches it off and stands alone")
    for tag in tags if tags != (NONE,) else ():
        _pair(tag)
    return tags


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?[^\n`]\1(?!`)")


def _code_spans(text: str, at: int, end: int) -> list[tuple[int, int]]:
    """Fenced blocks and code in a line. A fence that is never closed fences nothing: thoughts break off."""
    spans = [found.span() for found in _INLINE.finditer(text, at, end)]
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text, at, end):
        if opened is None:
            opened = fence if fence[1][0] == "~" or "`" not in fence[2] else None
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            spans.append((opened.start(), fence.end()))
            opened = None
    return spans
