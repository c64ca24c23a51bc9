"""Run one of the scripts, whatever the current folder is, or list them.

    python scripts                                  the scripts of each folder, with the first line of each
    python scripts papers/fig1_tipi FOLDER          runs scripts/papers/fig1_tipi.py; the rest of the line are its arguments
    python scripts fig1_tipi FOLDER                 the same, as no other script has this name

The scripts import each other by folder (`from shared.real_data import FOLDER`) and `herdcli` as it is installed.
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def script_names() -> list[str]:
    """Paths of all scripts below this folder, without `.py`; a package that can be run has the name of its folder."""
    paths = [path.relative_to(HERE) for path in HERE.rglob("*.py") if path.parent != HERE]
    runnable = {path.parent for path in paths if path.name == "__main__.py"}
    return sorted([str(path) for path in runnable] + [str(path.with_suffix("")) for path in paths if path.parent not in runnable])


def find_script(name: str) -> str:
    """Return the dotted path of the script with this path or last name; end with code 2 where none or several have it."""
    names, asked = script_names(), name.removesuffix(".py")
    matches = [each for each in names if each == asked] or [each for each in names if Path(each).name == asked]
    if len(matches) > 1:
        print(f"python scripts: several scripts are called {name!r}: {', '.join(matches)}", file=sys.stderr)
        raise SystemExit(2)
    if not matches:
        print(f"python scripts: no script is called {name!r}; `python scripts` lists them", file=sys.stderr)
        raise SystemExit(2)
    return matches[0].replace("/", ".")


def first_line(name: str) -> str:
    """The first line of a script's docstring."""
    path = HERE / name
    text = ast.get_docstring(ast.parse((path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")))
    return text.splitlines()[0] if text else ""


def main() -> None:
    """Run the script that the command line names; without a name, list all."""
    if len(sys.argv) < 2 or sys.argv[1] in {"-h", "--help"}:
        for name in script_names():
            print(f"{name:32} {first_line(name)}"[:160])
        return
    sys.path[:] = [str(HERE), *(each for each in sys.path if each and Path(each).resolve() != HERE)]
    module = find_script(sys.argv[1])
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
