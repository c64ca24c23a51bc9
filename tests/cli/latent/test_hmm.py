"""`herd em --model hmm` and what follows it, as processes: files, wants, networks, bytes and messages."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.em.sequence.sequences import group_rows_into_sequences

COUNTS = 40  # sequences


def steps(seed=0):
    """Two states that like to stay, one low and one high; sequences of 8 to 15 steps with the states as y."""
    random = np.random.default_rng(seed)
    made = []
    for s in range(COUNTS):
        state = int(random.integers(2))
        for _ in range(int(random.integers(8, 16))):
            made.append(
                [f"s{s:02}", *np.round(random.normal(size=2) + np.array([6, -1]) * state, 4), int(random.poisson(2 + 9 * state)), state]
            )
            state = state if random.random() < 0.8 else 1 - state
    return made


@pytest.fixture
def rows(tmp_path):
    made = steps()
    for name, columns in (("rows.csv", (0, 1, 2, 4)), ("counts.csv", (0, 3))):
        with open(tmp_path / name, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow([["sequence", "u", "v", "count", "y"][j] for j in columns])
            out.writerows([[row[j] for j in columns] for row in made])
    return made


def figures(herd, *arguments):
    done = herd("eval", *arguments, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)[0]


def test_without_options_the_states_are_found_by_bic(herd, rows, tmp_path):
    done = herd("em", "rows.csv", "--label", "y", "--model", "hmm", "-o", "m.h5")
    assert done.code == 0, done.err
    assert "40 sequences of 8 to 15 steps, one for each value of the column 'sequence'" in done.err
    assert "2 states (best of 4 tried)" in done.err
    found = figures(herd, "m.h5", "--require", "rise<1e-9")
    assert found["states"] == 2
    assert found["adjusted_rand"] > 0.95
    assert found["log_likelihood"] > max(found["log_likelihood_mixture"], found["log_likelihood_baseline"])
    assert found["verdict"] == "ok"
    model = load(str(tmp_path / "m.h5")).value
    assert np.diag(model.transition) == pytest.approx([0.8, 0.8], abs=0.08)
    assert model.known.sizes.tolist() == [1, 2, 3, 4]
    assert model.held.sequences.count == 8


def test_apply_gives_states_probabilities_and_paths(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    model = load(str(tmp_path / "m.h5")).value
    data = load(str(tmp_path / "rows.csv"), keep=["sequence"]).value
    own = group_rows_into_sequences(data.X, data.columns["sequence"])
    for want in ("smoothed", "filtered", "predicted"):
        assert herd("apply", "m.h5", "rows.csv", "--want", want, "-o", f"{want}.h5").code == 0
        found = load(str(tmp_path / f"{want}.h5")).value
        assert np.array_equal(found.X, model.infer_states(own, want))
        assert found.feature_names == ["state1", "state2"]
        assert found.X.sum(axis=1) == pytest.approx(np.ones(len(rows)))
        assert found.columns["sequence"].tolist() == [row[0] for row in rows]
    assert herd("apply", "m.h5", "rows.csv", "-o", "states.csv").code == 0
    with open(tmp_path / "states.csv") as file:
        likeliest = np.array([int(row["y"]) for row in csv.DictReader(file)])
    assert max(np.mean(likeliest == [row[4] for row in rows]), np.mean(likeliest != [row[4] for row in rows])) > 0.95
    assert herd("apply", "m.h5", "rows.csv", "--want", "paths:300", "--seed", "5", "-o", "paths.h5").code == 0
    paths, smoothed = load(str(tmp_path / "paths.h5")).value, load(str(tmp_path / "smoothed.h5")).value
    assert paths.X.shape == (len(rows), 300)
    assert np.abs((paths.X == 1).mean(axis=1) - smoothed.X[:, 1]).max() < 5 * 0.5 / np.sqrt(300)


def test_rows_with_gaps_have_likeliest_states_too(herd, rows, tmp_path):
    """What is written beside the states are the rows as they came: gaps stay gaps."""
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    name, _, *rest = lines[5].split(",")
    (tmp_path / "gaps.csv").write_text("\n".join([*lines[:5], ",".join([name, "", *rest]), *lines[6:]]) + "\n")
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", 2, "-q", "-o", "m.h5").code == 0
    done = herd("apply", "m.h5", "gaps.csv", "-q", "-o", "states.csv")
    assert (done.code, done.err) == (0, "")
    assert herd("apply", "m.h5", "rows.csv", "-q", "-o", "whole.csv").code == 0
    gaps, whole = (list(csv.DictReader((tmp_path / name).open())) for name in ("states.csv", "whole.csv"))
    assert [row["y"] for row in gaps] == [row["y"] for row in whole]
    assert [j for j, row in enumerate(gaps) if row["u"] in ("", "nan")] == [4]


def test_rows_in_another_order_of_sequences_have_the_same_states(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    mixed = sorted(range(len(rows)), key=lambda n: (rows[:n].count(rows[n]) + sum(row[0] == rows[n][0] for row in rows[:n]), rows[n][0]))
    (tmp_path / "mixed.csv").write_text("\n".join([lines[0], *(lines[1 + n] for n in mixed)]) + "\n")
    for name in ("rows", "mixed"):
        assert herd("apply", "m.h5", f"{name}.csv", "--want", "smoothed", "-o", f"{name}.out.h5").code == 0
    first, second = (load(str(tmp_path / f"{name}.out.h5")).value.X for name in ("rows", "mixed"))
    assert np.array_equal(first[mixed], second)


@pytest.mark.parametrize("emission", ["categorical", "poisson", "gmm"])
def test_other_emissions(herd, rows, emission, tmp_path):
    source = "rows.csv" if emission == "gmm" else "counts.csv"
    done = herd("em", source, "--model", "hmm", "--emission", emission, "--components", "2", "-o", "m.h5")
    assert done.code == 0, done.err
    found = figures(herd, "m.h5")
    assert found["rise"] < 1e-9
    assert found["log_likelihood"] > found["log_likelihood_mixture"]


def test_marginals_of_the_network_are_the_smoothed_states(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "3", "--starts", "2", "-o", "m.h5").code == 0
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join(lines[:40]) + "\n")
    assert herd("network", "from-hmm", "m.h5", "--observations", "few.csv", "-o", "net.h5").code == 0
    done = herd("ups-infer", "net.h5", "--algorithm", "junction-tree", "-o", "b.h5")
    assert done.code == 0, done.err
    assert herd("apply", "m.h5", "few.csv", "--want", "smoothed", "-o", "p.h5").code == 0
    beliefs, smoothed, model = (load(str(tmp_path / name)).value for name in ("b.h5", "p.h5", "m.h5"))
    assert np.array(beliefs.marginals()) == pytest.approx(smoothed.X, abs=1e-12)
    data = load(str(tmp_path / "few.csv"), keep=["sequence"]).value
    own = group_rows_into_sequences(data.X, data.columns["sequence"])
    assert beliefs.log_z == pytest.approx(model.log_likelihood(own) * len(smoothed.X), abs=1e-9)
    assert beliefs.names[:2] == ["s00.0", "s00.1"]


def test_new_sequences_are_like_those_learned_from(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    assert herd("sample", "m.h5", "-m", "300", "--length", "20", "-o", "new.h5").code == 0
    assert herd("sample", "m.h5", "-m", "2", "--length", "20", "-o", "two.h5").code == 0
    found, two, model = (load(str(tmp_path / name)).value for name in ("new.h5", "two.h5", "m.h5"))
    assert found.X.shape == (6000, 2)
    assert np.array_equal(found.X[:40], two.X)  # a sequence depends on its number alone
    for k in range(2):
        assert found.X[found.y == k].mean(axis=0) == pytest.approx(model.emissions.mean[k, 0], abs=0.1)
    inner = np.arange(6000) % 20 > 0
    counts = np.zeros((2, 2))
    np.add.at(counts, (found.y[:-1][inner[1:]], found.y[1:][inner[1:]]), 1)
    assert counts / counts.sum(axis=1, keepdims=True) == pytest.approx(model.transition, abs=0.03)
    assert herd("apply", "m.h5", "new.h5", "--want", "smoothed", "-o", "p.h5").code == 0


def test_threads_do_not_change_a_byte_and_a_run_goes_on(herd, rows, tmp_path):
    line = ("em", "rows.csv", "--model", "hmm", "--components", "2", "--iterations", "6", "--tolerance", "0")
    one, two = herd(*line, "--threads", "1"), herd(*line, "--threads", "2")
    assert one.code == two.code == 0
    assert one.out == two.out
    assert herd(*line, "--checkpoint", "c", "--every", "1", "-o", "m.h5").code == 0
    assert (tmp_path / "m.h5").read_bytes() == one.out


def test_a_start_from_a_model_goes_on_where_it_ended(herd, rows, tmp_path):
    """To the bit, whatever the shares that were learned sum to: here those of one state's transitions sum to 1 - 1.1e-16."""
    line = ("em", "rows.csv", "--label", "y", "--model", "hmm", "--tolerance", "0", "--patience", "99")
    assert herd(*line, "--components", "2", "--iterations", "3", "-o", "a.h5").code == 0
    assert herd(*line, "--init", "a.h5", "--iterations", "3", "-o", "b.h5").code == 0
    assert herd(*line, "--components", "2", "--iterations", "6", "-o", "c.h5").code == 0
    b, c = (load(str(tmp_path / name)).value for name in ("b.h5", "c.h5"))
    assert {name: p.tobytes() for name, p in b.parameters.items()} == {name: p.tobytes() for name, p in c.parameters.items()}
    done = herd(*line, "--init", "a.h5", "--emission", "poisson")
    assert (done.code, "and counts are whole numbers from 0" in done.err) == (65, True)


