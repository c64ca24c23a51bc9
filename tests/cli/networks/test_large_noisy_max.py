"""A noisy-max whose table is divided: its auxiliary variables are never shown, counted or accepted, and `mpe` sums them out."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math

import numpy as np
import pytest

PARENTS = 12
NAMES = [*(f"A{k}" for k in range(PARENTS)), "X", "Y"]
FORMATS = ("bif", "xmlbif", "net", "xdsl", "dsl", "uai", "fg", "h5")
NOTE = "X is a noisy-max of 12 parents, so its table is divided into smaller ones"


def prior(k: int) -> float:
    return 0.15 + 0.02 * k


def effect(k: int) -> float:
    return 0.6 / (k % 4 + 1)


def xdsl(end: str = "", before: str = "") -> str:
    two = '<state id="on"/><state id="off"/>'
    nodes = "".join(f'<cpt id="A{k}{end}">{two}<probabilities>{prior(k)!r} {1 - prior(k)!r}</probabilities></cpt>' for k in range(PARENTS))
    values = " ".join(f"{effect(k)!r} {1 - effect(k)!r} 0 1" for k in range(PARENTS))
    return (
        f"{nodes}<noisymax id='X{end}'>{two}<parents>{' '.join(f'A{k}{end}' for k in range(PARENTS))}</parents>"
        f"<strengths>{' '.join(['0 1'] * PARENTS)}</strengths><parameters>{values} .02 .98</parameters></noisymax>"
        f"<cpt id='Y{end}'>{two}<parents>X{end}{before}</parents>"
        f"<probabilities>.8 .2 .3 .7{' .6 .4 .1 .9' if before else ''}</probabilities></cpt>"
    )


@pytest.fixture
def network(tmp_path):
    (tmp_path / "n.xdsl").write_text(f'<smile version="1.0" id="n"><nodes>{xdsl()}</nodes></smile>')


@pytest.fixture(scope="module")
def joint():
    """P of all states of A0 … A11, X, Y, each 0 for on."""
    found = np.zeros([2] * len(NAMES))
    for causes in itertools.product((0, 1), repeat=PARENTS):
        p = math.prod(prior(k) if state == 0 else 1 - prior(k) for k, state in enumerate(causes))
        off = 0.98 * math.prod(1 - effect(k) for k, state in enumerate(causes) if state == 0)
        found[causes] = p * np.array([[(1 - off) * 0.8, (1 - off) * 0.2], [off * 0.3, off * 0.7]])
    return found


def table(text):
    return list(csv.DictReader(io.StringIO(text.decode() if isinstance(text, bytes) else text)))


def test_marginals_are_those_of_the_variables_of_the_file(herd, network, joint):
    ended = herd("ups-infer", "n.xdsl", "--format", "csv")
    assert ended.code == 0, ended.err
    assert f"n.xdsl: {NOTE}" in ended.err
    assert "14 variables" in ended.err
    rows = table(ended.out)
    assert [row["variable"] for row in rows] == NAMES
    expected = [joint.sum(axis=tuple(k for k in range(len(NAMES)) if k != i))[0] for i in range(len(NAMES))]
    np.testing.assert_allclose([float(row["p0"]) for row in rows], expected, rtol=0, atol=1e-12)


def test_the_most_probable_states_are_those_of_the_variables_of_the_file(herd, network, joint):
    given = joint[..., 0]  # Y=on
    ended = herd("ups-infer", "n.xdsl", "--query", "mpe", "--evidence", "Y=on", "--format", "csv")
    assert ended.code == 0, ended.err
    rows = table(ended.out)
    assert [row["variable"] for row in rows] == NAMES
    best = np.unravel_index(int(given.argmax()), given.shape)
    assert [int(row["state"]) for row in rows] == [*map(int, best), 0]
    assert f"log value {math.log(given.max()):.10g}" in ended.err
    refused = herd("ups-infer", "n.xdsl", "--query", "mpe", "--solver", "toulbar2", "--format", "csv")
    assert refused.code == 2
    assert "--solver toulbar2 cannot sum out the parts of a large noisy-max" in refused.err


@pytest.mark.parametrize("form", FORMATS)
def test_files_that_herd_writes_keep_the_marks(herd, network, joint, tmp_path, form):
    ended = herd("network", "convert", "n.xdsl", "-o", f"c.{form}")
    assert ended.code == 0, ended.err
    assert "14 variables, 14 factors" in ended.err
    rows = table(herd("ups-infer", f"c.{form}", "--evidence", "Y=on", "--format", "csv").out)
    assert [row["variable"] for row in rows] == NAMES
    p = joint[..., 0].sum(axis=tuple(range(PARENTS)))
    np.testing.assert_allclose(float(rows[PARENTS]["p0"]), p[0] / p.sum(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--evidence", "X~2=on"),
        ("--query", "joint:X~2"),
        ("--query", "mmap:X~2"),
        ("--query", "sensitivity:X~2=on"),
        ("--query", "dsep:A0,X~2"),
        ("--query", "independent:X~2"),
        ("--observe", "X~2=.5,.5"),
        ("--soft-evidence", "X~2=.5,.5"),
    ],
)
def test_auxiliary_variables_are_not_accepted(run, network, arguments):
    ended = run("ups-infer", "n.xdsl", *arguments, "--format", "csv")
    assert ended.code == 65
    assert "there is no variable 'X~2'\nhint: its variables are A0, A1, A2, A3, A4 …" in ended.err


def test_numbers_of_auxiliary_variables_are_not_accepted(run, network, tmp_path):
    (tmp_path / "e.evid").write_text("1 14 0\n")
    ended = run("ups-infer", "n.xdsl", "--evidence", "e.evid", "--format", "csv")
    assert ended.code == 65
    assert "there is no variable 14: the network has 14, numbered 0 to 13" in ended.err


def test_the_graph_is_that_of_the_file(run, network):
    found = json.loads(run("network", "describe", "n.xdsl").out)
    assert (found["variables"], found["factors"], len(found["edges"])) == (14, 14, 13)
    assert [node["name"] for node in found["nodes"]] == NAMES
    assert found["nodes"][0]["markov_blanket"] == [*NAMES[1:PARENTS], "X"]
    assert found["nodes"][PARENTS]["parents"] == NAMES[:PARENTS]
    assert found["nodes"][PARENTS]["children"] == ["Y"]
    assert len(found["moral_edges"]) == math.comb(13, 2) + 1
    assert found["treewidth"] == {"at_least": 2, "at_most": 2}


def test_trails_have_no_auxiliary_variables(run, network):
    rows = table(run("ups-infer", "n.xdsl", "--query", "independent:A0|Y", "--format", "csv").out)
    assert [row["other"] for row in rows] == NAMES[1:-1]
    assert [row["trail"] for row in rows[:-1]] == [f"A0 – X – A{k}" for k in range(1, PARENTS)]


def test_other_outputs_have_no_auxiliary_variables(run, network, tmp_path):
    ended = run("ups-infer", "n.xdsl", "--query", "sensitivity:Y=on", "--format", "csv")
    assert "left out the parameters of the large noisy-max of X" in ended.err
    assert {row["child"] for row in table(ended.out)} == {*NAMES} - {"X"}
    (tmp_path / "rows.csv").write_text("A1,X\non,off\n,on\n")
    head = run("ups-infer", "n.xdsl", "--evidence-rows", "rows.csv", "--format", "csv").out.splitlines()[0]
    assert head == ",".join([*(f"{name}={state}" for name in NAMES for state in ("on", "off")), "log_z"])
    assert run("sample", "n.xdsl", "--count", "20", "-o", "s.csv").code == 0
    assert (tmp_path / "s.csv").read_text().splitlines()[0] == ",".join(NAMES)
    found = json.loads(run("eval", "n.xdsl", "--data", "s.csv", "--format", "json").out)
    assert "~" not in json.dumps(found)
    assert run("network", "convert", "n.xdsl", "-o", "n.h5").code == 0
    told = run("info", "n.h5").out
    assert "Bayesian network of 14 variables, 14 factors" in told
    assert "~" not in told
    for query in ((), ("--algorithm", "bp"), ("--query", "bounds"), ("--query", "mpe")):
        assert run("ups-infer", "n.xdsl", *query, "-o", "b.h5").code in (0, 1)
        told = run("info", "b.h5").out
        assert "X" in told
        assert "~" not in told


def test_the_log_likelihood_of_rows_sums_auxiliary_variables_out(run, network, joint, tmp_path):
    assert run("sample", "n.xdsl", "--count", "20", "-o", "s.csv").code == 0
    rows = [tuple(int(row[name] == "off") for name in NAMES) for row in table((tmp_path / "s.csv").read_text())]
    ended = run("eval", "n.xdsl", "--data", "s.csv", "--format", "json")
    (found,) = json.loads(ended.out)["rows"] if isinstance(json.loads(ended.out), dict) else json.loads(ended.out)
    np.testing.assert_allclose(found["log_likelihood"], np.mean([math.log(joint[row]) for row in rows]), rtol=0, atol=1e-10)


@pytest.fixture
def template(tmp_path):
    """Two slices; Y of the second also depends on Y of the first, and only the second has the large noisy-max."""
    two = '<state id="on"/><state id="off"/>'
    first = "".join(f"<cpt id='{name}_0'>{two}<probabilities>.5 .5</probabilities></cpt>" for name in NAMES)
    (tmp_path / "t.xdsl").write_text(f'<smile version="1.0" id="n"><nodes>{first}{xdsl("_t", " Y_0")}</nodes></smile>')


def test_templates_with_a_divided_table(run, template, joint, tmp_path):
    ended = run("network", "unroll", "t.xdsl", "--steps", "3", "-o", "u.bif")
    assert ended.code == 0, ended.err
    assert "42 variables, 42 factors" in ended.err
    rows = table(run("ups-infer", "u.bif", "--format", "csv").out)
    assert [row["variable"] for row in rows] == [f"{name}_{t}" for t in range(3) for name in NAMES]
    on = joint.sum(axis=tuple(range(PARENTS)))[0].sum()
    y = 0.5
    for t in (1, 2):
        y = y * (on * 0.8 + (1 - on) * 0.6) + (1 - y) * (on * 0.3 + (1 - on) * 0.1)
        np.testing.assert_allclose(float(rows[14 * t + PARENTS]["p0"]), on, rtol=0, atol=1e-12)
        np.testing.assert_allclose(float(rows[14 * t + 13]["p0"]), y, rtol=0, atol=1e-12)
    (tmp_path / "e.csv").write_text("Y,X\non,\n,\n,\n")
    ended = run("ups-infer", "t.xdsl", "--slices", "filtering", "--evidence-rows", "e.csv", "--format", "csv")
    assert "3 slices × 14 variables" in ended.err
    rows = table(ended.out)
    assert list(rows[0]) == [*(f"{name}={state}" for name in NAMES for state in ("on", "off")), "log_z"]
    np.testing.assert_allclose(float(rows[1]["Y=on"]), on * 0.8 + (1 - on) * 0.6, rtol=0, atol=1e-12)
