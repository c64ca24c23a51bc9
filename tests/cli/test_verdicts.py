"""The verdict of `herd eval`, and the warning of the same words at the end of training."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.evaluation import verdicts


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (["fit-rbm", "--hidden", "8", "--epochs", "8"], "ok"),
        (["fit-rbm", "--hidden", "8", "--epochs", "3", "--learning-rate", "5", "--units", "spin"], "worse than independent"),
        (["regress", "--l2", "1e9"], "learned nothing"),
        (["kernel-herd", "-m", "20"], "ok"),
        (["kernel-herd", "-m", "20", "--bandwidth", "0.01"], "kernel too narrow"),
        (["kernel-herd", "-m", "20", "--bandwidth", "1e6"], "kernel too wide"),
        (["em", "--model", "kmeans", "--components", "1"], "learned nothing"),
        (["herd", "--hidden", "8", "--iterations", "3"], "not converged"),
    ],
)
def test_eval_and_training_say_the_same(herd, digits, tmp_path, line, verdict):
    learned = herd(line[0], digits, *line[1:], "-o", "m.h5")
    assert learned.code == 0, learned.err
    assert herd("eval", "m.h5", "-o", "t.tsv").code == 0
    head, row = (text.split("\t") for text in (tmp_path / "t.tsv").read_text().splitlines())
    assert dict(zip(head, row, strict=True))["verdict"] == verdict
    told = "worse than independent columns" if verdict == "worse than independent" else f"warning: verdict: {verdict}"
    assert (told in learned.err) == (verdict not in ("ok", *verdicts.TOLD))


def test_one_component_that_the_criterion_chose_is_no_fault(herd, tmp_path):
    """One Gaussian is then both the model and its baseline."""
    np.savetxt(tmp_path / "normal.csv", np.random.default_rng(0).standard_normal((300, 3)), delimiter=",", header="a,b,c", comments="")
    ended = herd("em", "normal.csv", "-o", "m.h5")
    assert (ended.code, "1 component of 3 numbers tried" in ended.err, "verdict" in ended.err) == (0, True, False), ended.err
    assert herd("eval", "m.h5").out.decode().split()[-1] == "ok"
