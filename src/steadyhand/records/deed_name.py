"""The names of what an agent does: when two mean the same thing, and what an agent was offered under which names.

One tool goes by many names: `bank_transfer` to the model, `bank.transfer` as service and method, `transfer` for short,
`mcp__bank__transfer` or `Bank-transfer` in a framework. Names are compared ignoring case and separators, and a name
also stands for those that it ends with after a `.`, `/`, `:` or `__`. Pure functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from steadyhand.records.base import Record
from steadyhand.text_fold import fold

Likeness = Literal["yes", "maybe", "no"]
_SEPARATORS = re.compile(r"[\W_]+")
_QUALIFIER = re.compile(r"__|[./:]")
_CALLED = ".__call__"
_MCP = "mcp"
_NAMESPACES = frozenset((_MCP, "function", "functions", "tool", "tools"))
"""First parts that say only that a tool is called, not whose it is."""


def plain_name(name: str) -> str:
    """A name in the form in which names are compared: without case and separators, so also `listIssues` is
    `list_issues`."""
    return _SEPARATORS.sub("", (name if name.isascii() else fold(name)).casefold())


def likeness(wanted: str, names: Iterable[str]) -> Likeness:
    """Whether something known by these `names` is what a check calls `wanted`.

    *maybe*: the short names agree, and whose it is does not settle the question. It is not known for one of them
    (`bank.transfer` and `transfer`), or one is qualified by an MCP server, whose name the agent's own configuration
    chooses and which may not be parted from the tool's (`mcp_bank_transfer`); or a hyphen may be Semantic Kernel's or
    one between two words (`bank-transfer` and `transfer`).
    """
    asked = _parsed(wanted)
    own = [_parsed(name) for name in names]
    if any({asked.whole, asked.bare} & set(each.forms) for each in own):
        return "yes"
    if any(asked.short == each.after_hyphen or each.short == asked.after_hyphen for each in own):
        return "maybe"
    if any(asked.short in each.after_server or each.short in asked.after_server for each in own):
        return "maybe"
    alike = asked.qualified and any(asked.short == each.short for each in own)
    comparable = any(each.qualified and each.mcp == asked.mcp for each in own)
    return "maybe" if alike and not comparable else "no"


class Meaning(Record):
    """What a name means: the different things, by their longest names, and the numbers of the deeds that they are."""

    things: tuple[str, ...] = ()
    deeds: tuple[int, ...] = ()


def meaning(wanted: str, done: Sequence[Sequence[str]], offered: Iterable[Sequence[str]] = ()) -> Meaning:
    """What `wanted` means among what was done and offered, each given by its names.

    Of several things that go by this name, those that have it in full and letter by letter come first, then those that
    have it letter by letter. What was done is the same as what was offered if its names leave only one choice.
    """
    things: dict[str, tuple[int, ParsedName]] = {}
    deeds: dict[int, str] = {}
    for names in offered:
        if likeness(wanted, names) == "yes":
            _keep(things, wanted, names)
    longest_first = sorted(range(len(done)), key=lambda number: not identity(done[number]).qualified)
    for number in longest_first:
        names = done[number]
        if likeness(wanted, names) == "yes":
            same = [key for key, (_, thing) in things.items() if may_be_same([thing.name], names)]
            exact = identity(names).bare
            key = exact if exact in things else same[0] if len(same) == 1 else _keep(things, wanted, names)
            things[key] = (max(things[key][0], _closeness(wanted, names)), things[key][1])
            deeds[number] = key
    best = max((closeness for closeness, _ in things.values()), default=0)
    meant = {key: thing.name for key, (closeness, thing) in things.items() if closeness == best}
    return Meaning(
        things=tuple(sorted(meant.values())), deeds=tuple(sorted(each for each, key in deeds.items() if key in meant))
    )


def _keep(things: dict[str, tuple[int, ParsedName]], wanted: str, names: Sequence[str]) -> str:
    longest = identity(names)
    closeness = _closeness(wanted, names)
    known = things.get(longest.bare)
    if known is None or closeness > known[0]:
        things[longest.bare] = (closeness, longest)
    return longest.bare


def _is_full(name: str, names: Sequence[str]) -> bool:
    """Whether a name says clearly enough that it is one of these: not if it is only much like the short one."""
    return likeness(name, names) == "yes" and (name in names or _parsed(name).bare != identity(names).short)


def _closeness(wanted: str, names: Sequence[str]) -> int:
    longest = identity(names)
    if wanted not in names:
        return 0
    return 1 if longest.qualified and _parsed(wanted).bare == longest.short else 2


def may_be_same(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether these can be the names of one thing, as two sources report it."""
    one, other = identity(names).name, identity(others).name
    return likeness(one, others) != "no" or likeness(other, names) != "no"


