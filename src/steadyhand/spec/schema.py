"""JSON Schemas of the file formats, for editors and other tools.

They cover rules that do not depend on several fields or on the file system; the loader checks the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

from pydantic import BaseModel

from steadyhand.records.evaluation import GROUPS
from steadyhand.spec.agent import Catalogue, stands_on_invariant
from steadyhand.spec.agent_shapes import AgentShape
from steadyhand.spec.config_shapes import ConfigShape
from steadyhand.spec.decision import DecisionShape
from steadyhand.spec.matrix import MatrixShape
from steadyhand.spec.rubric import RubricShape
from steadyhand.spec.shared_shapes import EvaluationHead, GroupHead
from steadyhand.spec.validation import Shape

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SHAPES: dict[str, tuple[str, type[Shape]]] = {
    "agent": ("Steadyhand agent scenario", AgentShape),
    "decision": ("Steadyhand decision scenario", DecisionShape),
    "matrix": ("Steadyhand matrix", MatrixShape),
    "rubric": ("Steadyhand rubric", RubricShape),
    "configuration": ("Steadyhand configuration", ConfigShape),
}
FORMATS = tuple(_SHAPES)
"""The names of the formats."""
_EVALUATION_LISTS = frozenset({"evaluations", "turn_evaluations", "final_evaluations"})

JsonSchema = dict[str, Any]
_USE: JsonSchema = {
    "type": "string",
    "pattern": "^[^#]+#.+$",
    "description": "FILE#NAME: a shared part. Other keys replace its own, and `+key` adds to a list",
}
_EXTENSIONS: JsonSchema = {"^x-": {}}
_ADDED: JsonSchema = {**_EXTENSIONS, "^\\+": {"type": "array"}}
"""Also `+key`, which adds to a list of the file that is extended."""
_USES: JsonSchema = {"required": ["use"]}


def json_schemas(
    catalogue: Catalogue, environments: Collection[str], *, formats: Iterable[str] = FORMATS
) -> dict[str, JsonSchema]:
    """Draft 2020-12 schemas by format: agent, decision, matrix, rubric, configuration."""
    schemas = {name: _schema(*_SHAPES[name]) for name in formats}
    for name in ("agent", "decision"):
        if name in schemas:
            schemas[name]["anyOf"] = [{"required": ["extends"]}, {"required": schemas[name].pop("required")}]
    if "agent" in schemas:
        definitions = cast("dict[str, JsonSchema]", schemas["agent"]["$defs"])
        definitions["EnvironmentShape"]["properties"]["type"].update(_open_choice(environments))
        for part in ("MockShape", "UserSimulatorShape"):
            definitions[part]["properties"]["use"] = _USE
            definitions[part]["anyOf"] = [_USES, {"required": definitions[part].pop("required")}]
        _use_evaluations(definitions)
        definitions.update(_evaluations(catalogue))
    if "decision" in schemas:
        invariant = cast("JsonSchema", schemas["decision"]["$defs"])["InvariantShape"]
        invariant["properties"]["check_type"].update(_open_choice(catalogue))
        _add_own_keys(invariant, catalogue)
        required = [key for key in invariant.pop("required") if key != "check_type"]
        invariant["anyOf"] = [_USES, *({"required": [*required, key]} for key in ("check_type", *GROUPS))]
        invariant["properties"]["use"] = _USE
        rubric = schemas["decision"]["properties"]["rubric"]
        told = rubric.pop("description")
        used = {"type": "object", "properties": {"use": _USE}, "required": ["use"], "additionalProperties": False}
        schemas["decision"]["properties"]["rubric"] = {"anyOf": [rubric, used], "description": told}
    return schemas


def _add_own_keys(invariant: JsonSchema, catalogue: Catalogue) -> None:
    """The keys of evaluations whose parameters stand directly on an invariant, and which of them each needs."""
    own = {
        type_: catalogue[type_].model_json_schema()
        for type_ in sorted(name for name, params in catalogue.items() if stands_on_invariant(params))
    }
    known = invariant["properties"]
    shared: dict[str, JsonSchema] = {}
    for params in own.values():
        for name, schema in params["properties"].items():
            description = {"description": schema.get("description", "")}
            shared[name] = schema if shared.get(name, schema) == schema else description
    branches: list[JsonSchema] = []
    for type_, params in own.items():
        const = {"const": type_, "description": known["check_type"]["description"]}
        is_type = {"properties": {"check_type": const}, "required": ["check_type"]}
        strict = {
            name: each for name, each in params["properties"].items() if each not in (shared[name], known.get(name))
        }
        then = {"required": params.get("required", []), **({"properties": strict} if strict else {})}
        branches.append({"if": is_type, "then": then})
    invariant["properties"] = {**shared, **known}
    if branches:
        invariant["allOf"] = branches


def _open_choice(known: Collection[str]) -> JsonSchema:
    """The known names, for editors to suggest, or any other, because a plugin may provide it."""
    return {"type": "string", "minLength": 1, "anyOf": [{"enum": sorted(known)}, {"type": "string"}]}


def _schema(title: str, shape: type[BaseModel]) -> JsonSchema:
    schema = shape.model_json_schema(by_alias=True, mode="validation")
    _open_extensions(schema, _ADDED if shape in (AgentShape, DecisionShape) else _EXTENSIONS)
    return {"$schema": DRAFT, **schema, "title": title}


def _evaluations(catalogue: Catalogue) -> dict[str, JsonSchema]:
    """The definition `Evaluation`, a choice by `type`, and the definitions that its branches need."""
    head = EvaluationHead.model_json_schema()["properties"]
    description = {"description": head["type"]["description"]}
    definitions: dict[str, JsonSchema] = {}
    branches: list[JsonSchema] = []
    for type_ in sorted(catalogue):
        params = catalogue[type_].model_json_schema(ref_template=f"#/$defs/{type_}.{{model}}")
        inner = cast("dict[str, JsonSchema]", params.pop("$defs", {}))
        definitions.update({f"{type_}.{name}": definition for name, definition in inner.items()})
        params["properties"] = {**head, **params.get("properties", {}), "type": {"const": type_, **description}}
        params["required"] = ["type", *params.get("required", [])]
        params["title"] = type_
        branches.append(params)
    branches += [_group(key) for key in GROUPS]
    branches.append({"title": "use", "type": "object", "properties": {"use": _USE}, "required": ["use"]})
    known = sorted(catalogue)
    of_plugin = {"type": {"type": "string", "minLength": 1, "not": {"enum": known}, **description}}
    branches.append({"title": "an evaluation of a plugin", "properties": {**head, **of_plugin}, "required": ["type"]})
    definitions["Evaluation"] = {
        "type": "object",
        "properties": {"type": {**_open_choice(known), **description}},
        "oneOf": branches,
    }
    for definition in [*definitions.values(), *branches]:
        _open_extensions(definition, _ADDED)
    return definitions


def _group(key: str) -> JsonSchema:
    """A group of checks, in place of a check."""
    checks: JsonSchema = {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/Evaluation"}}
    description = {"any_of": "One of these must pass", "all_of": "All of these must pass"}.get(
        key, "So many of these must pass"
    )
    if key == "at_least":
        count = {"type": "integer", "minimum": 1, "description": "How many must pass"}
        of = {**checks, "description": "The checks"}
        checks = {
            "type": "object", "properties": {"count": count, "of": of}, "required": ["count", "of"],
            "additionalProperties": False,
        }  # fmt: skip
    head = GroupHead.model_json_schema()["properties"]
    properties = {**head, key: {**checks, "description": description}}
    return {
        "title": key, "type": "object", "properties": properties, "required": [key], "additionalProperties": False,
    }  # fmt: skip


def _use_evaluations(value: Any) -> None:
    """Point every list of evaluations at the definition."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key in _EVALUATION_LISTS and isinstance(item, dict) and "items" in item:
                item["items"] = {"$ref": "#/$defs/Evaluation"}
            else:
                _use_evaluations(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _use_evaluations(item)


def _open_extensions(value: Any, others: JsonSchema) -> None:
    """Others are allowed wherever unknown keys are not."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        if mapping.get("additionalProperties") is False:
            mapping["patternProperties"] = dict(others)
        for item in mapping.values():
            _open_extensions(item, others)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _open_extensions(item, others)
