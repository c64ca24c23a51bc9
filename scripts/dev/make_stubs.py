"""Write herdcli/__init__.pyi, the types of herd's Python functions, from the options of the commands.

python scripts dev/make_stubs            write it
python scripts dev/make_stubs --check    write nothing; exit 1 if it is not what would be written
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from herdcli import COMPUTING, LEARNING, results
from herdcli.engine import command_signature

STUB = Path(__file__).resolve().parents[2] / "herdcli" / "__init__.pyi"
HEAD = '''"""Written by scripts/dev/make_stubs.py from the options of the commands."""

import os
from typing import Any, Literal

import numpy as np

__version__: str
LEARNING: tuple[str, ...]
COMPUTING: tuple[str, ...]
OWN: tuple[str, ...]
PACKAGES: tuple[str, ...]

Path = str | os.PathLike[str]
Array = np.ndarray[Any, Any]
HistoryRecord = dict[str, Any]

'''
FUNCTIONS = """\
def load(path: Path, **how: Any) -> Result: ...
def save(path: Path, value: Any, *, safe_csv: bool = False) -> None: ...
def check(*paths: Path) -> None: ...
"""


def result_stub() -> str:
    """The class of results with all methods; which of them a result has, depends on its kind.  Fields are of any type."""
    lines = ["class Result:", "    def __getattr__(self, name: str) -> Any: ..."]
    for part in (results.Result, *(part for part, _ in results.METHODS)):
        for name in [name for each in reversed(part.__mro__) for name in vars(each) if not name.startswith("_")]:
            method = getattr(part, name)
            if isinstance(method, property):
                lines += ["    @property", f"    def {name}(self) -> {method.fget.__annotations__['return']}: ..."]
            elif not any(line.startswith(f"    def {name}(") for line in lines):
                lines.append(f"    def {name}({', '.join(_parameters(method))}) -> {method.__annotations__['return']}: ...")
    return "\n".join(lines).replace("SummaryText", "str") + "\n\n"


def _parameters(method: Callable[..., object]) -> Iterator[str]:
    found = list(inspect.signature(method).parameters.values())
    for number, each in enumerate(found):
        if each.kind is each.KEYWORD_ONLY and found[number - 1].kind is not each.KEYWORD_ONLY:
            yield "*"
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        yield f"{stars}{each.name}{kind}" + ("" if each.default is each.empty else f" = {each.default!r}")


def stub(name: str) -> str:
    """The declaration of one function, an option a line."""
    found = command_signature(name)
    lines = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            lines.append(f"*{parameter.name}: Any")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(line.startswith("*") for line in lines):
            lines.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"{parameter.name}: {parameter.annotation}{default}")
    return f"def {name}(\n" + "".join(f"    {line},\n" for line in lines) + f") -> {found.return_annotation}: ...\n"


def main() -> None:
    """Write or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    options = parser.parse_args()
    text = HEAD + result_stub() + FUNCTIONS + "".join(stub(name) for name in (*LEARNING, *COMPUTING))
    if not options.check:
        STUB.write_text(text, encoding="utf-8")
    elif not STUB.exists() or STUB.read_text(encoding="utf-8") != text:
        sys.exit(f"{STUB.name} is not what scripts/dev/make_stubs.py writes")


if __name__ == "__main__":
    main()
