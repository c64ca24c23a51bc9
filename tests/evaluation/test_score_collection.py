"""Areas under curves from marked scores, beside ranks, and numbers that are kept in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts.rows import spill_file
from herdcli.evaluation.metrics import score_collection


def by_ranks(score, positive):
    """Mann and Whitney's U over its largest value, every pair looked at."""
    above = (score[positive][:, None] > score[~positive]).mean()
    return above + 0.5 * (score[positive][:, None] == score[~positive]).mean()


@pytest.mark.parametrize("digits", [1, 2, 17])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_the_area_is_the_share_of_pairs_in_order(monkeypatch, digits, chunk):
    monkeypatch.setattr(score_collection, "CHUNK", chunk)
    draw = np.random.default_rng(digits)
    score, positive = draw.random(200).round(digits), draw.random(200) < 0.3
    score[:3] = 0.0, 1.0, np.nextafter(1.0, 2.0)
    assert score_collection.roc_auc(score_collection.pack_scores_and_labels(score, positive)) == pytest.approx(
        by_ranks(score, positive), rel=1e-14
    )
    assert score_collection.roc_auc(score_collection.pack_scores_and_labels(score, np.ones(200, dtype=bool))) is None


def test_one_score_for_all_is_chance(monkeypatch):
    monkeypatch.setattr(score_collection, "CHUNK", 16)
    assert score_collection.roc_auc(score_collection.pack_scores_and_labels(np.full(100, 0.25), np.arange(100) % 3 == 0)) == 0.5


@pytest.mark.parametrize("least", [0, 300, 1 << 20])
def test_columns_come_back_as_they_were(monkeypatch, least):
    monkeypatch.setattr(spill_file, "LEAST", least)
    draw, whole = np.random.default_rng(0), score_collection.CollectedColumns(spill_file.SpilledBlocks())
    parts = [(draw.random(rows), np.arange(rows).astype(np.uint64)) for rows in (5, 17, 1)]
    for part in parts:
        whole.append(list(part))
    assert whole.count == 23
    np.testing.assert_array_equal(whole.column(0), np.concatenate([part[0] for part in parts]))
    np.testing.assert_array_equal(whole.column(1, np.uint64), np.concatenate([part[1] for part in parts]))
