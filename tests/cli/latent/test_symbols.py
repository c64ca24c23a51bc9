"""Symbols given as text: one variable with named states, learned, applied, judged and drawn by their names."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from herdcli.artifacts.load_save import load

NAMES = ("A", "C", "G")


def chain(rows: int, seed: int = 0) -> np.ndarray:
    """Symbols of a sticky chain."""
    random = np.random.default_rng(seed)
    found = np.zeros(rows, dtype=int)
    for t in range(1, rows):
        found[t] = found[t - 1] if random.random() < 0.7 else random.integers(3)
    return found


def write(path, symbols, names=None, second=None) -> None:
    columns = [np.array(names)[symbols] if names else symbols.astype(str)]
    columns += [] if second is None else [second]
    head = "sequence,o" + ("" if second is None else ",p")
    lines = [",".join([f"s{t // 20}", *map(str, row)]) for t, row in enumerate(zip(*columns, strict=True))]
    path.write_text("\n".join([head, *lines]) + "\n")


@pytest.fixture
def files(tmp_path):
    symbols = chain(400)
    write(tmp_path / "text.csv", symbols, NAMES)
    write(tmp_path / "codes.csv", symbols)
    return tmp_path


def test_symbols_of_text_and_their_codes_are_the_same_model(herd, files):
    line = ("--model", "hmm", "--emission", "categorical", "--components", "2")
    told = {name: herd("em", f"{name}.csv", *line, "-o", f"{name}.h5") for name in ("text", "codes")}
    assert [ended.code for ended in told.values()] == [0, 0]
    assert "em: text.csv: text columns read as states: o (3 levels)\n" in told["text"].err
    first, second = (load(str(files / f"{name}.h5")).value for name in ("text", "codes"))
    assert first.ledger.log_likelihood.tobytes() == second.ledger.log_likelihood.tobytes()
    figures = [json.loads(herd("eval", f"{name}.h5", "--format", "json").out)[0] for name in ("text", "codes")]
    assert all(figures[0][name] == figures[1][name] for name in ("log_likelihood", "gain", "bic", "verdict"))
    again = json.loads(herd("eval", "text.h5", "--data", "text.csv", "--format", "json").out)[0]
    assert (
        again["log_likelihood"] == json.loads(herd("eval", "codes.h5", "--data", "codes.csv", "--format", "json").out)[0]["log_likelihood"]
    )


def test_samples_and_paths_have_one_symbol_a_row_by_its_name(herd, files):
    assert herd("em", "text.csv", "--model", "hmm", "--emission", "categorical", "--components", "2", "-o", "m.h5").code == 0
    assert herd("sample", "m.h5", "-m", "3", "--length", "20", "-o", "drawn.csv").code == 0
    head, *rows = (files / "drawn.csv").read_text().splitlines()
    assert head == "o,sequence,y"
    assert {row.split(",")[0].strip('"') for row in rows} == set(NAMES)
    assert herd("apply", "m.h5", "text.csv", "-o", "paths.csv").code == 0
    given = (files / "text.csv").read_text().splitlines()[1:]
    made = (files / "paths.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0].strip('"') for row in made] == [row.split(",")[1] for row in given]
    ended = herd("apply", "m.h5", "drawn.csv", "--want", "smoothed", "-o", "states.csv")
    assert ended.code == 0, ended.err


def test_a_symbol_that_the_model_does_not_know_is_named(herd, files):
    assert herd("em", "text.csv", "--model", "hmm", "--emission", "categorical", "--components", "2", "-o", "m.h5").code == 0
    write(files / "new.csv", chain(20), ("A", "T", "G"))
    ended = herd("apply", "m.h5", "new.csv", "-o", "x.csv")
    assert ended.code == 65
    assert "'T' of column 'o'" in ended.err
    assert "is not one of its states: A, C, G" in ended.err


def test_columns_with_fewer_states_draw_their_own_alone(herd, files):
    """The table of a categorical model has as many symbols as the column with most of them."""
    write(files / "two.csv", chain(400), NAMES, np.where(np.arange(400) % 3 == 0, "yes", "no"))
    assert (
        herd("em", "two.csv", "--model", "hmm", "--emission", "categorical", "--components", "2", "--floor", "0.2", "-o", "m.h5").code == 0
    )
    assert herd("sample", "m.h5", "-m", "5", "--length", "50", "-o", "drawn.csv").code == 0
    rows = [row.replace('"', "").split(",") for row in (files / "drawn.csv").read_text().splitlines()[1:]]
    assert {row[0] for row in rows} == set(NAMES)
    assert {row[1] for row in rows} == {"no", "yes"}


def test_bits_are_columns_of_two_words(herd, files):
    write(files / "words.csv", chain(400) % 2, ("off", "on"))
    write(files / "bits.csv", chain(400) % 2)
    for name in ("words", "bits"):
        assert herd("em", f"{name}.csv", "--model", "hmm", "--emission", "bernoulli", "--components", "2", "-o", f"{name}.h5").code == 0
    words, bits = (load(str(files / f"{name}.h5")).value for name in ("words", "bits"))
    assert words.ledger.log_likelihood.tobytes() == bits.ledger.log_likelihood.tobytes()
    assert herd("sample", "words.h5", "-m", "1", "--length", "30", "-o", "drawn.csv").code == 0
    assert {row.split(",")[0].strip('"') for row in (files / "drawn.csv").read_text().splitlines()[1:]} == {"off", "on"}
    ended = herd("em", "text.csv", "--model", "hmm", "--emission", "bernoulli", "-o", "x.h5")
    assert ended.code == 65
    assert ended.err.endswith("column 'o' has 3 states, but --emission bits needs two\nhint: use --emission categorical\n")


def test_softmax_units_of_text_are_drawn_by_the_names_of_their_states(herd, tmp_path):
    """Two columns of three words each are two softmax units: rows that are drawn have one word a column, which the model reads again."""
    random = np.random.default_rng(0)
    first = random.integers(3, size=300)
    second = np.where(random.random(300) < 0.9, first, random.integers(3, size=300))
    words = ("low", "mid", "top")
    rows = [f"{NAMES[i]},{words[j]}" for i, j in zip(first, second, strict=True)]
    (tmp_path / "words.csv").write_text("\n".join(["o,p", *rows]) + "\n")
    fitted = herd("fit-rbm", "words.csv", "--visible-units", "softmax:3", "--hidden", "4", "--epochs", "60", "-o", "m.h5")
    assert fitted.code == 0, fitted.err
    assert herd("sample", "m.h5", "-m", "200", "-o", "drawn.csv").code == 0
    head, *drawn = (tmp_path / "drawn.csv").read_text().replace('"', "").splitlines()
    assert head == "o,p"
    pairs = [line.split(",") for line in drawn]
    assert {pair[0] for pair in pairs} == set(NAMES)
    assert {pair[1] for pair in pairs} == set(words)
    assert np.mean([NAMES.index(a) == words.index(b) for a, b in pairs]) > 0.6
    for line in (("apply", "m.h5", "drawn.csv", "-o", "f.csv"), ("eval", "m.h5", "--data", "drawn.csv")):
        ended = herd(*line)
        assert ended.code == 0, ended.err
    means = herd("sample", "m.h5", "-m", "3", "--means", "-o", "means.csv")
    assert means.code == 0
    assert (tmp_path / "means.csv").read_text().startswith("o=A,o=C,o=G,p=low,p=mid,p=top\n"), "means are of columns"


def test_columns_of_text_with_other_numbers_of_levels_are_named(herd, tmp_path):
    (tmp_path / "t.csv").write_text("u,v,w\n" + "".join(f"{'ab'[k % 2]},{'cde'[k % 3]},{'xyz'[k % 3]}\n" for k in range(30)))
    ended = herd("fit-rbm", "t.csv", "--visible-units", "softmax:3", "-o", "m.h5")
    assert ended.code == 65
    assert ended.err.endswith(
        "herd fit-rbm: t.csv: column 'u' has 2 levels, but the softmax:3 unit of this column has 3 states\n"
        "hint: use --visible-units softmax, which gives each text column a unit with as many states as it has levels\n"
    )
    assert herd("fit-rbm", "t.csv", "--visible-units", "softmax:3", "--columns", "v,w", "-o", "m.h5").code == 0
    ended = herd("fit-rbm", "t.csv", "--units", "softmax", "-o", "m.h5")
    assert ended.code == 2
    assert "'softmax' needs the number of states of a unit, as in softmax:3" in ended.err


def text_table(rows=300):
    """Three text columns of 3, 2 and 4 words, the second of which depends on the first; the last word of the third is rare."""
    random = np.random.default_rng(1)
    first = random.choice(["red", "green", "blue"], rows, p=[0.5, 0.3, 0.2])
    second = np.where(random.random(rows) < 0.9, np.where(first == "red", "yes", "no"), random.choice(["yes", "no"], rows))
    third = random.choice(["w", "x", "y"], rows)
    third[7] = third[-1] = "z"
    return [",".join(row) for row in zip(first, second, third, strict=True)]


def test_each_text_column_is_a_softmax_unit_with_its_own_states(herd, tmp_path):
    """The likelihood is that of all 24 rows, enumerated here from the stored weights; samples have one state of each column."""
    rows = text_table()
    (tmp_path / "t.csv").write_text("\n".join(["colour,answer,letter", *rows]) + "\n")
    fitted = herd("fit-rbm", "t.csv", "--visible-units", "softmax", "--hidden", "3", "--epochs", "60", "-o", "m.h5")
    assert fitted.code == 0, fitted.err
    model = load(str(tmp_path / "m.h5")).value
    assert model.visible_units == "softmax:3,2,4"
    levels = (("blue", "green", "red"), ("no", "yes"), ("w", "x", "y", "z"))
    W, b, c = (part[0].astype(np.float64) for part in (model.W, model.b, model.c))
    log_p = {}
    for state in itertools.product(*levels):
        v = np.concatenate([np.array([level == value for level in known], dtype=float) for known, value in zip(levels, state, strict=True)])
        log_p[",".join(state)] = v @ b + np.logaddexp(0, v @ W + c).sum()
    log_z = np.logaddexp.reduce(list(log_p.values()))
    expected = np.mean([log_p[row] - log_z for row in rows])
    judged = herd("eval", "m.h5", "--data", "t.csv", "--format", "json")
    assert judged.code == 0, judged.err
    figures = json.loads(judged.out)[0]
    assert figures["log_likelihood"] == pytest.approx(expected, abs=1e-6)
    counts = [np.unique(column, return_counts=True)[1] for column in zip(*(row.split(",") for row in rows), strict=True)]
    entropies = [float((n / n.sum()) @ np.log(n / n.sum())) for n in counts]
    assert figures["log_likelihood"] > sum(entropies) + 0.1, "the answer depends on the colour"
    assert herd("sample", "m.h5", "-m", "400", "-o", "drawn.csv").code == 0
    head, *drawn = (tmp_path / "drawn.csv").read_text().replace('"', "").splitlines()
    assert head == "colour,answer,letter"
    assert set(drawn) <= set(log_p)
    shares = (
        np.mean([line.startswith("red,yes") for line in drawn]),
        np.exp([p - log_z for row, p in log_p.items() if row.startswith("red,yes")]).sum(),
    )
    assert shares[0] == pytest.approx(shares[1], abs=4 * 0.5 / 20)
    assert herd("apply", "m.h5", "drawn.csv", "-o", "f.csv").code == 0
    pytest.importorskip("onnx")
    assert herd("convert", "m.h5", "-o", "m.onnx").code == 0


def test_empty_cells_are_completed_and_unknown_levels_refused(herd, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(["colour,answer,letter", *text_table()]) + "\n")
    assert herd("fit-rbm", "t.csv", "--visible-units", "softmax", "--hidden", "3", "--epochs", "60", "-o", "m.h5").code == 0
    (tmp_path / "gaps.csv").write_text("colour,answer,letter\nred,,x\n,no,w\n")
    assert herd("sample", "m.h5", "--given", "gaps.csv", "--count", "60", "-o", "drawn.csv").code == 0
    drawn = [line.split(",") for line in (tmp_path / "drawn.csv").read_text().replace('"', "").splitlines()[1:]]
    assert {(row[0], row[2]) for row in drawn[:60]} == {("red", "x")}
    assert np.mean([row[1] == "yes" for row in drawn[:60]]) > 0.7
    assert {(row[1], row[2]) for row in drawn[60:]} == {("no", "w")}
    assert np.mean([row[0] == "red" for row in drawn[60:]]) < 0.3
    (tmp_path / "new.csv").write_text("colour,answer,letter\nred,no,x\npurple,no,w\n")
    ended = herd("eval", "m.h5", "--data", "new.csv")
    assert ended.code == 65
    assert "'purple' of column 'colour' (1 row) is not one of its states: blue, green, red" in ended.err


def test_softmax_units_without_a_number_need_text_columns(herd, tmp_path):
    (tmp_path / "t.csv").write_text("u,size,w\n" + "".join(f"{'ab'[k % 2]},{k % 5},{'xyz'[k % 3]}\n" for k in range(30)))
    ended = herd("fit-rbm", "t.csv", "--visible-units", "softmax", "-o", "m.h5")
    assert ended.code == 65
    assert ended.err.endswith(
        "herd fit-rbm: t.csv: column 'size' holds numbers, but softmax units are for text columns\n"
        "hint: leave out numbers: --drop size; or use herd fit-mrf, which takes whole numbers as states\n"
    )
    assert herd("fit-rbm", "t.csv", "--visible-units", "softmax", "--drop", "size", "-o", "m.h5").code == 0
    (tmp_path / "n.csv").write_text("u,v\n" + "".join(f"{k % 2},{k % 5}\n" for k in range(30)))
    ended = herd("fit-rbm", "n.csv", "--visible-units", "softmax", "-o", "m.h5")
    assert ended.code == 65
    assert "has no text column with 2 to 50 levels, but softmax units without a number are for text columns" in ended.err


def test_ranges_of_columns_are_named(herd, tmp_path):
    (tmp_path / "t.csv").write_text("low,middle,high\n" + "".join(f"{k % 2},{k % 2},{k % 2}\n" for k in range(30)))
    ended = herd("fit-rbm", "t.csv", "--visible-units", "softmax:3", "-o", "m.h5")
    assert ended.code == 65
    assert "columns 'low' to 'high' of line 2 sum to 0: the 3 columns of each softmax:3 unit must be at least 0 and sum to 1" in ended.err
