"""The lowest versions that pyproject.toml allows, one pin a line, for pip.

    python scripts dev/lowest_requirements [EXTRA ...]

Prints `NAME==VERSION` for every dependency and every dependency of the extras named. A requirement without a lower bound (`>=`)
is an error: nobody could say with which version it was tested.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)")


def lowest_pins(requirements: list[str]) -> dict[str, str]:
    """The lower bound of each requirement by name; of two bounds of one name the higher, as pip would choose."""
    pins: dict[str, str] = {}
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} has no lower bound")
        name, version = match["name"], match["version"]
        pins[name] = max(pins.get(name, "0"), version, key=_numbers)
    return pins


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main(extras: list[str]) -> None:
    """Print the pins of the dependencies and of `extras`."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    optional = project["optional-dependencies"]
    unknown = [extra for extra in extras if extra not in optional]
    if unknown:
        raise SystemExit(f"no such extra: {', '.join(unknown)} (there are {', '.join(optional)})")
    requirements = project["dependencies"] + [requirement for extra in extras for requirement in optional[extra]]
    for name, version in lowest_pins(requirements).items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main(sys.argv[1:])
