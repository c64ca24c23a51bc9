"""`herd info`: any result as tables for people, and any file that herd reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load

NETWORK = """network w { }
variable rain { type discrete [ 2 ] { no, yes }; }
variable wet { type discrete [ 2 ] { dry, wet }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( wet | rain ) { (no) 0.9, 0.1; (yes) 0.25, 0.75; }
"""


@pytest.fixture
def shown(herd, tmp_path):
    """What `herd info` prints of a file, up to how it was made."""

    def run(*words: object) -> str:
        ended = herd("info", *words)
        assert ended.code == 0, ended.err
        return ended.out.decode().split("\n  made by\n")[0]

    return run


def test_a_regression_is_a_table_of_coefficients(herd, tmp_path, shown):
    rows = "".join(f"{i % 7},{i % 5},{2 * (i % 7) + 0.5 * (i % 5) + ((i * 37) % 11) / 10:.2f}\n" for i in range(40))
    (tmp_path / "r.csv").write_text("size,age,price\n" + rows)
    assert herd("regress", "r.csv", "--target", "price", "--split", "1,0,0", "-o", "r.h5").code == 0
    assert shown("r.h5").partition("\n")[2] == (
        "  verdict: no test rows\n"
        "\n"
        "  fit\n"
        "    target  family    rows  log_likelihood  deviance  null_deviance  dispersion  converged\n"
        "    price   gaussian    40         -10.875    4.0339         668.15     0.10902  yes\n"
        "\n"
        "  coefficients, 95 % intervals\n"
        "    term       estimate     error       t        p      low     high\n"
        "    size         2.0105  0.026683  75.348  <0.0001   1.9565   2.0646\n"
        "    age         0.49993  0.037067  13.487  <0.0001  0.42483  0.57504\n"
        "    intercept   0.45486   0.11438  3.9767   0.0003   0.2231  0.68661\n"
    )
    assert "coefficients           float64 1 × 2" not in shown("r.h5")
    assert "null_intercept" in shown("r.h5", "-v")


def test_a_mixture_is_weights_and_means_by_column(herd, tmp_path, shown):
    rows = "".join(f"{10 * (i % 2) + ((i * 7) % 5) / 10:.1f},{-5 * (i % 2) + ((i * 3) % 4) / 10:.1f}\n" for i in range(40))
    (tmp_path / "m.csv").write_text("u,v\n" + rows)
    assert herd("em", "m.csv", "--components", "2", "--covariance", "diagonal", "-q", "-o", "m.h5").code == 0
    assert shown("m.h5").partition("\n")[2] == (
        "  verdict: ok\n"
        "\n"
        "  components (diagonal covariances): weights and means\n"
        "    component   weight        u        v\n"
        "    1          0.54167  0.17692  0.10769\n"
        "    2          0.45833   10.227  -4.7909\n"
        "\n"
        "  standard deviations\n"
        "    component        u         v\n"
        "    1          0.14756  0.099704\n"
        "    2          0.14827  0.099586\n"
    )


def test_posteriors_have_the_names_of_variables_and_states(herd, tmp_path, shown):
    (tmp_path / "n.bif").write_text(NETWORK)
    assert herd("ups-infer", "n.bif", "--evidence", "wet=wet", "-q", "-o", "b.h5").code == 0
    assert shown("b.h5").endswith(
        "  marginals\n    variable  probabilities\n    rain      no 0.3478   yes 0.6522\n    wet       dry 0.0000   wet 1.0000\n"
    )
    assert shown("n.bif") == (
        "n.bif: network, 221 B, unsealed\n"
        "  verdict: ok\n"
        "\n"
        "  Bayesian network of 2 variables, 2 factors\n"
        "    variable  states    parents\n"
        "    rain      no, yes   –\n"
        "    wet       dry, wet  rain\n"
    )


def test_rows_have_a_head_types_missing_values_and_ranges(herd, tmp_path, shown):
    (tmp_path / "gaps.csv").write_text("a,b,y\n1,0.5,1\n2,,0\n3,2.5,1\n")
    assert shown("gaps.csv") == (
        "gaps.csv: dataset, 27 B, unsealed\n"
        "\n"
        "  rows\n"
        "    rows  columns  labels  classes\n"
        "    3           2  y             2\n"
        "\n"
        "  head\n"
        "    row  y  a    b\n"
        "    0    1  1  0.5\n"
        "    1    0  2    –\n"
        "    2    1  3  2.5\n"
        "\n"
        "  columns\n"
        "    column  type          missing  min  mean  max\n"
        "    a       whole number        0    1     2    3\n"
        "    b       number              1  0.5   1.5  2.5\n"
    )


def test_a_column_that_is_no_label_is_shown_as_a_column(herd, tmp_path, shown):
    (tmp_path / "c.csv").write_text("x,y\n1.5,-1.25\n2.5,0.5\n")
    alone = shown("c.csv")
    assert "    y       number        0  -1.25  -0.375  0.5\n" in alone
    (tmp_path / "r.csv").write_text("a,y\n" + "".join(f"{i},{i % 3}.5\n" for i in range(20)))
    assert herd("regress", "r.csv", "--target", "y", "-q", "-o", "r.h5").code == 0
    assert herd("info", "r.h5", "c.csv").out.decode().endswith(alone)  # whatever was read before it


def test_a_classifier_has_its_confusion_and_features(herd, tmp_path, shown):
    rows = "".join(f"{(i % 3 == 0) * 4 + (i * 7 % 5)},{i * 3 % 4},{'ab'[i % 3 == 0]}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("loud,noise,y\n" + rows)
    assert herd("nherd-train", "t.csv", "-q", "-o", "t.h5").code == 0
    text = shown("t.h5")
    assert "confusion on held-out rows (lines: true class)\n    class   a  b\n    a      10  0\n    b       0  2\n" in text
    assert "strongest features\n    for          feature" in text
    assert text.count("b against a") == 2
    (found,) = json.loads(herd("info", "t.h5", "--format", "json").out)
    assert [each["title"] for each in found["tables"]] == [
        "learning",
        "confusion on held-out rows (lines: true class)",
        "strongest features",
    ]


def test_what_cannot_be_read_is_refused_as_before(herd, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    ended = herd("info", "bad.csv")
    assert (ended.code, ended.err.splitlines()[0]) == (65, "herd info: bad.csv: line 3 has 1 values, expected 2")


def test_the_dispersion_of_counts_is_fixed_and_pearsons_ratio_stands_beside_it(herd, tmp_path, shown):
    x = np.arange(60) % 6
    y = 3 * (np.arange(60) % 2) * (1 + x)
    np.savetxt(tmp_path / "c.csv", np.column_stack([x, y]), fmt="%d", delimiter=",", header="x,y", comments="")
    assert herd("regress", "c.csv", "--family", "poisson", "--split", ".8,0,.2", "-o", "c.h5").code == 0
    assert herd("regress", "c.csv", "--family", "poisson", "--split", ".8,0,.2", "--dispersion", "pearson", "-q", "-o", "q.h5").code == 0
    ratio = load(str(tmp_path / "q.h5")).value.dispersion
    assert ratio > 1.5
    text = shown("c.h5")
    assert "  1 (fixed)  " in text
    assert f"    Pearson's X²/(n − p) {ratio:.4g}: above 1 over-dispersed, below 1 under-dispersed\n" in text
    (row,) = json.loads(herd("eval", "c.h5", "--format", "json").out)
    assert row["pearson_ratio"] == pytest.approx(ratio, rel=1e-12)


def test_the_ratio_of_single_zeros_and_ones_is_not_shown(herd, tmp_path, shown):
    (tmp_path / "b.csv").write_text("x,y\n" + "".join(f"{i % 7},{int(i * i % 11 > 4)}\n" for i in range(60)))
    assert herd("regress", "b.csv", "-o", "b.h5").code == 0
    assert "1 (fixed)" in shown("b.h5")
    assert "Pearson" not in shown("b.h5")


def test_a_number_of_components_is_shown_as_it_was_typed(herd, tmp_path):
    (tmp_path / "m.csv").write_text("u,v\n" + "".join(f"{i * 7 % 11},{i * i % 13}\n" for i in range(40)))
    for typed in ("2", "1-2"):
        assert herd("em", "m.csv", "--components", typed, "--covariance", "diagonal", "-q", "-o", "m.h5").code == 0
        assert f" components={typed} " in herd("info", "m.h5").out.decode()
