"""What both dialects may say, and what is said of checks and plugins wherever they are named."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from steadyhand.spec.quoting import CHECK, DATA, PROSE
from steadyhand.spec.validation import FreeForm, Name, Shape

EvaluationEntry = Annotated[dict[str, Any], CHECK]
Prose = Annotated[str, PROSE]
Data = Annotated[FreeForm, DATA]


class EvaluationHead(Shape):
    """The keys that are the same for every type of evaluation."""

    type: Name = Field(description="Type of evaluation")
    description: str | None = Field(default=None, description="What the check is for; shown in reports")
    weight: float = Field(default=1.0, ge=0, description="Its share under the judgment strategy `weighted`")
    empty_ok: bool = Field(
        default=False,
        description="Whether an empty reply is evaluated; otherwise it fails every check on what was said",
    )
    negate: bool = Field(
        default=False, description="Whether it passes where it would fail; silence fails it all the same"
    )


class GroupHead(Shape):
    """The keys of a group of checks besides the checks."""

    description: str | None = Field(default=None, description="What the group is for; shown in reports")
    weight: float = Field(default=1.0, ge=0, description="Its share under the judgment strategy `weighted`")
    empty_ok: bool = Field(default=False, description="Whether an empty reply is evaluated; otherwise it fails")
    negate: bool = Field(default=False, description="Whether the group passes where it would fail")


class PluginShape(Shape):
    """A plugin, by name or with its configuration."""

    name: Name = Field(description="Installed plugin, file, or package.module:name")
    version: str | None = Field(default=None, description="Required version, such as >=1.2")
    enabled: bool = Field(default=True, description="False leaves the plugin out")
    config: FreeForm = Field(default={}, description="Options of the plugin")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler.resolve_ref_schema(handler(schema))]}


class CasesShape(Shape):
    """A table of cases: `rows`, or a `file`."""

    file: Name | None = Field(
        default=None, description="A .csv, .jsonl or .yaml file with a case in every row, relative to this file"
    )
    rows: list[FreeForm] | None = Field(default=None, description="The cases, as mappings of names to values")
    id: Name = Field(default="id", description="The column with the name of the case; no two have the same")
    optional: list[Name] = Field(
        default=[], description="Columns in which a cell may be empty. What is part of a check never may"
    )


CasesField = list[FreeForm] | CasesShape
CASES = (
    "Run the scenario once for each of these cases, with the case's value for each `{{ name }}` in its texts: a list "
    "of mappings, each with an `id`, or a table in a file"
)


EXTENDS = "A file with keys that this one adds to or replaces; `+key` adds to a list. Relative to this file"


Texts = Prose | Annotated[list[Prose], Field(min_length=1)]


class SameShape(Shape):
    """What must not change the decision. One of `replace`, `append`, `typos`, `shuffle` and `file`."""

    name: Name = Field(description="Name of the variant, unique in the scenario")
    replace: Annotated[dict[str, Texts], Field(min_length=1)] | None = Field(
        default=None,
        description="What stands in place of a text, wherever the agent is told it; each of several values is a "
        "variant, and the first values of all texts belong together",
    )
    append: Texts | None = Field(
        default=None, description="What is added to what the user says; each of several texts is a variant"
    )
    typos: float | None = Field(
        default=None, gt=0, le=0.2, description="Share of the letters of what the user says that are mistyped"
    )
    shuffle: Literal["sentences"] | None = Field(
        default=None, description="Puts the sentences of what the user says in another order"
    )
    file: Name | None = Field(
        default=None,
        description="A YAML file with texts in place of what the user says, such as translations, relative to this "
        "file: a list of mappings with `variant`, `text`, `signed` and, for a single case, `scenario`",
    )


class ChangeShape(Shape):
    """What must change the decision. One of `remove`, `replace` and `append`."""

    name: Name = Field(description="Name of the variant, unique in the scenario")
    remove: Texts | None = Field(default=None, description="A text that the agent is no longer told, or several")
    replace: Annotated[dict[str, Texts], Field(min_length=1)] | None = Field(
        default=None, description="What stands in place of a text, as in `same`"
    )
    append: Texts | None = Field(
        default=None, description="What is added to what the user says; each of several texts is a variant"
    )
    expects: Literal["act", "defer"] = Field(description="The conduct that is right then")
    reverses: Name | list[Name] | None = Field(
        default=None,
        description="The checks, by name, description or type, that must no longer hold; not needed where only one "
        "check demands something",
    )


class VariantsShape(Shape):
    """How what the agent is told is varied with --variants."""

    same: list[SameShape] = Field(default=[], description="Variants that must not change the decision")
    changes: list[ChangeShape] = Field(default=[], description="Variants that must change it")
    margin: float = Field(
        default=0.1, gt=0, lt=1, description="Difference in pass rate, 0 to 1, that does not matter in `same`"
    )


class VariantTextShape(Shape):
    """A row of the file of a variant."""

    variant: Name = Field(description="Name of the variant")
    text: Name = Field(description="What the user says instead")
    signed: Name | None = Field(
        default=None, description="Who vouches that it means the same; without it, it is not run"
    )
    scenario: Name | None = Field(default=None, description="Id of the scenario or case that it is for; default: any")


VARIANTS = "What must not change the decision, and what must; run with --variants"
