"""docs/python.md: the reference of `import herdcli` and of `herdcli.sklearn`, made of docstrings and signatures by dev/make_manual.py.

Sources are parsed, not imported, so that the page is the same where scikit-learn is not installed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from herdcli import COMPUTING, LEARNING, OWN, engine, results
from herdcli.cli.main import COMMANDS

PACKAGE = Path(__file__).resolve().parents[2] / "herdcli" / "sklearn"
NOTE = "<!-- made by scripts/dev/make_manual.py; edit the docstrings, not this page -->"
FUNCTIONS = """`import herdcli as herd`: each command is a function with its name, and options are keywords
([inputs, results, examples](guide.md#from-python)). Functions that learn take `(X=None, y=None, **options)`; the others take
their command's inputs, one after the other. Each function's help lists its keywords: `help(herd.fit_rbm)`. What comes back is the frozen
dataclass of the command's artifact ([fields of each kind](format.md)) with the [methods of results](#methods-of-results)."""
RESULTS = "A result has the methods that its kind can use, and always those of `herd.Result`."
ESTIMATORS = """`from herdcli.sklearn import …` (extra `sklearn`): estimators for pipelines and searches, which learn what their
commands learn. Parameters have the names of options; `options` takes the others as a dictionary, `random_state` is `--seed`. scikit-learn's
`check_estimator` passes; what it is told to expect (rows in time depend on each other) is listed
with reasons in `tests/sklearn/test_checks.py`."""


def page() -> str:
    """The whole page."""
    lines = [NOTE, "", "# Python reference", "", FUNCTIONS, "", "| function | command | |", "|---|---|---|"]
    for name in (*LEARNING, *COMPUTING):
        command = name.replace("_", "-")
        lines.append(f"| `herd.{name}` | [herd {command}](commands/{command}.md) | {COMMANDS[command][1]} |")
    for name in OWN:
        if name == "Result":
            continue
        function = getattr(engine, name)
        lines += ["", f"### herd.{name}", "", f"    {name}{_plain_signature(function)}", "", *_text(inspect.getdoc(function) or "")]
    lines += ["", "## Methods of results", "", RESULTS, "", "| method | |", "|---|---|", *_result_methods()]
    lines += ["", "## Estimators", "", ESTIMATORS]
    for found in _classes():
        lines += ["", *_class(found)]
    return "\n".join(lines) + "\n"


def _result_methods() -> Iterator[str]:
    for part in (results.Result, *(part for part, _ in results.METHODS)):
        for name, method in vars(part).items():
            if not name.startswith("_"):
                arguments = f"({', '.join(_arguments_of(method))})" if callable(method) else ""
                yield f"| `{name}{arguments}` | {' '.join((inspect.getdoc(method) or '').split())} |"


def _arguments_of(method: object) -> list[str]:
    names = list(inspect.signature(method).parameters.values())[1:]  # type: ignore[arg-type]
    return [each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in names if each.kind != each.VAR_KEYWORD]


def _plain_signature(function: object) -> str:
    names = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return f"({', '.join(str(each).split(':')[0] for each in names)})"


def _classes() -> Iterator[ast.ClassDef]:
    """The public classes, in the order of `__all__` but for case."""
    known = {
        node.name: node
        for path in sorted(PACKAGE.glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    public = next(node for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
    for name in sorted(ast.literal_eval(public.value), key=str.lower):
        found = known[name]
        for base in (known[base.id] for base in found.bases if isinstance(base, ast.Name) and base.id in known):
            own = {node.name for node in found.body if isinstance(node, ast.FunctionDef)}
            found.body += [node for node in base.body if isinstance(node, ast.FunctionDef) and node.name not in own]
        yield found


def _class(found: ast.ClassDef) -> Iterator[str]:
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    made = next(node for node in methods if node.name == "__init__")
    yield from (
        f"### {found.name}",
        "",
        *textwrap.wrap(f"{found.name}({_arguments(made)})", 120, initial_indent="    ", subsequent_indent="        "),
        "",
    )
    yield from _text(ast.get_docstring(found) or "")
    yield from ("", "| method | |", "|---|---|")
    for node in methods:
        if not node.name.startswith("_"):
            yield f"| `{node.name}({_arguments(node)})` | {' '.join((ast.get_docstring(node) or '').split()).replace('|', chr(92) + '|')} |"


def _arguments(node: ast.FunctionDef) -> str:
    """The signature without `self` and without types."""
    for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        each.annotation = None
    return ast.unparse(node.args).removeprefix("self").removeprefix(", ")


def _text(doc: str) -> list[str]:
    """A docstring; its lists of parameters, which are aligned by blanks, as they stand."""
    lines: list[str] = []
    for part in doc.strip().split("\n\n"):
        verbatim = any(re.match(r"[\w, ]+?  +\S", line.strip()) for line in part.splitlines())
        lines += [*(f"    {line}" for line in part.splitlines()), ""] if verbatim else [*part.splitlines(), ""]
    return lines[:-1]
