"""Small files as other programs write them (scripts/dev/make_corpus.py), read as those programs read them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.cli.frame.rows.column_cleaning import CleaningOptions
from herdcli.cli.frame.run.console import Console
from herdcli.errors import HerdError

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CORPUS / "expected.json").read_text())
EXTRAS = {".xlsx": "openpyxl", "png": "PIL", "parts": "PIL", "flat": "PIL", "colour": "PIL", "jpeg": "PIL", "sizes": "PIL"}


def _read(case: dict[str, Any]) -> Any:
    options = dict(case["options"])
    missing = options.pop("missing", None)
    request = SimpleNamespace(split=None, seed=0)
    cleaning = CleaningOptions(Console("convert", -1), "convert", request, None, missing, "auto", able=False, training=None)
    return load(str(CORPUS / case["file"]), fills=cleaning.fills_missing, prepare=cleaning.prepare("data"), **options).value


def _labels(data: Any) -> list[str] | None:
    if data.y is None:
        return None
    return [data.class_names[index] if data.class_names else str(index) for index in data.y.tolist()]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_file_is_read_as_its_own_program_reads_it(name):
    case = EXPECTED[name]
    for ending, module in EXTRAS.items():
        if case["file"].endswith(ending):
            pytest.importorskip(module)
    if case.get("refused"):
        with pytest.raises(HerdError) as error:
            _read(case)
        assert error.value.hint, str(error.value)
        return
    data = _read(case)
    X = data.X.toarray() if data.is_sparse else data.X
    if "sums" in case:
        assert list(X.shape) == case["shape"]
        np.testing.assert_allclose(X.sum(axis=1), case["sums"], rtol=0.01)  # decoders of JPEG round differently
        return
    np.testing.assert_allclose(X.astype(float), np.array(case["X"]), rtol=1e-6, atol=1e-8)
    assert data.feature_names == case["names"]
    assert _labels(data) == case["y"]
    assert (None if data.split is None else data.split.tolist()) == case.get("split")


def test_the_corpus_is_large_and_its_files_are_small():
    assert len({case["file"] for case in EXPECTED.values()}) >= 100
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 2_000_000
