"""`herd kernel-herd` as a process: tables in, samples out, the same bytes again, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import os

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.kernel_herd import inputs


@pytest.fixture
def table(tmp_path):
    """rows.csv: 150 rows of a, b, c, a site and a mass."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.standard_normal((150, 3)), random.integers(0, 3, 150), random.random(150)])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c,site,mass", comments="", fmt="%.6g")
    return tmp_path / "rows.csv"


def test_a_pipe_from_rows_to_figures(shell, digits):
    ended = shell("herd kernel-herd digits.h5 -m 30 | herd eval --format json")
    assert ended.code == 0
    figures = json.loads(ended.out)[0]
    assert figures["atoms"] == 30
    assert 0 < figures["mmd"] < 0.05


def test_same_input_same_bytes_whatever_the_threads(herd, tmp_path, table):
    for name, threads in (("a.h5", 1), ("b.h5", 1), ("c.h5", 3)):
        assert herd("kernel-herd", table, "-m", 12, "-j", threads, "-o", name).code == 0
    first = (tmp_path / "a.h5").read_bytes()
    assert (tmp_path / "b.h5").read_bytes() == first
    assert (tmp_path / "c.h5").read_bytes() == first


def test_groups_weights_and_tables(herd, tmp_path, table):
    ended = herd("kernel-herd", table, "-m", 4, "--by", "site", "--row-weight", "mass", "-o", "out.csv")
    assert ended.code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    source = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["group"] for row in rows] == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    for row in rows:
        taken = source[int(row["row"])]
        assert float(taken["site"]) == float(row["group"])
        assert [float(taken[name]) for name in "abc"] == [float(row[name]) for name in "abc"]
        assert float(row["weight"]) == 0.25


def test_labels_are_the_last_column_and_are_judged_with_the_rows(herd, tmp_path, table):
    """Atoms of three sites under a kernel on (x, y): shares of the sites, the kernel in the artifact, and the same MMD to the same rows."""
    assert herd("kernel-herd", table, "-m", 30, "--label", "site", "-o", "out.h5").code == 0
    value = artifacts.load(str(tmp_path / "out.h5")).value
    assert value.feature_names == ["a", "b", "c", "mass", "site"]
    assert value.kernel.endswith("&hamming")
    rows = np.genfromtxt(table, delimiter=",", names=True)
    np.testing.assert_array_equal(value.x[:, -1], rows["site"][value.index])
    shares = np.bincount(rows["site"].astype(int)) / 150
    np.testing.assert_allclose(np.bincount(value.x[:, -1].astype(int)) / 30, shares, atol=0.04)
    figures = json.loads(herd("eval", "out.h5", "--data", table, "--format", "json").out)[0]
    assert figures["target_mmd"] == pytest.approx(value.summary.mmd[0], abs=1e-12)


def test_extending_holds_the_same_arrays_as_one_run(herd, tmp_path, table):
    for rule in ("herding", "min-norm-point"):
        assert herd("kernel-herd", table, "-m", 6, "--rule", rule, "-o", "few.h5").code == 0
        assert herd("kernel-herd", table, "-m", 15, "--rule", rule, "--extend", "few.h5", "-o", "more.h5").code == 0
        assert herd("kernel-herd", table, "-m", 15, "--rule", rule, "-o", "whole.h5").code == 0
        with h5py.File(tmp_path / "more.h5") as more, h5py.File(tmp_path / "whole.h5") as whole:
            for name in ("index", "weight", "mmd", "gap", "x"):
                np.testing.assert_array_equal(more[name][:], whole[name][:])


