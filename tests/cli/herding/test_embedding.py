"""`herd kernel-herd --embedding`: the default for large data, what is told and stored, going on, and what is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.kernel_herd import embedding_choice
from herdcli.quadrature.embeddings import approximation
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.selection_problem import SelectionGroup
from herdcli.quadrature.targets import RowTarget


@pytest.fixture
def table(tmp_path):
    """rows.csv: 150 rows of three columns."""
    X = np.random.default_rng(0).standard_normal((150, 3))
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="", fmt="%.6g")
    return tmp_path / "rows.csv"


def asked(**options):
    """`embedding_choice.chosen` for two groups of 150 and 90 rows: what it returns, and what it tells."""
    told = []
    session = SimpleNamespace(
        exact=options.pop("exact", False),
        console=SimpleNamespace(note=told.append, detail=told.append),
        warn_of_ignored_option=lambda *words: None,
    )
    request = SimpleNamespace(**{"embedding": None, "count": 8, **options})
    groups = [SelectionGroup(RowTarget(np.zeros((rows, 3)), np.full(rows, 1 / rows)), None, 8) for rows in (150, 90)]
    return embedding_choice.choose_embedding(session, request, GaussianKernel(1.0), groups, None), told


def test_large_data_are_approximated_by_default_and_told(monkeypatch):
    assert asked() == (None, [])
    monkeypatch.setattr(approximation, "WORTH", approximation.estimate_exact_seconds(140, 140, 3))
    monkeypatch.setattr(approximation, "estimate_nystrom_seconds", lambda points, rows, columns, size: 1e-9 * size)
    monkeypatch.setattr(embedding_choice, "LANDMARKS", 20)
    found, told = asked()
    assert (found.text(), found.is_suitable(150, 150, 3), found.is_suitable(90, 90, 3)) == ("nystrom:20", True, False)
    assert told == [
        "the mean embedding of 150 rows is approximated from 20 of them (--embedding nystrom:20), "
        "about 0 s of CPU time; --embedding exact uses all pairs, about 0 s"
    ]
    assert asked(count=50)[0].text() == "nystrom:50"
    assert asked(embedding="exact") == asked(exact=True) == asked(count=200) == (None, [])
    assert asked(embedding="sample:60", exact=True)[0].text() == "sample:60"


def test_the_bound_is_told_stored_and_holds(herd, table, tmp_path):
    ended = herd("kernel-herd", table, "-m", 8, "--embedding", "nystrom:20", "-o", "some.h5")
    summary = artifacts.load(str(tmp_path / "some.h5")).value.summary
    mmd, bound = summary.mmd[0], summary.embedding_error[0]
    assert f"MMD {mmd:.4g} with the approximation nystrom:20; with all rows it differs by at most {bound:.2g} (for certain)" in ended.err
    figures = json.loads(herd("eval", "some.h5", "--data", table, "--format", "json").out)[0]
    assert 0 < abs(figures["target_mmd"] - figures["mmd"]) <= figures["embedding_error"] == bound


def test_going_on_keeps_the_embedding(herd, table, tmp_path):
    options = ("--embedding", "fourier:100")
    for count, more, name in ((6, (), "few.h5"), (12, (), "whole.h5"), (12, ("--extend", "few.h5"), "more.h5")):
        assert herd("kernel-herd", table, "-m", count, *options, *more, "-o", name).code == 0
    more, whole = (artifacts.load(str(tmp_path / name)).value for name in ("more.h5", "whole.h5"))
    np.testing.assert_array_equal(more.mmd, whole.mmd)
    assert (more.embedding, more.summary.embedding_error[0]) == ("fourier:100", whole.summary.embedding_error[0])
    ended = herd("kernel-herd", table, "-m", 12, "--extend", "few.h5", "--embedding", "exact", "-o", "x.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "herd kernel-herd: the samples were made with --embedding fourier:100, not with exact",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--embedding", "nystrom"), "Invalid value for '--embedding': 'nystrom' is none of exact, sample:N, nystrom:R or fourier:R"),
        (
            ("--embedding", "fourier:9", "--kernel", "energy"),
            "--embedding fourier: random Fourier features do not exist for the kernel energy, which has no spectral density",
        ),
        (("--embedding", "nystrom:9", "--exact"), "--exact does not work with --embedding nystrom:9"),
        (("--embedding", "fourier:9", "--polish"), "--polish does not work with --embedding fourier"),
    ],
)
def test_what_does_not_go_together_is_refused(herd, table, options, message):
    ended = herd("kernel-herd", table, "-m", 4, *options, "-o", "x.h5")
    assert ended.code == 2
    assert message in ended.err.splitlines()[0]


def test_draws_work_in_exact_arithmetic(herd, table, tmp_path):
    for name in ("a.h5", "b.h5"):
        assert herd("kernel-herd", table, "-m", 4, "--exact", "--embedding", "sample:40", "-o", name).code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
