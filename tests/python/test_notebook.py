"""The notebook of the manual runs from its first cell to its last, and stores outputs without errors."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "howto" / "report.ipynb"


class WithoutPandas:
    """Finds no pandas.  pyarrow takes a None in `sys.modules` for the module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")


def test_the_notebook_has_the_outputs_of_each_cell():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert (notebook["nbformat"], [cell["execution_count"] for cell in code]) == (4, list(range(1, len(code) + 1)))
    assert all(output["output_type"] in ("stream", "execute_result") for cell in code for output in cell["outputs"])
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell["outputs"]) == 1
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.examples
def test_the_notebook_goes_from_a_csv_to_a_report(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    run_cells = runpy.run_path(str(ROOT / "scripts" / "dev" / "run_notebook.py"))["run_cells"]
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.setattr(sys, "meta_path", [WithoutPandas(), *sys.meta_path])  # herd does not need it
    run_cells(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "linear.h5" in report
    assert report.count("<svg") >= 2
