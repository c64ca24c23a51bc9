"""`herd info --top N`: the strongest features of linear models."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(3)
    X = random.standard_normal((120, 4)) * (1, 1, 1, 2)
    return "small,loud,none,y\n" + "\n".join(f"{a:.3f},{b:.3f},{c:.3f},{int(3 * b - a > e)}" for a, b, c, e in X) + "\n"


def test_the_strongest_features_are_named_with_their_deviations(herd, rows, tmp_path):
    made = herd("regress", "-", "--family", "bernoulli", stdin=rows.encode())
    assert made.code == 0, made.err
    (tmp_path / "m.h5").write_bytes(made.out)
    value = artifacts.load(str(tmp_path / "m.h5")).value
    shown = json.loads(herd("info", "--top", "2", "--format", "json", stdin=made.out).out)[0]["strongest"]
    assert [each["feature"] for each in shown] == ["loud", "small"]
    assert shown[0]["weight"] > 0 > shown[1]["weight"]
    assert (shown[0]["weight"], shown[1]["deviation"]) == (value.coefficients[0, 1], value.standard_error[0, 0])
    text = herd("info", "--top", "1", stdin=made.out).out.decode()
    assert f"  strongest features:\n    loud  {shown[0]['weight']:+.4g}" in text
    online = herd("info", "--top", "5", stdin=herd("nherd-train", stdin=rows.encode()).out).out.decode()
    head, *lines = online[online.index("  strongest") :].splitlines()[:4]
    assert head == "  strongest features for 1 against 0:"
    assert [line.split()[0] for line in lines] == ["loud", "small", "none"]
    assert all(" ± " in line for line in lines)


def test_what_has_no_weights_of_features_is_told(herd, rows):
    kernel = herd("nherd-train", "--covariance", "full", "--kernel", "gaussian", stdin=rows.encode())
    ended = herd("info", "--top", "3", stdin=kernel.out)
    assert (ended.code, ended.err.splitlines()[0]) == (
        65,
        "herd info: stdin: has no weights for features because it is a kernel classifier",
    )
    ended = herd("info", "--top", "3", stdin=herd("data", "digits").out)
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "herd info: stdin: --top shows the weights of features, but artifacts of kind 'dataset' have none",
    )