def test_checkpoints_are_no_part_of_the_result(herd, tmp_path, table):
    assert herd("kernel-herd", table, "-m", 12, "--refine", 2, "-o", "plain.h5").code == 0
    options = ("--checkpoint", "c.h5", "--every", 3, "--resume")
    assert herd("kernel-herd", table, "-m", 12, "--refine", 2, *options, "-o", "kept.h5").code == 0
    assert (tmp_path / "plain.h5").read_bytes() == (tmp_path / "kept.h5").read_bytes()
    assert not (tmp_path / "c.h5").exists()
    assert herd("kernel-herd", table, "-m", 12, "--checkpoint", "c.h5", "--every", 3, "-o", "kept.csv").code == 0
    assert not (tmp_path / "c.h5").exists()


def test_files_that_options_name_are_recorded_as_files(herd, tmp_path, table):
    """Their content is among the inputs, and no path enters an artifact."""
    np.savetxt(tmp_path / "steps.csv", [[0.5], [0.25]], delimiter=",", header="rate", comments="")
    np.savetxt(tmp_path / "law.csv", [[0.0, 0.0, 1.0, 2.0]], delimiter=",", header="mean1,mean2,sd1,sd2", comments="")
    assert herd("kernel-herd", table, "-m", 3, "--rule", "step", "--step", "steps.csv", "--candidates", table, "-o", "a.h5").code == 0
    chosen = ("--candidates", "sample:50", "--rule", "step", "--step", "constant:0.5")
    assert herd("kernel-herd", "-m", 3, "--distribution", "gaussian:law.csv", *chosen, "-o", "b.h5").code == 0
    assert herd("kernel-herd", table, "-m", 5, "--rule", "step", "--step", "steps.csv", "--extend", "a.h5", "-o", "c.h5").code == 0
    records = [artifacts.load(str(tmp_path / name)).history[-1] for name in ("a.h5", "b.h5", "c.h5")]
    kept = [[record["parameters"][name] for name in ("rates", "candidates", "target", "extend")] for record in records]
    assert kept == [["file", "file", "rows", None], ["constant:0.5", "sample:50", "gaussian", None], ["file", None, "rows", "file"]]
    assert [item["role"] for item in records[0]["inputs"]] == ["data", "candidates", "step"]
    assert "simd" not in records[0]["parameters"]


def test_parquet_by_row_groups_equals_the_same_rows_in_memory(herd, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.random.default_rng(0).standard_normal((500, 3))
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=70)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    for name in ("rows.parquet", "rows.csv"):
        ended = herd("kernel-herd", name, "-m", 10, "--block-rows", 100, "--scale", "std", "-o", f"{name}.h5")
        assert ended.code == 0
        assert "to all rows" in ended.err
    with h5py.File(tmp_path / "rows.parquet.h5") as one, h5py.File(tmp_path / "rows.csv.h5") as other:
        np.testing.assert_array_equal(one["index"][:], other["index"][:])
        np.testing.assert_allclose(X[one["index"][:]], one["x"][:], atol=1e-12)


def test_closed_forms_need_no_input(herd, tmp_path):
    np.savetxt(tmp_path / "waves.csv", [[1.0, 0.3], [0.2, -0.7]], delimiter=",", header="a,b", comments="")
    made = ("--distribution", "trigonometric:waves.csv", "--kernel", "bernoulli:2")
    for extra in (("--candidates", "grid:256"), ("--rule", "sobol"), ("--candidates", "grid:32", "--polish")):
        assert herd("kernel-herd", "-m", 20, *made, *extra, "-o", "s.h5").code == 0
        ended = herd("eval", "s.h5", "--distribution", "trigonometric:waves.csv", "--format", "json")
        figures = json.loads(ended.out)[0]
        assert figures["target_mmd"] == pytest.approx(figures["mmd"], abs=1e-9)
        assert figures["mmd"] < 0.01


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_a_run_that_reaches_its_cap_ends_with_what_it_has(herd, tmp_path, rule):
    made = ("--distribution", "uniform", "--kernel", "bernoulli:2", "--candidates", "grid:16")
    ended = herd("kernel-herd", *made, "-m", 20, "--rule", rule, "-o", "x.h5")
    assert ended.code == 0
    assert "only 16 of 20 atoms were chosen: iterations ran out" in ended.err
    with h5py.File(tmp_path / "x.h5") as file:
        assert (len(file["index"]), file.attrs["ended"]) == (16, "cap")