def test_one_state_whose_columns_depend_is_not_advised_fewer(herd, tmp_path):
    random = np.random.default_rng(2).normal(size=60)
    np.savetxt(tmp_path / "twice.csv", np.stack([random, 2 * random], axis=1), delimiter=",", header="a,b", comments="")
    ended = herd("em", "twice.csv", "--model", "hmm", "--components", "1", "-o", "m.h5")
    assert (ended.code, "raised to the floor of its column: columns 'a' and 'b' depend on each other\n" in ended.err) == (0, True), (
        ended.err
    )
    assert "fewer --components" not in ended.err


def test_masks_from_a_file_and_by_name(herd, rows, tmp_path):
    (tmp_path / "mask.csv").write_text("a,b,c\n1,1,0\n0,1,1\n1,0,1\n")
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--transitions", "mask.csv", "-o", "m.h5").code == 0
    model = load(str(tmp_path / "m.h5")).value
    assert model.transition[[0, 1, 2], [2, 0, 1]].tolist() == [0.0, 0.0, 0.0]
    assert model.free_parameters == 2 + 3 + 3 * 5
    done = herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "4", "--transitions", "mask.csv")
    assert (done.code, "the transition matrix is 3 × 3, expected 4 × 4" in done.err) == (65, True)
    done = herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "2", "--transitions", "banded")
    assert (done.code, "'banded' is not a transition structure" in done.err) == (2, True)


