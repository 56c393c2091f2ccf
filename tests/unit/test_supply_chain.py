"""Our dependencies are bounded, listed with their licences, need no compiler, and are in the bill of materials."""

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tools.supply_chain import UNDECLARED, applies, bill_of_materials, closure, licence, requirements

ROOT = Path(__file__).parents[2]
DIRECT = [requirement for group in requirements().values() for requirement in group]
LISTED = dict(
    re.findall(r"^\| (\w[\w.-]+) \| (?!licence)(.+) \|$", (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE)
)
# Licences a program may depend on without taking on their terms. GPL and AGPL are not among them.
ACCEPTED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0"),
    *("MPL-2.0", "PSF-2.0", "Zlib"),
}
TOLERATED = {"protobuf-py-ext": UNDECLARED, "pyasn1-modules": "BSD"}
"""The text of the second says which of the BSD licences it is: the one with two clauses."""


@pytest.mark.parametrize("requirement", DIRECT, ids=str)
def test_every_requirement_has_an_upper_bound(requirement):
    assert {clause.operator for clause in requirement.specifier} >= {">=", "<"}


def test_every_direct_requirement_is_listed_with_its_licence():
    names = {requirement.name.lower() for requirement in DIRECT}
    assert names - {name.lower() for name in LISTED} == set(), "run `make licences`"


def test_every_package_installed_with_the_core_is_listed_with_the_licence_it_declares():
    installed = {name: licence(name) for name in closure(requirements()[""])}
    assert len(installed) > 20
    assert {name: LISTED.get(name) for name in installed} == installed, "run `make licences`"


def test_every_licence_is_one_that_we_accept():
    terms = {name: set(re.split(r" AND | OR |[()]", text)) - {""} for name, text in LISTED.items()}
    assert {name: text for name, text in LISTED.items() if terms[name] - ACCEPTED} == TOLERATED


@pytest.mark.skipif(sys.platform != "linux", reason="reads the tags of Linux wheels")
def test_the_core_installs_from_published_wheels_and_needs_no_compiler():
    """A wheel built here by pip is tagged `linux_x86_64`; a published one is `manylinux` or `any`."""
    for name in closure(requirements()[""]):
        tags = re.findall(r"^Tag: .*-(\S+)$", metadata.distribution(name).read_text("WHEEL") or "", re.MULTILINE)
        assert tags, f"{name} was not installed from a wheel"
        assert not [tag for tag in tags if tag.startswith("linux_")], f"{name} was compiled here"


def test_the_bill_of_materials_names_every_package_of_the_core_and_is_the_same_twice(monkeypatch):
    groups = requirements()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    bill = bill_of_materials({"": groups[""], "postgres": groups["postgres"]})
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    scopes = {entry["name"]: entry["scope"] for entry in bill["components"]}
    assert scopes == {
        **dict.fromkeys(closure(groups["postgres"]), "optional"),
        **dict.fromkeys(closure(groups[""]), "required"),
    }
    refs = {entry["bom-ref"] for entry in [bill["metadata"]["component"], *bill["components"]]}
    assert {entry["ref"] for entry in bill["dependencies"]} == refs
    assert {inner for entry in bill["dependencies"] for inner in entry["dependsOn"]} <= refs
    again = bill_of_materials({"": groups[""], "postgres": groups["postgres"]})
    assert json.dumps(bill) == json.dumps(again)


def test_a_requirement_of_another_platform_does_not_apply():
    (uvloop,) = (each for each in requirements()[""] if each.name == "uvloop")
    assert applies(uvloop) == (sys.platform != "win32")