def test_more_atoms_than_rows_are_told(herd, table):
    ended = herd("kernel-herd", table, "-m", 200, "-o", "x.h5")
    assert ended.code == 0
    assert "there are only 150 candidates for 200 atoms, so some are chosen more than once (-m 150 --unique " in ended.err
    assert "more than once" not in herd("kernel-herd", table, "-m", 150, "-o", "y.h5").err


def test_the_first_atom_of_rows_is_the_nearest_unless_zero_is_asked_for(herd, tmp_path, table):
    first = {}
    for init in ("nearest", "zero", ""):
        assert herd("kernel-herd", table, "-m", 3, *(("--init", init) if init else ()), "-o", f"{init}.h5").code == 0
        with h5py.File(tmp_path / f"{init}.h5") as file:
            first[init] = file["index"][0]
    assert first[""] == first["nearest"] != first["zero"] == 0


def test_the_norm_of_many_rows_is_estimated_and_told(herd, tmp_path, table):
    from herdcli.quadrature.targets import RowTarget, UniformTarget

    few, many = (RowTarget(np.zeros((n, 1)), np.ones(n)) for n in (10_000, 10_001))
    box = UniformTarget(np.zeros(1), np.ones(1))
    cases = [(None, few, 0), (None, many, 2000), (None, box, 0), ("exact", many, 0), ("sample:70", few, 70)]
    assert [inputs.norm_sample_size(text, target, few.X) for text, target, _ in cases] == [rows for *_, rows in cases]
    assert inputs.norm_sample_size(None, many, None) == 0
    ended = herd("kernel-herd", table, "-m", 9, "--candidates", table, "--norm", "sample:60", "-o", "x.h5")
    assert ended.code == 0
    assert "where the squared norm of the mean embedding is estimated; --norm exact computes it from all pairs of rows" in ended.err
    figures = json.loads(herd("eval", "x.h5", "--format", "json").out)[0]
    assert 0 < figures["mmd_error"] < 0.3
    assert f"MMD {figures['mmd']:.4g} ± {figures['mmd_error']:.2g}" in ended.err


@pytest.mark.skipif(os.environ.get("HERD_KERNELS") == "python", reason="compares both kernels; needs the compiled ones")
def test_instruction_sets_give_the_same_bytes_and_fma_is_recorded(shell, tmp_path, table):
    """Whatever the machine has; with the NumPy loops the same bytes too."""
    loops = pytest.importorskip("herdcli.fast._embedding")
    made = {}
    for name in [*loops.instruction_sets(), "python"]:
        chosen = "HERD_KERNELS=python" if name == "python" else f"HERD_KERNELS=cython HERD_SIMD={name}"
        ended = shell(f"{chosen} herd kernel-herd rows.csv -m 9 -o {name}.h5 && {chosen} herd --version -v")
        assert ended.code == 0
        assert ("(python kernels)" if name == "python" else f"(cython kernels, {name})") in str(ended.out)
        made[name] = (tmp_path / f"{name}.h5").read_bytes()
    fused = made.pop("avx2+fma", None)
    assert len(set(made.values())) == 1
    assert fused is None or (b"avx2+fma" in fused and fused not in made.values())
    refused = shell("HERD_KERNELS=cython HERD_SIMD=mmx herd kernel-herd rows.csv -m 9 -o x.h5")
    assert refused.code == 2
    assert "HERD_SIMD: this machine runs" in refused.err


