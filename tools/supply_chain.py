"""What Steadyhand depends on: the list of licences and the bill of materials.

    python -m tools.supply_chain licences docs/licences.md
    python -m tools.supply_chain sbom dist/steadyhand-0.1.0.cdx.json

Both read the metadata of the installed packages, starting from the requirements in pyproject.toml, and need every extra
to be installed. The bill is CycloneDX JSON, and identical for the same packages: its serial number is computed from its
contents, and its time is SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
TOOLING = ("dev", "docs", "fuzz")
"""The extras for working on Steadyhand itself: listed with the licences, but not in the bill of materials."""

ALONE = ("inspect",)
"""Extras whose packages conflict with our pins: listed without what they bring in, and not in the bill of materials."""

UNDECLARED = "not declared"
# Their metadata names no licence; this is what their licence files say.
_DECLARED_ELSEWHERE = {
    "axe-playwright-python": "MIT",
    "atheris": "Apache-2.0",
    "mergedeep": "MIT",
    "pgserver": "Apache-2.0",
    "quickjs-ng": "MIT",
}
_SPDX = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "modified bsd license": "BSD-3-Clause",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


def requirements() -> dict[str, list[Requirement]]:
    """The direct requirements in pyproject.toml: those of the package under "", then those of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(line) for line in lines] for name, lines in groups.items()}


def closure(direct: list[Requirement]) -> dict[str, set[str]]:
    """Everything that the requirements bring in on this machine, by name, each with the names that it requires itself.

    Raises `metadata.PackageNotFoundError` when one of them is not installed.
    """
    found: dict[str, set[str]] = {}
    waiting = [(requirement, "") for requirement in direct if applies(requirement)]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, parent = waiting.pop()
        name = canonicalize_name(requirement.name)
        if parent:
            found[parent].add(name)
        if (name, frozenset(requirement.extras)) in done:
            continue
        done.add((name, frozenset(requirement.extras)))
        found.setdefault(name, set())
        for line in metadata.distribution(name).requires or []:
            inner = Requirement(line)
            if applies(inner, requirement.extras):
                waiting.append((inner, name))
    return found


def applies(requirement: Requirement, extras: set[str] | frozenset[str] = frozenset()) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def licence(name: str) -> str:
    """As an SPDX expression; "not declared" when the package does not say."""
    fields = metadata.distribution(name).metadata
    declared = (fields.get("License-Expression") or fields.get("License") or "").replace("UNKNOWN", "")
    classified = [line.rpartition(" :: ")[2] for line in fields.get_all("Classifier") or [] if "License" in line]
    if "\n" in declared or not declared:
        declared = classified[0] if classified else declared.partition("\n")[0]
    return _SPDX.get(declared.lower(), declared) or _DECLARED_ELSEWHERE.get(canonicalize_name(name), UNDECLARED)


def licences() -> str:
    """The page: every package once, under the first heading that needs it."""
    lines = [
        "# Licences",
        "",
        "Steadyhand is under the Apache License 2.0. Observable Plot and D3 (ISC) draw its charts; their licences",
        "are in the wheel. The packages below are not bundled: `pip` installs them. The list is what they",
        "declare, on Linux with Python 3.11. `make licences` writes it.",
    ]
    listed: set[str] = set()
    for group, direct in sorted(requirements().items(), key=lambda item: item[0] in TOOLING):
        own = {canonicalize_name(requirement.name) for requirement in direct}
        names = sorted((own if group in ALONE else set(closure(direct))) - listed)
        listed.update(names)
        if names:
            lines += ["", f"## {_heading(group)}", "", "| package | licence |", "| --- | --- |"]
            lines += [f"| {name} | {licence(name)} |" for name in names]
    return "\n".join(lines) + "\n"


def _heading(group: str) -> str:
    if not group:
        return "Always installed"
    return f"With the extra `{group}`" + (", for working on Steadyhand itself" if group in TOOLING else "")


def bill_of_materials(groups: dict[str, list[Requirement]]) -> dict[str, Any]:
    """CycloneDX 1.6: what a user installs, with what the extras bring in marked as optional."""
    required = closure(groups[""])
    extras = [line for group, lines in groups.items() if group and group not in (*TOOLING, *ALONE) for line in lines]
    every = {**closure(extras), **required}
    version = metadata.version("steadyhand")
    root = {**_component("steadyhand", version, "Apache-2.0"), "type": "application"}
    components = [
        {
            **_component(name, metadata.version(name), licence(name)),
            "scope": "required" if name in required else "optional",
        }
        for name in sorted(every)
    ]
    at = {entry["name"]: entry["bom-ref"] for entry in components}
    direct_names = sorted(canonicalize_name(requirement.name) for requirement in groups[""] if applies(requirement))
    graph = [{"ref": root["bom-ref"], "dependsOn": [at[name] for name in direct_names]}]
    graph += [{"ref": at[name], "dependsOn": sorted(at[inner] for inner in every[name])} for name in sorted(every)]
    made = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    body = {
        "version": 1,
        "metadata": {"timestamp": made.isoformat().replace("+00:00", "Z"), "component": root},
        "components": components,
        "dependencies": graph,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", **body}


def _component(name: str, version: str, terms: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"license": {"name": terms}} if terms == UNDECLARED else {"expression": terms}],
        "purl": purl,
    }


def main() -> None:
    what, file = sys.argv[1:]
    text = licences() if what == "licences" else json.dumps(bill_of_materials(requirements()), indent=1) + "\n"
    Path(file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