def identity(names: Sequence[str]) -> ParsedName:
    """The name that says most about whose it is; one of an MCP server says less than one of a service."""
    return max((_parsed(name) for name in names), key=lambda each: (each.qualified, not each.mcp, len(each.parts)))


class ParsedName:
    """A name in its parts. `bare` is without a namespace, `forms` are all names that it stands for, in plain form."""

    __slots__ = ("after_hyphen", "after_server", "bare", "forms", "mcp", "name", "parts", "qualified", "short", "whole")

    def __init__(self, name: str) -> None:
        self.name: str = name
        parts = [plain_name(part) for part in _split(name.strip().removesuffix(_CALLED))]
        self.whole: str = plain_name(name)
        self.mcp: bool = len(parts) > 1 and parts[0] == _MCP
        bare = parts[1:] if len(parts) > 1 and parts[0] in _NAMESPACES else parts
        self.parts: list[str] = bare
        self.bare: str = "".join(bare)
        self.short: str = bare[-1] if bare else ""
        self.qualified: bool = len(bare) > 1
        self.forms: tuple[str, ...] = (self.whole, *("".join(parts[start:]) for start in range(len(parts))))
        words = name.split("-")
        alone = len(parts) == 1 and len(words) == 2
        self.after_hyphen: str | None = plain_name(words[1]) or None if alone else None
        self.after_server: frozenset[str] = _after_server(name) if len(parts) == 1 else frozenset()


def _after_server(name: str) -> frozenset[str]:
    """What the tool may be called in `mcp_github_create_issue` or `github-mcp-server-create_issue`: where the server's
    name ends is not known."""
    words = [plain_name(word) for word in re.split(r"[_-]", name)]
    if _MCP not in words[:-1]:
        return frozenset()
    return frozenset("".join(words[at:]) for at in range(words.index(_MCP) + 1, len(words)))


_parsed = functools.lru_cache(maxsize=4096)(ParsedName)


def _split(name: str) -> list[str]:
    """At `.`, `/`, `:` and `__`. At a hyphen only if it cannot be one between words, as in the names that Semantic
    Kernel makes of a plugin and a function: `Bank-transfer`, `bank-get_balance`."""
    parts = [part for part in _QUALIFIER.split(name) if plain_name(part)]
    if len(parts) != 1:
        return parts
    left, _, right = parts[0].partition("-")
    if not left or not right or "-" in right:
        return parts
    mixed = "_" in parts[0] or left[0].isupper() != right[0].isupper()
    return [left, right] if mixed else parts


