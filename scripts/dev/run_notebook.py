"""Run the notebook of the manual and store what its cells print, return and draw.

python scripts dev/run_notebook            run docs/howto/report.ipynb in a temporary folder, and write its outputs into it
python scripts dev/run_notebook --check    write nothing; exit 1 if a cell fails
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "howto" / "report.ipynb"


def run_cells(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its code cells, which run one after the other in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            count = sum(each["cell_type"] == "code" for each in notebook["cells"][: number + 1])
            outputs = _outputs("".join(cell["source"]), f"cell {count}", names, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, title: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run one cell; return its printed text and the value of its last line if that is an expression."""
    body = ast.parse(source, title).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")  # a notebook of the manual warns of nothing
        exec(compile(ast.Module(body, []), title, "exec"), names)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), title, "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "savefig"):
            drawn = io.BytesIO()
            value.savefig(drawn, format="png", metadata={"Software": None}, dpi=80)
            data["image/png"] = base64.b64encode(drawn.getvalue()).decode()
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


def main() -> None:
    """Run the notebook and write it, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            done = run_cells(notebook)
        finally:
            os.chdir(here)
    if not options.check:
        NOTEBOOK.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
