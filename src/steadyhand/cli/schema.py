"""`steadyhand schema`: JSON Schemas of what Steadyhand reads and of the report it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say, say_json
from steadyhand.compose.scenarios import open_registries
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.judging.baseline import baseline_schema
from steadyhand.judging.gate import gate_schema
from steadyhand.judging.run_comparison import comparison_schema
from steadyhand.plugins.registry import EnvironmentNames, EvaluationCatalogue
from steadyhand.records.config import RunOptions
from steadyhand.report.json_shapes import report_schema
from steadyhand.spec.schema import FORMATS, json_schemas

_COMMENT = (
    "Written by `steadyhand schema --out-dir FOLDER`. Run it again after installing plugins: it adds their types."
)
_WRITTEN: dict[str, Callable[[], dict[str, Any]]] = {
    "report": report_schema,
    "comparison": comparison_schema,
    "gate": gate_schema,
    "baseline": baseline_schema,
}
NAMES = (*FORMATS, *_WRITTEN)


@click.command()
@click.argument("name", required=False)
@click.option("--out-dir", "out", type=shared.FOLDER, help="Write one file per schema to this folder.")
@shared.declared("schema")
def schema(name: str | None, out: Path | None, config: Path | None, plugins: tuple[str, ...]) -> None:
    """Print the JSON Schemas of scenario, matrix, rubric and configuration files, and of the JSON output.

    With NAME, print only that one. With --out-dir, write each to NAME.schema.json instead. The types of plugins that
    are installed, configured or given with --plugin are included.
    """
    if name is not None and name not in NAMES:
        raise SetupError(f"unknown schema {name!r}; expected one of: {', '.join(NAMES)}")
    schemas = known_schemas(config, plugins, names=[name] if name else NAMES)
    if out is None:
        say_json(schemas[name] if name else schemas)
        return
    out.mkdir(parents=True, exist_ok=True)
    for each, content in schemas.items():
        file = out / f"{each}.schema.json"
        file.write_text(schema_text(content), encoding="utf-8")
        say(f"wrote {file}")


def known_schemas(
    config: Path | None = None, plugins: tuple[str, ...] = (), *, names: Iterable[str] = NAMES
) -> dict[str, dict[str, Any]]:
    """Those of the files that are read, and of what is written, by name. Raises `UsageError`."""
    wanted = list(names)
    read = file_schemas(config, plugins, formats=[each for each in wanted if each in FORMATS])
    return {**read, **_commented({each: _WRITTEN[each]() for each in wanted if each in _WRITTEN})}


def file_schemas(
    config: Path | None = None,
    plugins: tuple[str, ...] = (),
    *,
    ignore_config: bool = False,
    formats: Iterable[str] = FORMATS,
) -> dict[str, dict[str, Any]]:
    """By name, with the types of the plugins that are installed, configured or given. Raises `UsageError`."""
    options = RunOptions(config=config, plugins=plugins, ignore_config=ignore_config)
    registry = open_registries(Settings(options)).base
    registry.add_installed()
    return _commented(json_schemas(EvaluationCatalogue(registry), EnvironmentNames(registry), formats=formats))


def _commented(schemas: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"$schema": each.pop("$schema"), "$comment": _COMMENT, **each} for name, each in schemas.items()}


def schema_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
