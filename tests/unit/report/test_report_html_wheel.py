"""The wheel has to contain everything that a page is made of."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HTML = ROOT / "src" / "steadyhand" / "report" / "html"


def test_templates_scripts_styles_and_licences_are_in_the_wheel(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    ran = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        sizes = {each.filename: each.compress_size for each in archive.infolist()}
    wanted = {path for folder in ("templates", "assets") for path in (HTML / folder).iterdir()}
    assert {path.relative_to(ROOT / "src").as_posix() for path in wanted} <= names
    assert {"plot.js", "plot.css", "plot.LICENSES.txt", "report.js", "report.css"} <= {path.name for path in wanted}
    assert sizes["steadyhand/report/html/assets/plot.js"] < 120_000


def test_the_licence_of_every_bundled_package_is_there():
    licences = (HTML / "assets" / "plot.LICENSES.txt").read_text()
    assert "@observablehq/plot 0.6.17 (ISC)" in licences
    assert licences.count("Permission") >= 10


def test_no_script_ends_the_element_it_stands_in():
    for name in ("plot.js", "report.js"):
        assert "</script" not in (HTML / "assets" / name).read_text().lower()
    assert "</style" not in (HTML / "assets" / "report.css").read_text().lower()
