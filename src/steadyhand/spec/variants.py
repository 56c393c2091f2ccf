"""The variants of a scenario: what the agent is told, with something in it that must, or must not, change its decision.

They vary the texts of a scenario that was read, never its checks. Only where the decision must change, the checks that
tell it are turned around, and they are all that is asked there.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import (
    Converse,
    ExampleAnswers,
    Scenario,
    Step,
    Variant,
    VariantKind,
    VariantOrigin,
    VariantText,
    evaluation_specs,
)
from steadyhand.spec.agent import Catalogue
from steadyhand.spec.groups import negated
from steadyhand.spec.matrix_axes import show_value
from steadyhand.spec.shared_shapes import ChangeShape, SameShape, VariantsShape, VariantTextShape
from steadyhand.spec.validation import FieldPath, Findings, advice, describe, validate
from steadyhand.spec.variant_texts import (
    Rewording,
    agent_texts,
    finds,
    mapped,
    mistyping,
    pattern_of,
    replacing,
    saying,
    shuffling,
    with_question,
)
from steadyhand.spec.yaml import Document, read_document

_WAYS = ("replace", "remove", "append", "typos", "shuffle", "file")
_FORBIDS = frozenset(("not_contains", "not_regex", "forbids"))


class Variants(NamedTuple):
    """The variants of a scenario, and the texts that nobody has signed, which are not run."""

    scenarios: list[Scenario]
    unsigned: tuple[VariantText, ...] = ()


# Reading


def read_variants(document: Document, scenario: Scenario, catalogue: Catalogue, findings: Findings) -> Scenario:
    """The scenario with the variants that its document declares."""
    data = cast("dict[str, Any]", document.data)
    shape = validate(VariantsShape, data["variants"], ("variants",), findings)
    if shape is None:
        return scenario
    reader = _Reader(document, scenario, catalogue, findings, shape.margin)
    found = [reader.same(each, ("variants", "same", index)) for index, each in enumerate(shape.same)]
    found += [reader.change(each, ("variants", "changes", index)) for index, each in enumerate(shape.changes)]
    if not found:
        findings.error(("variants",), "expected `same` or `changes` with at least one variant", "missing-key")
    return replace(scenario, variants=tuple(found), sources=(*scenario.sources, *reader.files))


class _Reader:
    def __init__(
        self, document: Document, scenario: Scenario, catalogue: Catalogue, findings: Findings, margin: float
    ) -> None:
        self._document: Document = document
        self._scenario: Scenario = scenario
        self._catalogue: Catalogue = catalogue
        self._findings: Findings = findings
        self._margin: float = margin
        self._first: dict[str, FieldPath] = {}
        self.files: dict[str, None] = {}

    def same(self, shape: SameShape, path: FieldPath) -> Variant:
        texts = () if shape.file is None else self._texts(shape.file, shape.name, (*path, "file"))
        variant = self._variant(shape, path)
        return replace(variant, typos=shape.typos, shuffle=shape.shuffle is not None, texts=texts)

    def change(self, shape: ChangeShape, path: FieldPath) -> Variant:
        opposite = shape.expects != self._scenario.expects
        if not opposite:
            message = f"the scenario itself expects to {shape.expects}; a variant that expects it too belongs to `same`"
            self._findings.error((*path, "expects"), message, "conflict")
        removed = dict.fromkeys(_several(shape.remove or ()), ("",))
        variant = self._variant(shape, path)
        checks = tuple(self._reversed(shape, path)) if opposite else ()
        return replace(
            variant, kind="changes", replace={**removed, **variant.replace}, expects=shape.expects, checks=checks
        )

    def _variant(self, shape: SameShape | ChangeShape, path: FieldPath) -> Variant:
        self._check(shape, path)
        return Variant(
            name=shape.name,
            kind="same",
            place=self._document.locate(path),
            margin=self._margin,
            replace={text: _several(values) for text, values in (shape.replace or {}).items()},
            append=_several(shape.append or ()),
        )

    def _check(self, shape: SameShape | ChangeShape, path: FieldPath) -> None:
        findings, name = self._findings, shape.name
        if name in self._first:
            place = self._document.locate(self._first[name])
            findings.error((*path, "name"), f"another variant at {place} is also called `{name}`", "duplicate-name")
        self._first.setdefault(name, path)
        ways = [way for way in _WAYS if way in type(shape).model_fields]
        given = [way for way in ways if getattr(shape, way) is not None]
        if len(given) != 1:
            listed = " and ".join(f"`{way}`" for way in given) or "none"
            message = f"expected one of {', '.join(ways)}; found {listed}"
            findings.error(path, message, "conflict" if given else "missing-key")
        counts = {len(_several(values)) for values in (shape.replace or {}).values()} - {1}
        if len(counts) > 1:
            message = "each text needs the same number of values, as the first of all belong together, then the second"
            findings.error((*path, "replace"), message, "bad-value")

    def _reversed(self, shape: ChangeShape, path: FieldPath) -> Iterator[EvaluationSpec]:
        """The checks that tell the decision, turned around."""
        specs = [spec for spec in evaluation_specs(self._scenario) if not self._params(spec, "stands_alone")]
        wanted = _several(shape.reverses or ())
        at = path if shape.reverses is None else (*path, "reverses")
        if not wanted:
            demands = [spec for spec in specs if not (spec.negate or spec.type in _FORBIDS)]
            found = demands if shape.expects == "defer" else specs
            if len(found) != 1:
                names = ", ".join(f"`{_label(spec)}`" for spec in found) or "none"
                message = f"name the checks that tell the decision under `reverses`; found {names}"
                self._findings.error(at, message, "missing-key")
                return
            wanted = (_label(found[0]),)
        for name in wanted:
            named = [spec for spec in specs if name in (spec.name, spec.description, spec.type)]
            if not named:
                message = f"no check is called `{name}`{advice(name, dict.fromkeys(map(_label, specs)))}"
                self._findings.error(at, message, "unknown-name")
            for spec in named:
                if (turned := self._turned(spec, at)) is not None:
                    yield turned

    def _turned(self, spec: EvaluationSpec, at: FieldPath) -> EvaluationSpec | None:
        model = None if spec.negate or spec.parts else self._catalogue.get(spec.type)
        if model is None:
            return replace(spec, negate=not spec.negate)
        findings = Findings(self._document)
        turned = negated(spec, model.model_validate(spec.params), at, findings)
        for problem in findings.problems:
            self._findings.error(at, problem.message, problem.code)
        return turned

    def _params(self, spec: EvaluationSpec, name: str) -> str:
        return getattr(self._catalogue.get(spec.type), name, "")

    def _texts(self, name: str, variant: str, at: FieldPath) -> tuple[VariantText, ...]:
        path = os.path.normpath(os.path.join(self._document.folder, name))  # noqa: PTH118
        if not os.path.exists(path):  # noqa: PTH110
            message = f"expected a file with texts, relative to the scenario; found none at `{path}`"
            self._findings.error(at, message, "missing-file")
            return ()
        self.files[path] = None
        document, problems = read_document(path, path)
        for problem in problems:
            self._findings.add(problem)
        if document is None:
            return ()
        own = Findings(document)
        data: object = document.data
        if not isinstance(data, list):
            own.error((), f"expected a list of texts, found {describe(data)}", "wrong-type")
        rows = cast("list[Any]", data) if isinstance(data, list) else []
        shapes = [(index, validate(VariantTextShape, row, (index,), own)) for index, row in enumerate(rows)]
        for problem in own.problems:
            self._findings.add(problem)
        found = [(index, shape) for index, shape in shapes if shape is not None]
        mine = [
            VariantText(text=each.text, place=document.locate((index,)), scenario=each.scenario, signed=each.signed)
            for index, each in found
            if each.variant == variant
        ]
        if not mine and not own.failed:
            hint = advice(variant, dict.fromkeys(shape.variant for _, shape in found))
            self._findings.error(at, f"`{path}` has no text of the variant `{variant}`{hint}", "unknown-name")
        return tuple(mine)


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _label(spec: EvaluationSpec) -> str:
    return spec.name or spec.description or spec.type


# Making them


class _Varied(NamedTuple):
    shown: str
    scenario: Scenario


def variants_of(scenario: Scenario) -> Variants:
    """Those that apply to it: what is replaced must be in it, and a text must not be for another scenario."""
    made = [_renamed(scenario, variant, each) for variant in scenario.variants for each in _versions(scenario, variant)]
    texts = [text for variant in scenario.variants for text in variant.texts if _is_for(text, scenario)]
    return Variants(made, tuple(text for text in texts if text.signed is None))


def check_variants(scenarios: Sequence[Scenario], findings: Findings) -> None:
    """That each variant applies to the scenario, or to one of its cases, and that each of its values makes another."""
    if not scenarios:
        return
    problems: dict[Problem, None] = {}
    for variant in scenarios[0].variants:
        problems.update(dict.fromkeys(_problems(variant, scenarios)))
    for problem in problems:
        findings.add(problem)


def _problems(variant: Variant, scenarios: Sequence[Scenario]) -> Iterator[Problem]:
    def problem(message: str, code: str, place: Place = variant.place, level: Any = "error") -> Problem:
        return Problem(place=place, message=f"variant `{variant.name}`: {message}", code=code, level=level)

    declared = [next(each for each in one.variants if each.name == variant.name) for one in scenarios]
    pairs = list(zip(scenarios, declared, strict=True))
    yield from _misplaced(variant, scenarios, problem)
    for key in variant.replace:
        if not any(finds(one, _key_of(own, variant, key)) for one, own in pairs):
            yield problem(f"{describe(key)} is in nothing that the agent is told", "not-found")
            return
    made = [(one, own, _versions(one, own)) for one, own in pairs]
    if not any(each for _, _, each in made) and not any(text.signed is None for text in variant.texts):
        yield problem(_WHY_NOT.get(_way(variant), "none of the cases has all of its texts"), "not-found")
    for one, own, found in made:
        if len({each.shown for each in found}) < len(found):
            yield problem("a value is listed twice", "duplicate-value")
        if any(agent_texts(each.scenario) == agent_texts(one) for each in found):
            yield problem("a value changes nothing", "bad-value")
        for key in own.replace:
            for spec in evaluation_specs(one) if own.kind == "same" else ():
                if pattern_of(key).search(repr([leaf.params for leaf in spec.leaves])):
                    message = f"{describe(key)} also stands in the check at {spec.place}, which stays as it is"
                    yield problem(message, "variant-in-check", level="warning")


def _misplaced(
    variant: Variant, scenarios: Sequence[Scenario], problem: Callable[[str, str, Place], Problem]
) -> Iterator[Problem]:
    """Texts of its file that name no case, or none that there is."""
    ids = {_base_id(one) for one in scenarios}
    files = {each.partition("[")[0] for each in ids}
    for text in variant.texts:
        wanted = text.scenario
        if wanted is None and scenarios[0].case is not None:
            yield problem("the text needs a `scenario`, as every case has its own", "missing-key", text.place)
        elif wanted is not None and wanted not in ids and wanted.partition("[")[0] in files:
            yield problem(f"no case is called `{wanted}`{advice(wanted, ids)}", "unknown-name", text.place)


def _key_of(own: Variant, first: Variant, key: str) -> str:
    """The text that a case replaces where the first one replaces `key`."""
    return list(own.replace)[list(first.replace).index(key)]


_WHY_NOT = {
    "shuffle": "what the user says has a single sentence",
    "typos": "what the user says has no word of four letters",
    "append": "the user says nothing that could be added to",
    "texts": "no text of the file is for this scenario",
}


def _way(variant: Variant) -> str:
    return next((way for way in ("replace", "append", "typos", "shuffle", "texts") if getattr(variant, way)), "")


def _versions(scenario: Scenario, variant: Variant) -> list[_Varied]:
    draw = random.Random(f"{scenario.id}/{variant.name}")  # noqa: S311 -- the same text whenever it is made
    made: list[tuple[str, Scenario | None]] = []
    if variant.replace:
        found = [finds(scenario, text) for text in variant.replace]
        if not (all(found) if variant.kind == "changes" else any(found)):
            return []
        for number in range(max(map(len, variant.replace.values()))):
            values = {text: each[number if len(each) > 1 else 0] for text, each in variant.replace.items()}
            several = next((each[number] for each in variant.replace.values() if len(each) > 1), None)
            shown = variant.name if several is None else f"{variant.name}: {show_value(several)}"
            made.append((shown, mapped(scenario, replacing(values))))
    questions: list[Rewording | None] = [lambda text, more=more: f"{text.rstrip()} {more}" for more in variant.append]
    questions += [mistyping(variant.typos, draw)] if variant.typos is not None else []
    questions += [shuffling(draw)] if variant.shuffle else []
    questions += [
        None if text.signed is None else saying(text.text) for text in variant.texts if _is_for(text, scenario)
    ]
    for number, change in enumerate(questions, start=1):
        shown = f"{variant.name} {number}" if len(questions) > 1 else variant.name
        made.append((shown, None if change is None else with_question(scenario, change)))
    return [_Varied(shown, each) for shown, each in made if each is not None]


def _renamed(scenario: Scenario, variant: Variant, made: _Varied) -> Scenario:
    varied = as_variant(scenario, made.scenario, made.shown, variant.kind, variant.margin)
    if variant.kind == "same":
        return varied
    examples = ExampleAnswers(bad=varied.examples.good)
    return replace(varied, steps=_asking(varied.steps, variant.checks), expects=variant.expects, examples=examples)


def as_variant(scenario: Scenario, varied: Scenario, shown: str, kind: VariantKind, margin: float = 0.0) -> Scenario:
    """The varied scenario with an id of its own in place of the original's."""
    base = _base_id(scenario)
    ours = f"{base}[{shown}]"
    content = repr([scenario.digest, shown, *agent_texts(varied)])
    return replace(
        varied,
        id=ours + scenario.id.removeprefix(base),
        name=f"{scenario.name} ({shown})",
        digest=hashlib.sha256(content.encode()).hexdigest()[:16],
        cell=None if varied.cell is None else replace(varied.cell, base_id=ours),
        target=None if varied.target is None else replace(varied.target, base_id=ours),
        variants=(),
        variant=VariantOrigin(shown=shown, kind=kind, original=scenario.id, base_id=base, margin=margin),
    )


def _base_id(scenario: Scenario) -> str:
    base = scenario.cell or scenario.target
    return scenario.id if base is None else base.base_id


def _is_for(text: VariantText, scenario: Scenario) -> bool:
    return text.scenario in (None, _base_id(scenario))


def _asking(steps: Sequence[Step], checks: Sequence[EvaluationSpec]) -> tuple[Step, ...]:
    """The steps with these checks, each in place of the one that it turns around, and no others."""

    def turned(specs: Sequence[EvaluationSpec]) -> tuple[EvaluationSpec, ...]:
        return tuple(check for spec in specs for check in checks if check.place == spec.place)

    def asking(step: Step) -> Step:
        task = step.task
        if isinstance(task, Converse):
            config = task.config
            script = tuple(replace(each, evaluations=turned(each.evaluations)) for each in config.script)
            config = replace(
                config,
                script=script,
                turn_evaluations=turned(config.turn_evaluations),
                final_evaluations=turned(config.final_evaluations),
            )
            task = replace(task, config=config)
        return replace(step, task=task, evaluations=turned(step.evaluations))

    return tuple(map(asking, steps))
