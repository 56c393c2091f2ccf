"""The `setup` of an agent scenario, as it is written."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steadyhand.spec.shapes.base import FreeForm, Name, Shape, Share


class MockWhenShape(Shape):
    """When a mock applies; everything given must hold."""

    args: list[Any] | None = Field(default=None, description="The whole argument list, or a list of such lists")
    input: FreeForm | None = Field(default=None, description="Named parameters, matched as a subset")
    context: FreeForm | None = None
    matcher: Name | None = Field(default=None, description="JavaScript over args, input and context")
    partial_args: list[Any] | None = Field(default=None, alias="partialArgs", description="The first arguments")


class MockErrorShape(Shape):
    """The error a mock answers with."""

    code: str | None = None
    message: str | None = None
    status: int | None = None


class MockMetadataShape(Shape):
    """How a mock answers."""

    delay: float = Field(default=0.0, ge=0, description="Milliseconds")
    probability: Share | None = Field(default=None, description="The chance to fail")


class MockShape(Shape):
    """A stand-in for a service's method. At least one of response, responseFn and error."""

    service: Name | None = None
    method: Name
    when: MockWhenShape = MockWhenShape.model_construct()
    response: Any = None
    response_fn: Name | None = Field(default=None, alias="responseFn", description="A JavaScript function")
    error: MockErrorShape | None = None
    metadata: MockMetadataShape = MockMetadataShape.model_construct()


class DatabaseShape(Shape):
    """What the trial's database holds at the start. `sql` or `sql_file`, and `records` on top."""

    sql: str | None = None
    sql_file: Name | None = Field(default=None, description="Relative to the scenario file")
    records: dict[str, list[dict[str, Any]]] = Field(default={}, description="Table to rows")
    url: Name | None = Field(default=None, description="Default: a fresh SQLite file for each trial")


class SetupShape(Shape):
    """What is there before the agent starts."""

    mocks: list[MockShape] = []
    virtual_fs: dict[str, str] = Field(default={}, description="Path in the workspace to content")
    database: DatabaseShape | None = None