def test_a_state_for_each_class(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--model", "hmm", "--per-class", "-o", "m.h5").code == 0
    found = figures(herd, "m.h5")
    assert found["error"] < 0.05
    assert herd("apply", "m.h5", "rows.csv", "-o", "s.h5").code == 0
    assert load(str(tmp_path / "s.h5")).value.class_names == ["0", "1"]


def test_pictures(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    for name in ("transitions", "ledger"):
        assert herd("eval", "m.h5", "--plot", name, f"{name}.png").code == 0
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_messages(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    (tmp_path / "one.csv").write_text("u\n" + "\n".join("0123456789" * 3) + "\n")
    (tmp_path / "apart.csv").write_text("sequence,u\n" + "".join(f"{n},{n % 7}\n" for n in range(30)))
    for line, code, message in (
        (("em", "rows.csv", "--model", "hmm", "--emission", "poisson"), 65, "and counts are whole numbers from 0"),
        (("em", "rows.csv", "--model", "hmm", "--criterion", "icl"), 2, "--criterion icl is for mixtures"),
        (("em", "rows.csv", "--model", "hmm", "--sequence", "night"), 2, "has no extra column 'night'"),
        (("em", "rows.csv", "--model", "hmm", "--on-disk"), 2, "--on-disk works with rows, not with sequences"),
        (("em", "rows.csv", "--model", "gmm", "--transitions", "full", "-o", "g.h5"), 0, "--transitions has no effect with --model gmm"),
        (
            ("em", "one.csv", "--model", "hmm", "--components", "2", "-o", "o.h5"),
            0,
            "there is only one sequence, so the initial state probabilities are estimated",
        ),
        (
            ("em", "apart.csv", "--model", "hmm", "--components", "2", "-o", "a.h5"),
            0,
            "no sequence has a second row, so the",
        ),
        (("apply", "m.h5", "rows.csv", "--want", "clusters"), 2, "--want clusters is not available for kind hmm"),
        (("apply", "m.h5", "one.csv"), 65, "one.csv: lacks"),
        (("apply", "g.h5", "rows.csv", "--want", "paths:3"), 2, "--want paths:3 is for models of sequences, not for a mixture"),
        (("apply", "m.h5", "rows.csv", "--want", "paths:N"), 2, "needs a number, as in paths:100"),
        (("network", "from-hmm", "m.h5"), 2, "from-hmm needs an observed sequence"),
    ):
        done = herd(*line)
        assert (done.code, message in done.err) == (code, True), done.err


def test_an_unknown_symbol_is_one_line(herd, rows, tmp_path):
    assert herd("em", "counts.csv", "--model", "hmm", "--emission", "categorical", "--components", "2", "-o", "m.h5").code == 0
    (tmp_path / "new.csv").write_text("sequence,count\na,1\na,977\n")
    done = herd("apply", "m.h5", "new.csv")
    assert done.code == 65
    assert "has the symbol 977, which the model does not know" in done.err


def test_other_sequences_judge_by_name(herd, rows, tmp_path):
    """The sequences held out by the file's own splits, handed over again; then others, whose columns stand in another order."""
    names = list(dict.fromkeys(row[0] for row in rows))
    part = {name: "train" if i < 24 else "valid" if i < 28 else "test" for i, name in enumerate(names)}
    write(tmp_path / "split.csv", ["sequence", "u", "v", "y", "split"], [[*(row[j] for j in (0, 1, 2, 4)), part[row[0]]] for row in rows])
    done = herd("em", "split.csv", "--label", "y", "--split-column", "split", "--model", "hmm", "--components", "2", "-o", "m.h5")
    assert done.code == 0, done.err
    own, again = figures(herd, "m.h5"), figures(herd, "m.h5", "--data", "split.csv")
    assert {name: own[name] for name in own if name != "file"} == {name: again[name] for name in again if name != "file"}
    test = [row for row in rows if part[row[0]] == "test"]
    write(
        tmp_path / "moved.csv", ["v", "y", "extra", "sequence", "u"], [[row[2], row[4], 0, row[0], row[1]] for row in reversed(test)][::-1]
    )
    moved = figures(herd, "m.h5", "--data", "moved.csv")
    for name in ("log_likelihood", "log_likelihood_mixture", "log_likelihood_baseline"):
        assert moved[name] == pytest.approx(own[name], rel=1e-9)
    assert moved["adjusted_rand"] == own["adjusted_rand"]
    noise = np.random.default_rng(5).normal(size=(60, 2)) * 20
    write(tmp_path / "noise.csv", ["u", "v"], noise.tolist())
    assert figures(herd, "m.h5", "--data", "noise.csv")["log_likelihood"] < own["log_likelihood"] - 5


def test_a_file_without_the_columns_of_the_model_judges_nothing(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "y", "--model", "hmm", "--components", "2", "-o", "m.h5").code == 0
    write(tmp_path / "short.csv", ["u", "w"], [[1, 2], [3, 4]])
    done = herd("eval", "m.h5", "--data", "short.csv")
    assert done.code == 65
    assert done.err.endswith(
        "herd eval: short.csv: lacks column v that the model needs; it has w, unknown to the model\nhint: columns are matched by name: "
        "rename or add them\n"
    )
    write(tmp_path / "train.csv", ["u", "v", "split"], [[1, 2, "train"], [3, 4, "train"]])
    done = herd("eval", "m.h5", "--data", "train.csv")
    assert done.code == 65
    assert done.err.endswith("herd eval: train.csv: has no test rows to evaluate on\n")


def write(path, names, made):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *made])


@pytest.mark.parametrize("model", ["hmm", "lds"])
def test_models_in_time_without_rows_to_judge_by_say_so(herd, tmp_path, model):
    (tmp_path / "few.csv").write_text("a\n1\n2\n1.5\n")
    assert herd("em", "few.csv", "--model", model, "--components", "1", "-q", "-o", "m.h5").code == 0
    head, row = (line.split("\t") for line in herd("eval", "m.h5").out.decode().splitlines())
    assert dict(zip(head, row, strict=True))["verdict"] in ("no test rows", "unstable")
