"""BIF to and from pyAgrum and pgmpy: their marginals are ours."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli

ASIA = """network asia {}
variable smoke { type discrete [ 2 ] { yes, no }; }
variable lung { type discrete [ 2 ] { yes, no }; }
variable xray { type discrete [ 3 ] { bright, dim, dark }; }
probability ( smoke ) { table 0.4, 0.6; }
probability ( lung | smoke ) { (yes) 0.1, 0.9; (no) 0.01, 0.99; }
probability ( xray | lung, smoke ) {
  (yes, yes) 0.9, 0.05, 0.05; (no, yes) 0.1, 0.2, 0.7; (yes, no) 0.8, 0.1, 0.1; (no, no) 0.05, 0.25, 0.7;
}
"""


def ours(path):
    network = herdcli.network("convert", path)
    beliefs = herdcli.ups_infer(network, algorithm="junction-tree")
    return {name: beliefs.node[a:b] for name, a, b in zip(network.names, beliefs.node_offset, beliefs.node_offset[1:], strict=False)}


@pytest.fixture
def both(tmp_path, run):
    (tmp_path / "asia.bif").write_text(ASIA)
    assert run("network", "convert", "asia.bif", "-q", "-o", "mid.h5") == (0, "")
    assert run("network", "convert", "mid.h5", "-q", "-o", "out.bif") == (0, "")
    return ours(tmp_path / "asia.bif")


def test_what_herd_writes_pyagrum_reads_and_the_other_way_round(tmp_path, run, both):
    gum = pytest.importorskip("pyagrum")
    net = gum.loadBN(str(tmp_path / "out.bif"))
    inference = gum.LazyPropagation(net)
    for name, p in both.items():
        np.testing.assert_allclose(inference.posterior(name).toarray(), p, atol=1e-9)
        assert net.variable(name).labels() == gum.loadBN(str(tmp_path / "asia.bif")).variable(name).labels()
    gum.saveBN(net, str(tmp_path / "theirs.bif"))
    for name, p in ours(tmp_path / "theirs.bif").items():
        np.testing.assert_allclose(p, both[name], atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_what_herd_writes_pgmpy_reads_and_the_other_way_round(tmp_path, run, both):
    readwrite, inference = pytest.importorskip("pgmpy.readwrite"), pytest.importorskip("pgmpy.inference")
    net = readwrite.BIFReader(str(tmp_path / "out.bif")).get_model()
    found = inference.VariableElimination(net)
    for name, p in both.items():
        factor = found.query([name], show_progress=False)
        states = factor.state_names[name]
        labels = {"xray": ["bright", "dim", "dark"]}.get(name, ["yes", "no"])
        np.testing.assert_allclose([factor.values[states.index(label)] for label in labels], p, atol=1e-9)
    (tmp_path / "theirs.bif").write_text(str(readwrite.BIFWriter(net)))
    for name, p in ours(tmp_path / "theirs.bif").items():
        np.testing.assert_allclose(np.sort(p), np.sort(both[name]), atol=1e-6)
