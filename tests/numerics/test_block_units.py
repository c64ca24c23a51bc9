"""Blocks as units: which rows of many are kept."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.numerics import block_units


@pytest.mark.parametrize("most", [1, 4, 11, 12, 40])
def test_rows_that_are_kept_are_evenly_spread_over_those_chosen(monkeypatch, most):
    """However few rows are looked at together."""
    monkeypatch.setattr(block_units, "LOOKED", 7)
    chosen = np.arange(40) % 10 < 3
    places = np.flatnonzero(chosen)
    assert block_units.select_evenly_spaced(chosen, most).tolist() == places[np.arange(min(most, 12)) * 12 // min(most, 12)].tolist()
    assert block_units.select_evenly_spaced(np.zeros(9, dtype=bool), most).tolist() == []