REFUSED = {
    "no label": (("rows.csv", "-m", 2, "--label", "nosuch"), 2, "--label nosuch: there is no such column"),
    "label twice": (("rows.csv", "-m", 2, "--label", "site", "--by", "site"), 2, "--label does not work with --by site"),
    "label's kernel": (("rows.csv", "-m", 2, "--label", "site:nope"), 2, "'nope' is not a kernel"),
    "two labels": (
        ("rows.csv", "-m", 2, "--label", "site:gaussian", "--kernel", "gaussian&hamming"),
        2,
        "write KERNEL&KERNEL, the first for rows",
    ),
    "label of others": (("rows.csv", "-m", 2, "--label", "site", "--candidates", "one.csv"), 2, "--label does not work with --candidates"),
    "thinning others": (
        ["one.csv", "-m", 1, "--distribution", "uniform", "--rule", "kernel-thinning"],
        2,
        "chooses among the rows themselves, so it does not work with --distribution",
    ),
    "more than rows": (["rows.csv", "-m", 151, "--rule", "support-points"], 65, "151 atoms were requested, but there are only 150 rows"),
    "thinning on": (
        ["rows.csv", "-m", 5, "--rule", "compress++", "--extend", "few.h5"],
        2,
        "--rule compress++ cannot continue earlier samples",
    ),
    "unique halves": (["rows.csv", "-m", 5, "--rule", "compress++", "--unique"], 2, "--unique does not work with --rule compress++"),
    "any sign in blocks": (["rows.csv", "-m", 5, "--rule", "rpcholesky", "--block-rows", 50], 2, "weights that are not negative"),
    "candidates of facilities": (
        ["rows.csv", "-m", 5, "--rule", "facility-location", "--candidates", "one.csv"],
        2,
        "does not work with --candidates",
    ),
    "swaps of pivots": (["rows.csv", "-m", 5, "--rule", "rpcholesky", "--refine", 1], 2, "but --rule rpcholesky gives other weights"),
    "scores of facilities": (
        ["rows.csv", "-m", 5, "--rule", "facility-location", "--kernel", "stein:imq"],
        2,
        "a Stein kernel represents the distribution",
    ),
    "one row": (("one.csv", "-m", 2), 65, "one.csv: has only one row, but at least two are needed"),
    "equal rows": (("same.csv", "-m", 2), 65, "same.csv: all rows are equal, so the bandwidth would be 0"),
    "nan": (("nan.csv", "-m", 2), 65, "nan.csv: column 'b' has 1 missing value (first: line 3)"),
    "unique": (("rows.csv", "-m", 200, "--unique"), 65, "rows.csv: --unique needs 200 different atoms, but there are only 150 candidates"),
    "outside": (("rows.csv", "-m", 2, "--kernel", "bernoulli:1"), 65, "but the bernoulli kernel is defined only there"),
    "indefinite": (("rows.csv", "-m", 2, "--kernel", "gaussian:1+-1*gaussian:0.2"), 65, "is indefinite on these rows"),
    "memory": (("rows.csv", "-m", 2, "--max-memory", "1M"), 65, "more than the 1 MB allowed"),
    "norm": (("rows.csv", "-m", 2, "--norm", "sample:1"), 2, "is neither 'exact' nor sample:N with N above 1"),
    "kernel": (("rows.csv", "-m", 2, "--kernel", "gausian"), 2, "'gausian' is not a kernel"),
    "target": (("rows.csv", "-m", 2, "--distribution", "gauss"), 2, "--distribution 'gauss' is not a target"),
    "no closed form": (
        ("-m", 2, "--distribution", "uniform", "--candidates", "grid:9", "--kernel", "hamming"),
        2,
        "no closed form is known",
    ),
    "steps": (("rows.csv", "-m", 2, "--rule", "step"), 2, "--rule step needs step sizes"),
    "swaps": (("rows.csv", "-m", 2, "--rule", "away", "--refine", 1), 2, "needs atoms of equal weight"),
    "cube": (
        ("-m", 2, "--distribution", "moments:means.csv", "--candidates", "cube:21", "--kernel", "features:x"),
        2,
        "D must be from 1 to 20",
    ),
    "columns": (
        ("-m", 2, "--distribution", "moments:means.csv", "--candidates", "cube:3", "--kernel", "features:x"),
        65,
        "candidates have 3 columns",
    ),
    "group": (("rows.csv", "-m", 2, "--by", "nosuch"), 2, "nosuch"),
    "weight": (("rows.csv", "-m", 2, "--row-weight", "nosuch"), 2, "there is no such column"),
    "zero": (("rows.csv", "-m", 0), 2, "0 is not in the range"),
    "bandwidth": (("rows.csv", "-m", 2, "--bandwidth", 0), 2, "neither 'median' nor a number above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_and_leave_nothing(herd, tmp_path, table, case):
    for name, lines in {"one": ["1,2"], "same": ["1,2"] * 4, "nan": ["1,2", "3,", "4,5"], "means": ["0.1,0.2"]}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b", *lines, ""]))
    arguments, code, message = REFUSED[case]
    ended = herd("kernel-herd", *arguments, "-o", "out.h5")
    assert ended.code == code
    assert message in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("herd kernel-herd:")]) == 1
    assert not (tmp_path / "out.h5").exists()