class OfferedTool(Record, array_like=True):
    """Something that the agent could do: the `name` that it sees, and the service and method behind it.

    An empty `service` means a method of any service. Without a `method`, all methods of the service. `schema` is the
    JSON Schema of its parameters, as text, if the model was shown one.
    """

    name: str = ""
    service: str | None = None
    method: str | None = None
    schema: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Empty if the methods are not known one by one."""
        return tool_names(self.name, self.service, self.method)

    def __str__(self) -> str:
        if self.service is None:
            return self.name
        return f"{self.service or '*'}.{self.method or '*'}"


def tool_names(name: str, service: str | None = None, method: str | None = None) -> tuple[str, ...]:
    """All names of a tool, the shortest last. The name that an agent is shown may have been made up from the others."""
    qualified = f"{service}.{method}" if service and method else ""
    return tuple(dict.fromkeys(each for each in (name, qualified, method) if each))


def one_each(tools: Iterable[OfferedTool]) -> tuple[OfferedTool, ...]:
    """Each tool once: one that a model was shown by name alone may be one that we serve, if its name settles which."""
    every = list(dict.fromkeys(tools))
    served = {(tool.service, tool.method): tool for tool in every if tool.service and tool.method}
    for number, tool in enumerate(every):
        same = [key for key, each in served.items() if tool.service is None and _is_full(tool.name, each.names)]
        if len(same) == 1:
            service, method = same[0]
            every[number] = msgspec.structs.replace(tool, service=service, method=method)
    return tuple(dict.fromkeys(every))


class ToolOffer(Record):
    """What the agent was offered. With `complete`, that is all it could do; otherwise it may have tools of its own.
    Services are always all listed."""

    tools: tuple[OfferedTool, ...] = ()
    complete: bool = False

    def has(self, wanted: str) -> bool:
        """Whether something that was offered may go by this name."""
        asked = _parsed(wanted).bare
        return any(
            likeness(wanted, tool.names) != "no" if tool.names else asked.startswith(plain_name(tool.service or ""))
            for tool in self._known
        )

    def has_call(self, service: str | None, method: str | None) -> bool:
        """Whether such a service call was possible; None means any."""
        return any(
            (service is None or not tool.service or plain_name(service) == plain_name(tool.service))
            and (method is None or tool.method is None or plain_name(method) == plain_name(tool.method))
            for tool in self._known
            if tool.service is not None
        )

    @property
    def _known(self) -> list[OfferedTool]:
        """Without services as a whole whose methods the agent was offered one by one."""
        listed = {tool.service for tool in self.tools if tool.name and tool.service}
        return [tool for tool in self.tools if tool.method is not None or tool.name or tool.service not in listed]

    def serves(self, done: Sequence[str]) -> bool:
        """Whether we serve what goes by one of these names: a call of it would have reached us."""
        return any(_is_full(name, tool.names) for tool in self.tools if tool.service is not None for name in done)

    def names_of(self, done: Sequence[str]) -> tuple[str, ...]:
        """The other names of what was done, if what was offered settles which tool it was."""
        every = dict.fromkeys(tool.names for tool in self.tools)
        alike = [names for names in every if any(_is_full(name, names) for name in done)]
        things = meaning(done[0], (), alike).things
        return tuple(name for names in alike if (identity(names).name,) == things for name in names)

    @property
    def spellings(self) -> tuple[list[str], list[str]]:
        """What a wrong name may have been meant to be: whole names, and those of services and methods."""
        parts = [part for tool in self.tools for part in (tool.service, tool.method) if part]
        return [str(tool) for tool in self.tools], parts

    def __str__(self) -> str:
        return ", ".join(sorted({str(tool) for tool in self.tools})) or "nothing"


def is_of_service(service: str, names: Iterable[str]) -> bool:
    """Whether a name begins with that of the service, as `bank_transfer` and `mcp__bank__transfer` do with `bank`."""
    wanted = plain_name(service)
    for name in names:
        words = [word.casefold() for word in _SEPARATORS.split(name) if word]
        words = words[1:] if words[:1] == [_MCP] else words
        if any("".join(words[:end]) == wanted for end in range(1, len(words))):
            return True
    return False


class NamedDeed(Record):
    """A deed that a check names: an action, or a service call. `required` if the check asks that it was done."""

    action: str | None = None
    service: str | None = None
    method: str | None = None
    required: bool = False
