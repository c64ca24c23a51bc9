"""Tables of models: `herd info` of RBMs, herding and ICA, and `herd convert MODEL -o TABLE.csv`."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture
def rows(tmp_path):
    """Forty rows of three named columns in rows.csv, with a class, and their signs in signs.csv."""
    X = np.random.default_rng(0).laplace(size=(40, 3)) * [1, 2, 4]
    lines = [",".join(f"{each:.4f}" for each in row) for row in X]
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    (tmp_path / "signs.csv").write_text("a,b,c\n" + "\n".join(",".join(str(int(each > 0)) for each in row) for row in X) + "\n")
    (tmp_path / "classes.csv").write_text(
        "a,b,c,y\n" + "".join(f"{line},{'no' if x[0] < 0 else 'yes'}\n" for line, x in zip(lines, X, strict=True))
    )
    return X


@pytest.fixture
def converted(herd, tmp_path):
    def run(name: str) -> list[dict[str, str]]:
        ended = herd("convert", name, "--format", "csv")
        assert ended.code == 0, ended.err
        return list(csv.DictReader(io.StringIO(ended.out.decode())))

    return run


def test_an_rbm_is_its_hidden_units(herd, rows, tmp_path, converted):
    assert herd("fit-rbm", "signs.csv", "--hidden", "2", "--epochs", "3", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    model = artifacts.load(str(tmp_path / "m.h5")).value
    shown = herd("info", "m.h5").out.decode()
    assert "\n  hidden units\n    unit" in shown
    assert "float32" not in shown
    assert "float32" in herd("info", "-v", "m.h5").out.decode()
    strongest = int(np.abs(model.W[0, :, 0]).argmax())
    line = next(line for line in shown.partition("hidden units\n")[2].splitlines() if line.startswith("    1 "))
    assert f"{'abc'[strongest]} {model.W[0, strongest, 0]:+.2g}, " in line
    found = converted("m.h5")
    np.testing.assert_allclose([[float(row[name]) for name in "abc"] for row in found], model.W[0].T, rtol=1e-6)
    np.testing.assert_allclose([float(row["bias"]) for row in found], model.c[0], rtol=1e-6)


def test_ica_is_its_filters(herd, rows, tmp_path, converted):
    assert herd("ica", "rows.csv", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    model = artifacts.load(str(tmp_path / "m.h5")).value
    shown = herd("info", "m.h5").out.decode()
    outputs = model.features(rows)
    related = np.abs(np.corrcoef(rows.T, outputs.T)[:3, 3])  # of the first output, by the rows themselves
    line = next(line for line in shown.splitlines() if line.startswith("    1 "))
    assert f" {'abc'[int(related.argmax())]} " in line
    found = converted("m.h5")
    W = np.array([[float(row[name]) for name in "abc"] for row in found])
    np.testing.assert_allclose((rows - model.whitening.mean) @ W.T, outputs, rtol=1e-4, atol=1e-4)


def test_herding_is_its_runs(herd, rows, tmp_path, converted):
    assert herd("herd", "signs.csv", "--hidden", "2", "--iterations", "50", "-q", "-o", "m.h5").code in (0, 1)
    gap = artifacts.load(str(tmp_path / "m.h5")).value.gap
    assert "\n  runs: largest gaps of moments, and norm of the weights\n" in herd("info", "m.h5").out.decode()
    (row,) = converted("m.h5")
    assert (float(row["gap_visible"]), float(row["gap_pair"])) == (float(gap.largest_visible[0]), float(gap.largest_pair[0]))


def test_tables_of_other_models_have_all_rows(herd, rows, tmp_path, converted):
    assert herd("nherd-train", "classes.csv", "-q", "-o", "c.h5").code == 0
    classifier = artifacts.load(str(tmp_path / "c.h5")).value
    weights = {row["feature"]: float(row["weight"]) for row in converted("c.h5")}
    first = int(classifier.settings.bias)
    assert weights == {name: pytest.approx(float(each)) for name, each in zip("abc", classifier.mean[0, first:], strict=True) if each}
    assert herd("em", "rows.csv", "--components", "2", "--covariance", "diagonal", "-q", "-o", "e.h5").code == 0
    found = converted("e.h5")
    np.testing.assert_allclose([float(row["weight"]) for row in found], artifacts.load(str(tmp_path / "e.h5")).value.weight)
    assert herd("regress", "rows.csv", "--target", "c", "-q", "-o", "r.h5").code == 0
    assert [row["term"] for row in converted("r.h5")] == ["a", "b", "intercept"]


def test_a_deep_network_is_its_layers(herd, rows, tmp_path, converted):
    assert herd("fit-rbm", "signs.csv", "--layers", "3,2", "--epochs", "2", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    first, second = artifacts.load(str(tmp_path / "m.h5")).value.layers
    shown = herd("info", "m.h5").out.decode()
    assert [line for line in shown.splitlines() if line.startswith(("  layers", "  hidden units"))] == [
        *("  layers, the lowest first", "  hidden units of layer 1", "  hidden units of layer 2"),
    ]
    strongest = int(np.abs(second.W[0, :, 1]).argmax())
    assert f"unit {strongest + 1} {second.W[0, strongest, 1]:+.2g}" in shown.splitlines()[-5]
    found = converted("m.h5")
    assert len(found) == 3 * 4 + 2 * 4
    weights = {(row["layer"], row["unit"], row["input"]): float(row["weight"]) for row in found}
    assert weights["1", "3", "b"] == pytest.approx(float(first.W[0, 1, 2]))
    assert weights["2", "1", "unit 3"] == pytest.approx(float(second.W[0, 2, 0]))
    assert weights["2", "2", "(bias)"] == pytest.approx(float(second.c[0, 1]))


def test_a_recurrent_model_is_its_hidden_units(herd, rows, tmp_path, converted):
    words = ("--recurrent", "--hidden", "2", "--epochs", "2", "--split", "1,0,0", "-q", "-o", "m.h5")
    assert herd("fit-rbm", "signs.csv", *words).code == 0
    learned = artifacts.load(str(tmp_path / "m.h5")).value.parameters
    shown = herd("info", "m.h5").out.decode()
    assert "from the step before" in shown
    strongest = int(np.abs(learned.U[:, 0]).argmax())
    assert f"unit {strongest + 1} {learned.U[strongest, 0]:+.2g}" in shown
    found = converted("m.h5")
    np.testing.assert_allclose([[float(row[name]) for name in "abc"] for row in found], learned.W.T, rtol=1e-6)
    np.testing.assert_allclose([float(row["from unit 2"]) for row in found], learned.U[1], rtol=1e-6)


def test_a_model_of_pairs_has_two_rows_for_each_unit(herd, tmp_path, converted):
    images = np.random.default_rng(1).integers(0, 255, size=(12, 6))
    data = artifacts.Dataset(
        images.astype(np.uint8), y=np.repeat(np.arange(4), 3), image_shape=np.array([2, 3]), value_range=np.array([0, 255])
    )
    artifacts.save(str(tmp_path / "faces.h5"), data, [])
    words = ("--pairs", "--hidden", "3", "--epochs", "2", "--split", "1,0,0", "-q", "-o", "m.h5")
    assert herd("fit-rbm", "faces.h5", *words).code == 0
    model = artifacts.load(str(tmp_path / "m.h5")).value
    line = next(line for line in herd("info", "m.h5").out.decode().splitlines() if line.startswith("    2 "))
    cosine = float(model.W1[:, 1] @ model.W2[:, 1] / np.linalg.norm(model.W1[:, 1]) / np.linalg.norm(model.W2[:, 1]))
    assert float(line.split()[4]) == pytest.approx(cosine, rel=1e-3)
    found = converted("m.h5")
    assert [(row["unit"], row["image"]) for row in found] == [(str(k), str(i)) for k in (1, 2, 3) for i in (1, 2)]
    assert float(found[3]["x4"]) == pytest.approx(float(model.W2[4, 1]))


def test_a_tagger_is_its_labels(herd, tmp_path, converted):
    random = np.random.default_rng(2)
    X = random.integers(0, 2, size=(120, 3))
    lines = [f"{a},{b},{c},{a},{b}" for a, b, c in X]
    (tmp_path / "tags.csv").write_text("u,v,w,is_u,is_v\n" + "\n".join(lines) + "\n")
    assert herd("nherd-train", "tags.csv", "--task", "multilabel", "--label", "is_*", "-q", "-o", "t.h5").code == 0
    model = artifacts.load(str(tmp_path / "t.h5")).value
    shown = herd("info", "t.h5").out.decode()
    test = model.holdout.y[model.holdout.split == 2]
    assert f"\n  labels, on {len(test)} held-out rows\n" in shown
    line = next(line for line in shown.splitlines() if line.startswith("    is_u "))
    assert line.split()[2:] == [str(int(test[:, 0].sum()))] * 2 + ["1", "1"]  # the labels are columns, so none is missed
    weights = {(row["for"], row["feature"]): float(row["weight"]) for row in converted("t.h5")}
    first = int(model.settings.bias)
    assert weights["is_v", "w"] == pytest.approx(float(model.mean[1, first + 2]))


BIF = """network small { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable grass { type discrete [ 3 ] { dry, damp, wet }; }
probability ( rain ) { table .25, .75; }
probability ( grass | rain ) { (yes) .1, .3, .6; (no) .7, .2, .1; }
"""


def test_a_bayesian_network_is_its_probabilities(herd, tmp_path, converted):
    (tmp_path / "small.bif").write_text(BIF)
    assert herd("network", "convert", "small.bif", "-q", "-o", "n.h5").code == 0
    found = [tuple(row.values()) for row in converted("n.h5")]
    assert found == [
        ("rain", "", "yes", "0.25"),
        ("rain", "", "no", "0.75"),
        *(("grass", "rain=yes", state, p) for state, p in (("dry", "0.1"), ("damp", "0.3"), ("wet", "0.6"))),
        *(("grass", "rain=no", state, p) for state, p in (("dry", "0.7"), ("damp", "0.2"), ("wet", "0.1"))),
    ]


def test_a_markov_network_is_its_factors(herd, tmp_path, converted):
    (tmp_path / "pair.uai").write_text("MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2\n 1 3\n4\n 1 2 3 4\n")
    assert herd("network", "convert", "pair.uai", "-q", "-o", "n.h5").code == 0
    found = [tuple(row.values()) for row in converted("n.h5")]
    assert found[:2] == [("1", "x0=0", "1.0"), ("1", "x0=1", "3.0")]
    assert found[2:] == [("2", f"x0={a}, x1={b}", f"{1.0 + 2 * a + b}") for a in (0, 1) for b in (0, 1)]


def test_the_history_is_folded_and_omits_defaults(herd, rows):
    assert herd("fit-rbm", "signs.csv", "--hidden", "2", "--epochs", "3", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    lines = herd("info", "m.h5").out.decode().partition("  made by\n")[2].splitlines()
    assert lines[0].startswith("  1. fit-rbm algorithm=")
    assert "hidden=2" in " ".join(lines)
    assert "l1_decay" not in " ".join(lines)
    detailed = herd("info", "-v", "m.h5").out.decode().partition("  made by\n")[2]
    assert "l1_decay=0.0" in detailed
    assert max(map(len, [*lines, *detailed.splitlines()])) <= 100


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--split", "1,0,0", "-o", "t.csv"), 2, "herd convert: r.h5: options that change rows work only with data sets\n"),
        (("-o", "t.npz"), 65, "herd convert: r.h5: is of kind regression, but must be of kind dataset\n"),
    ],
)
def test_a_table_of_a_model_is_no_data_set(herd, rows, words, code, says):
    assert herd("regress", "rows.csv", "--target", "c", "-q", "-o", "r.h5").code == 0
    ended = herd("convert", "r.h5", *words)
    assert ended.code == code
    assert ended.err.startswith(says)


def test_the_text_of_a_network_has_a_table_too(herd, tmp_path):
    (tmp_path / "small.bif").write_text(BIF)
    assert herd("convert", "small.bif", "-q", "-o", "table.csv").code == 0
    assert (tmp_path / "table.csv").read_text().splitlines()[3] == "grass,rain=yes,dry,0.1"
    ended = herd("network", "convert", "small.bif", "-o", "table.csv")
    assert (ended.code, ended.err) == (
        2,
        "herd network: table.csv: herd network convert writes networks, not tables\nhint: herd convert small.bif -o table.csv\n",
    )


def test_a_table_is_written_as_parquet(herd, rows, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    assert herd("em", "rows.csv", "--components", "2", "--covariance", "diagonal", "-q", "-o", "e.h5").code == 0
    assert herd("convert", "e.h5", "-q", "-o", "e.parquet").code == 0
    table = pq.read_table(tmp_path / "e.parquet")
    value = artifacts.load(str(tmp_path / "e.h5")).value
    assert table.column_names == ["component", "weight", "a", "b", "c"]
    np.testing.assert_array_equal(table["weight"].to_numpy(), value.weight)
    (tmp_path / "small.bif").write_text(BIF)
    assert herd("convert", "small.bif", "-q", "-o", "n.parquet").code == 0
    assert pq.read_table(tmp_path / "n.parquet")["probability"].to_pylist()[:3] == [0.25, 0.75, 0.1]


def test_the_table_of_marginals_names_the_states(herd, tmp_path):
    (tmp_path / "small.bif").write_text(BIF)
    assert herd("ups-infer", "small.bif", "-q", "-o", "marginals.csv").code == 0
    lines = list(csv.DictReader((tmp_path / "marginals.csv").read_text().splitlines()))
    states = {line["variable"]: line["states"].split("; ") for line in lines}
    assert next(iter(lines[0])) == "variable"
    assert list(lines[0])[-1] == "states"
    assert states == {"rain": ["yes", "no"], "grass": ["dry", "damp", "wet"]}