def test_equal_rows_can_be_herded_with_a_bandwidth(herd, tmp_path):
    (tmp_path / "same.csv").write_text("a,b\n1,2\n1,2\n1,2\n")
    assert herd("kernel-herd", "same.csv", "-m", 5, "--bandwidth", 1, "-o", "out.csv").code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [row["row"] for row in rows] == ["0"] * 5


def test_a_sealed_set_is_grouped_by_the_column_that_is_named(herd, tmp_path):
    random = np.random.default_rng(0)
    table = np.column_stack([random.normal(size=(60, 2)), np.repeat([0, 1, 2], 20), np.tile([0, 1], 30)])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,site,y", comments="", fmt="%g")
    assert herd("convert", "rows.csv", "-o", "rows.h5").code == 0
    for by, groups, columns in (("site", 3, ["a", "b"]), ("y", 2, ["a", "b", "site"])):
        assert herd("kernel-herd", "rows.h5", "-m", "2", "--by", by, "-o", "out.h5").code == 0
        value = artifacts.load(str(tmp_path / "out.h5")).value
        assert (len(value.x), value.feature_names) == (2 * groups, columns)
    ended = herd("kernel-herd", "rows.h5", "-m", "2", "--by", "nosuch", "-o", "none.h5")
    assert (ended.code, ended.err.splitlines()[-2:]) == (
        2,
        ["herd kernel-herd: rows.h5: --by nosuch: there is no such column", "hint: columns: a, b, site"],
    )
    assert not (tmp_path / "none.h5").exists()


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("herding", ()),
        ("kernel-thinning", ()),
        ("herding", ("--by", "g")),
        ("herding", ("--candidates", "rows.csv", "--drop", "g")),
        ("min-norm-point", ("--candidates", "rows.csv", "--drop", "g")),
    ],
)
def test_atoms_of_scaled_columns_are_rows_of_the_input_bit_for_bit(herd, tmp_path, rule, options):
    rows = np.random.default_rng(3).normal(size=(200, 3)).round(5) * [1.0, 7.0, 1e-3]
    for name, table, header in (("x.csv", np.column_stack([rows, np.arange(200) % 2]), "a,b,c,g"), ("rows.csv", rows, "a,b,c")):
        np.savetxt(tmp_path / name, table, delimiter=",", header=header, comments="", fmt="%.17g")
    done = herd("kernel-herd", "x.csv", "-m", 40, "--rule", rule, "--scale", "std", *options, "-o", "atoms.csv")
    assert done.code == 0, done.err
    chosen = list(csv.DictReader((tmp_path / "atoms.csv").read_text().splitlines()))
    found = np.array([[float(row[name]) for name in "abc"] for row in chosen])
    np.testing.assert_array_equal(found, rows[[int(row["row"]) for row in chosen]])
