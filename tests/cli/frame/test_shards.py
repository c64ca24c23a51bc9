"""--shard and herd merge: the bytes of the unsharded run from any division, and every way in which shards do not fit together."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.markov.exact import evidence_batch

CLASSES = 4
FIT = ["fit-rbm", "rows.h5", "--per-class", "--hidden", "4", "--epochs", "2", "--batch-size", "3"]
HERD = ["herd", "rows.h5", "--per-class", "--hidden", "5", "--iterations", "12"]
ATOMS = ["kernel-herd", "rows.h5", "--by", "y", "-m", "4"]
STARTS = ["ups-infer", "grid.h5", "--algorithm", "bp", "--schedule", "sequential", "--restarts", "3", "--iterations", "40"]
EVIDENCE = ["ups-infer", "grid.h5", "--evidence-rows", "evidence.csv"]

# name: the command, units of work in it, the suffix of the whole
RUNS = {
    "models": (FIT, CLASSES, "h5"),
    "runs": (HERD, CLASSES, "h5"),
    "groups": (ATOMS, CLASSES, "h5"),
    "starts": (STARTS, CLASSES, "h5"),
    "blocks of rows": (EVIDENCE, CLASSES, "h5"),
}
HERDED = ["kernel-herd", "rows.h5", "-m", "4", "--block-rows", "15", "--block-atoms", "6"]
TRAINED = ["nherd-train", "rows.h5", "--parts", "4"]
VARIANTS = {
    "parts of rows": (TRAINED, CLASSES, "h5"),
    "parts of shuffled rows": ([*TRAINED, "--shuffle", "--passes", "2", "--covariance", "full", "--split", ".5,.2,.3"], CLASSES, "h5"),
    "parts of given settings": ([*TRAINED, "--algorithm", "pa1", "--C", "1", "--label-noise", ".1"], CLASSES, "h5"),
    "herded blocks": (HERDED, CLASSES, "h5"),
    "sketched blocks": ([*HERDED[:-2], "--embedding", "nystrom:9"], CLASSES, "h5"),
    "herded blocks as a table": ([*HERDED, "--rule", "line-search", "--weights", "simplex"], CLASSES, "csv"),
    "models of folds": ([*FIT, "--folds", "2"], 3 * CLASSES, "h5"),
    "averaged energies": ([*FIT, "--average-scores", "3"], CLASSES, "h5"),
    "persistent chains, as many as the largest class": ([*FIT, "--algorithm", "fpcd", "--batch-size", "all"], CLASSES, "h5"),
    "gaussian models": ([*FIT, "--visible-units", "gaussian", "--standardize", "--centering"], CLASSES, "h5"),
    "runs from the best row": ([*HERD, "--variant", "safe", "--hidden-bias", "full", "--score-training"], CLASSES, "h5"),
    "visible runs": ([*HERD, "--model", "mrf", "--features", "x,xx"], CLASSES, "h5"),
    "runs without data": (["herd", "--rates", "herded.h5", "--iterations", "9"], CLASSES, "h5"),
    "groups as a table": ([*ATOMS, "--rule", "random", "--weights", "simplex"], CLASSES, "csv"),
    "groups as Parquet": ([*ATOMS, "--rule", "line-search", "--unique"], CLASSES, "parquet"),
    "groups that end early": ([*ATOMS, "-m", "30", "--rule", "min-norm-point", "--trace-projected"], CLASSES, "h5"),
    "groups thinned": ([*ATOMS, "-m", "4", "--rule", "compress++"], CLASSES, "h5"),
    "groups of pivots": ([*ATOMS, "--rule", "rpcholesky"], CLASSES, "h5"),
    "groups swapped": ([*ATOMS, "--refine", "2", "--no-state"], CLASSES, "h5"),
    "groups that go on": ([*ATOMS, "-m", "6", "--extend", "atoms.h5"], CLASSES, "h5"),
    "one group": (["kernel-herd", "one.h5", "--by", "y", "-m", "3", "--kernel", "features:x"], 1, "h5"),
    "starts under evidence": ([*STARTS, "--evidence", "evidence.txt", "--linear-response"], CLASSES, "mar"),
    "blocks of rows as a table": (EVIDENCE, CLASSES, "csv"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_plain):
    """A folder with rows.h5 one.h5 of one, other.h5 of those renamed, grid.h5, evidence, herded.h5, atoms.h5."""
    folder, random = tmp_path_factory.mktemp("made"), np.random.default_rng(3)
    y = np.repeat(np.arange(CLASSES), [12, 19, 12, 14])
    on = (random.random((CLASSES, 9)) < 0.5)[y] ^ (random.random((len(y), 9)) < 0.2)
    split = np.concatenate([np.arange(count) % 4 % 3 for count in np.bincount(y)])
    for name, labels in (("rows.h5", y), ("one.h5", y * 0), ("other.h5", CLASSES - 1 - y)):
        with h5py.File(folder / name, "w") as file:
            file["X"], file["y"], file["split"] = on.astype(np.uint8), labels, split.astype(np.uint8)
    rows = "\n".join(",".join(map(str, row)) for row in random.integers(-1, 2, (7, 3)))
    (folder / "evidence.csv").write_text(f"x0,x4,x8\n{rows}\n")
    (folder / "evidence.txt").write_text("x3=1\n")
    run_plain(folder, "network", "grid", "--grid-rows", 3, "--grid-columns", 3, "--sigma-w", 3, "-o", "grid.h5")
    run_plain(folder, *HERD, "-o", "herded.h5")
    run_plain(folder, *ATOMS, "-o", "atoms.h5")
    return folder


@pytest.fixture
def inputs(made, tmp_path, monkeypatch):
    """The same in tmp_path; blocks of two rows of evidence; no waiting for the disk."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(evidence_batch, "BLOCK", 160)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return tmp_path


@pytest.fixture
def shards(run, inputs):
    """shards(line, n) makes s1.h5 … sn.h5 and returns their names."""

    def make(line: list[str], count: int, name: str = "s") -> list[str]:
        names = [f"{name}{index}.h5" for index in range(1, count + 1)]
        for index, output in enumerate(names, 1):
            ended = run(*line, "--shard", f"{index}/{count}", "-o", output)
            assert ended.code == 0, ended.err
        return names

    return make


@pytest.mark.parametrize("name", [*RUNS, *VARIANTS])
def test_merged_shards_are_the_bytes_of_one_run(run, inputs, shards, name):
    line, units, suffix = (RUNS | VARIANTS)[name]
    whole = inputs / f"whole.{suffix}"
    assert run(*line, "-o", whole).code == 0
    for count in (1, 2, 3, units + 1) if name in RUNS else (3,):
        names = shards(line, count)
        merged = run("merge", *reversed(names), "-o", f"merged.{suffix}")
        assert merged.code == 0, merged.err
        assert (inputs / f"merged.{suffix}").read_bytes() == whole.read_bytes(), count
    sizes = [len(artifacts.load(str(inputs / shard)).value.parts) for shard in names]
    assert sizes == [len(range(index, units, count)) for index in range(count)]


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_shard_resumes_to_the_same_bytes_and_is_no_other_s(run, inputs, monkeypatch, name):
    line, n = [*RUNS[name][0], "--shard"], CLASSES if name == "starts" else 2  # of starts one, which alone has a checkpoint
    saving = ["--checkpoint", "state", "--every", "1"]
    monkeypatch.setattr("herdcli.herding.problem.BLOCK_WORK", 1.0)  # one iteration a step
    assert run(*line, f"1/{n}", "-o", "whole.h5").code == 0
    save, saved = artifacts.save_checkpoint, []

    def save_and_die(*arguments):
        save(*arguments)
        saved.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(artifacts, "save_checkpoint", save_and_die)
    assert run(*line, f"1/{n}", *saving, "-o", "killed.h5").code == 130
    assert saved
    assert not (inputs / "killed.h5").exists()
    monkeypatch.setattr(artifacts, "save_checkpoint", save)

    other = run(*line, f"2/{n}", *saving, "--resume", "-o", "other.h5")
    assert (other.code, other.err.splitlines()[-2:]) == (
        2,
        [
            f"herd {line[0]}: state: the checkpoint belongs to --shard 1/{n}, but this is --shard 2/{n}",
            "hint: give each shard its own checkpoint, for example --checkpoint run-2.state with --shard 2/4",
        ],
    )
    undivided = run(*line[:-1], *saving, "--resume", "-o", "other.h5")
    assert undivided.code == 2
    if name != "starts":
        assert f"state: the checkpoint belongs to --shard 1/{n}, but this is a run without --shard" in undivided.err

    resumed = run(*line, f"1/{n}", *saving, "--resume", "-o", "killed.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step" in resumed.err
    assert (inputs / "killed.h5").read_bytes() == (inputs / "whole.h5").read_bytes()
    assert not (inputs / "state").exists()


def test_threads_do_not_matter_in_a_shard(run, inputs):
    outputs = []
    for threads in (1, 2):
        assert run(*FIT, "--shard", "1/2", "-j", threads, "-o", f"{threads}.h5").code == 0
        outputs.append((inputs / f"{threads}.h5").read_bytes())
    assert outputs[0] == outputs[1]


def test_shards_go_through_pipes(herd, made, tmp_path):
    rows = (made / "rows.h5").read_bytes()
    line = ["fit-rbm", *FIT[2:], "-q"]
    whole, first, second = (herd(*line, *more, stdin=rows) for more in ((), ("--shard", "1/2"), ("--shard", "2/2")))
    assert [each.code for each in (whole, first, second)] == [0, 0, 0], first.err
    (tmp_path / "first.h5").write_bytes(first.out)
    merged = herd("merge", "-q", "first.h5", "-", stdin=second.out)
    assert (merged.code, merged.err) == (0, "")
    assert merged.out == whole.out


def test_what_is_said_of_shards(run, inputs):
    assert "fit-rbm: shard 2 of 3: 1 of 4 models, " in run(*FIT, "--shard", "2/3", "-o", "2.h5").err
    assert run("check", "2.h5").err == ""
    told = run("info", "2.h5").out
    assert told.startswith("2.h5: rbm-shard, ")
    assert "  place/index " in told
    assert "shard" not in told.splitlines()[-1]  # the record is that of the whole run
    empty = run(*FIT, "--shard", "5/6", "-o", "5.h5")
    assert empty.code == 0
    notes = [line for line in empty.err.splitlines() if "are constant in" not in line]
    assert notes[0] == "fit-rbm: shard 5 of 6 has nothing to do, because there are only 4 models"
    assert notes[1].startswith("fit-rbm: shard 5 of 6: 0 of 4 models, ")
    planned = run(*FIT, "--shard", "5/6", "--dry-run")
    assert (planned.code, planned.out) == (0, "")
    assert run(*FIT, "--shard", "2/3", "--dry-run").out.startswith("learning by rpcd: ")


ONE = "--shard divides a run into its parts, but this run has only one part"
WRONG = {
    "of none": ([*FIT, "--shard", "0/4"], "Invalid value for '--shard': '0/4' is not of the form I/N with 1 ≤ I ≤ N, as 2/4"),
    "beyond the last": ([*FIT, "--shard", "5/4"], "Invalid value for '--shard': '5/4' is not of the form I/N with 1 ≤ I ≤ N, as 2/4"),
    "a word": ([*FIT, "--shard", "x"], "Invalid value for '--shard': 'x' is not of the form I/N with 1 ≤ I ≤ N, as 2/4"),
    "one model": (["fit-rbm", "rows.h5", "--shard", "1/2"], f"{ONE}\nhint: use --per-class, which fits one model for each label"),
    "layers": (
        ["fit-rbm", "rows.h5", "--layers", "3,2", "--shard", "1/2"],
        f"{ONE}\nhint: use --per-class, which fits one model for each label",
    ),
    "one run": (["herd", "rows.h5", "--shard", "1/2"], f"{ONE}\nhint: use --per-class, which makes one run for each label"),
    "no parts": (["nherd-train", "rows.h5", "--shard", "1/2"], f"{ONE}\nhint: divide the rows of a data set with --parts P"),
    "no groups": (
        ["kernel-herd", "rows.h5", "-m", "3", "--shard", "1/2"],
        f"{ONE}\nhint: divide the rows into groups with --by COLUMN, or into blocks of a file with --block-rows N",
    ),
    "one start": (
        ["ups-infer", "grid.h5", "--shard", "1/2"],
        f"{ONE}\nhint: use --restarts, which makes several starts, or --evidence-rows, whose rows are divided into blocks",
    ),
    "checkpoints of several starts": (
        [*STARTS, "--shard", "1/2", "--checkpoint", "state"],
        "--restarts does not work with --checkpoint\n"
        "hint: run each start as a shard of its own: --shard 1/N, with N = R + 1 for --restarts R",
    ),
    "as text": (
        [*STARTS, "--shard", "1/2", "-o", "s.mar"],
        "s.mar: a shard can only be written as HDF5\nhint: write HDF5, and let herd merge write the other format",
    ),
    "as a table": (
        [*ATOMS, "--shard", "1/2", "-o", "s.csv"],
        "s.csv: a shard can only be written as HDF5\nhint: write HDF5, and let herd merge write the other format",
    ),
    "rows as a table": (
        [*EVIDENCE, "--shard", "1/2", "-o", "s.csv"],
        "s.csv: a shard can only be written as HDF5\nhint: write HDF5, and let herd merge write the other format",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_shards_that_cannot_be_made(run, inputs, name):
    line, says = WRONG[name]
    ended = run(*line)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"herd {line[0]}: {says}\n" + ("" if "hint" in says else f"hint: try 'herd {line[0]} --help'\n")
    assert not list(inputs.glob("s.*"))


@pytest.fixture
def several(run, inputs, shards):
    """s1 … s3 of one fit; f1, f2 of its halves; e2 of more epochs, g2 of another range, d2 of other data, h1 of herding; whole models."""
    shards(FIT, 3)
    shards(FIT, 2, "f")
    for line in (
        [*FIT, "--epochs", "3", "--shard", "2/3", "-o", "e2.h5"],
        [*FIT, "--range", "0,2", "--shard", "2/3", "-o", "g2.h5"],
        ["fit-rbm", "other.h5", *FIT[2:], "--shard", "2/3", "-o", "d2.h5"],
        [*HERD, "--shard", "1/3", "-o", "h1.h5"],
        [*FIT, "-o", "model.h5"],
        ["nherd-train", "rows.h5", "-o", "classifier.h5"],
    ):
        assert run(*line).code == 0
    return inputs


MISFITS = {
    "one is missing": ("s1 s3", "shard 2 of 3 is missing\nhint: --shard 2/3 makes it"),
    "two are missing": ("s2", "shards 1, 3 of 3 are missing\nhint: --shard 1/3 makes the first of them"),
    "one twice": ("s1 s2 s1", "s1.h5: is shard 1 of 3, but so is s1.h5\nhint: name each shard once"),
    "another division": ("s1 f2 s3", "f2.h5: is shard 2 of 2, but s1.h5 is shard 1 of 3\nhint: all shards need the same N of --shard I/N"),
    "other options": ("s1 e2 s3", "e2.h5: was made with --epochs 3, but s1.h5 was made with --epochs 2"),
    "an option that the first has not": ("s1 g2 s3", "g2.h5: was made with --range 0,2, but s1.h5 was made without --range"),
    "other data": ("s1 d2 s3", "d2.h5: was made from other inputs than s1.h5"),
    "another command": ("s1 s2 s3 h1", "h1.h5: is of kind herding-shard, but s1.h5 is of kind rbm-shard"),
    "a model": ("s1 model", "model.h5: is of kind rbm, but only classifiers and shards can be merged"),
    "a classifier": ("classifier s1", "s1.h5: is shard 1 of 3 of a run, but classifier.h5 is a classifier\nhint: merge them separately"),
}


def test_shards_that_do_not_fit_together(run, several):
    for name, (files, says) in MISFITS.items():
        ended = run("merge", *(f"{file}.h5" for file in files.split()), "-o", "out.h5")
        code = 66 if "missing" in says else 65
        assert (ended.code, ended.out, ended.err) == (code, "", f"herd merge: {says}\n"), name
        assert not (several / "out.h5").exists()
    joined = "hint: join the shards first: herd merge\n"
    for line in (["eval", "s2.h5"], ["apply", "s2.h5", "rows.h5"], ["sample", "s2.h5"]):
        ended = run(*line)
        assert (ended.code, ended.out, ended.err) == (
            65,
            "",
            f"herd {line[0]}: s2.h5: is only shard 2 of 3 of a result of kind rbm\n{joined}",
        )
    ended = run("merge", "s1.h5", "s2.h5", "s3.h5", "--combine", "mean", "-o", "out.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (0, "merge: warning: --combine has no effect with shards")
    passed = run("eval", "--keep-going", "s2.h5", "model.h5")
    assert passed.code == 0
    assert "s2.h5 skipped" in passed.err


def test_a_shard_that_was_edited_is_refused(run, inputs, shards):
    name, *_ = shards(FIT, 2)
    with h5py.File(inputs / name, "a") as file:
        file.attrs["units"] = np.int64(7)
    assert run("seal", name).code == 0
    ended = run("info", name)
    assert (ended.code, ended.err) == (65, f"herd info: {name}: shard 1 of 2 cannot have 2 of the 7 parts of the run\n")
    with h5py.File(inputs / name, "a") as file:
        file.attrs["units"], file.attrs["provenance"] = np.int64(4), "[]"
    assert run("seal", name).code == 0
    ended = run("merge", name, "s2.h5", "-o", "out.h5")
    assert (ended.code, ended.err) == (65, f"herd merge: {name}: has no history, so the run that it belongs to is unknown\n")


@pytest.mark.parametrize("command", ["fit-rbm digits.h5 --per-class --epochs 1 --folds 2", "herd digits.h5 --per-class --iterations 2"])
def test_the_baseline_is_dealt_to_all_shards(herd, tmp_path, digits_bytes, command):
    """The nearest training rows, which cost more than the models on large data, are no work of the first shard alone."""
    (tmp_path / "digits.h5").write_bytes(digits_bytes)
    known = []
    for index in (1, 2, 3):
        herd(*command.split(), "--shard", f"{index}/3", "-o", f"shard-{index}.h5")
        parts = artifacts.load(str(tmp_path / f"shard-{index}.h5"), kinds=None).value.parts
        known.append(sum(len(part.nearest) for part in parts) if command.startswith("fit") else np.sum(parts[0].scores.nearest >= 0))
    assert max(known) < 1.5 * min(known)


def test_rows_of_files_and_of_one_file_are_herded_alike(made, herd, monkeypatch, tmp_path):
    """Storage changes no byte of the atoms; a shard reads the rows of its blocks alone, and some for lengths."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from herdcli.artifacts.rows import row_ranges
    from herdcli.cli.kernel_herd import block_tree, indexed_rows

    X = np.random.default_rng(7).standard_normal((400, 3))
    table = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=90)
    pa.csv.write_csv(table, tmp_path / "rows.csv")
    pq.write_table(table.slice(0, 130), tmp_path / "part-1.parquet")
    pq.write_table(table.slice(130), tmp_path / "part-2.parquet")
    options = ("-m", 5, "--block-rows", 50, "--block-atoms", 8)
    found = []
    for name in ("rows.parquet", "rows.csv", "part-?.parquet"):
        assert herd("kernel-herd", name, *options, "-o", "out.h5").code == 0
        found.append(artifacts.load(str(tmp_path / "out.h5")).value)
    for other in found[1:]:
        for name in ("x", "index", "weight", "mmd"):
            np.testing.assert_array_equal(getattr(other, name), getattr(found[0], name))
    read = []
    monkeypatch.setattr(indexed_rows, "BASIS_ROWS", 32)
    with row_ranges.open_ranges(str(tmp_path / "rows.parquet"), input_format=None, note=print, verified=False) as ranged:
        request = SimpleNamespace(row_weight=None)
        rows = indexed_rows.IndexedRows(
            ranged.count,
            ranged.names,
            SimpleNamespace(read=lambda *part: read.append(part) or ranged.read(*part), artifact=ranged.artifact),
            request,
        )
        assert len(indexed_rows.sample_row_ranges(rows)) == 32
        spread, read[:] = list(read), []
        block, weights, first = block_tree.RowLeaves(rows, 50).read_leaf(5)
    assert (spread[0], spread[-1], len(spread)) == ((0, 2), (398, 400), 16)
    assert (read, first, weights.tolist()) == ([(250, 300)], 250, [1.0] * 50)
    np.testing.assert_array_equal(block, X[250:300])


@pytest.mark.parametrize(
    "options", [("--by", "y"), ("--block-rows", "15", "--block-atoms", "6"), ("--block-rows", "15", "--embedding", "nystrom:9")]
)
def test_a_shard_without_units_loads_no_libraries_of_distances(made, options):
    """They took half of the time of a shard that has nothing to do."""
    words = ["kernel-herd", "rows.h5", "-m", "4", *options, "--shard", "40/40", "-o", "nothing.h5"]
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "herdcli.cli.main", *words], cwd=made, capture_output=True, text=True, check=True
    )
    assert "has nothing to do, because there are only 4" in ended.stderr
    assert "numpy" in ended.stderr
    assert "scipy.spatial" not in ended.stderr


def test_shards_of_blocks_that_do_not_fit_together(made, herd, tmp_path):
    """Of other blocks, of an input that changed between them, cut short, missing, given twice."""
    X = np.random.default_rng(1).standard_normal((60, 2))
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b", comments="")

    def shard(place, size, name):
        ended = herd("kernel-herd", "rows.csv", "-m", 3, "--block-rows", size, "--shard", place, "-q", "-o", name)
        assert ended.code == 0, ended.err

    shard("1/2", 20, "one.h5")
    shard("2/2", 20, "two.h5")
    shard("2/2", 30, "other.h5")
    np.savetxt(tmp_path / "rows.csv", X + 1.0, delimiter=",", header="a,b", comments="")
    shard("2/2", 20, "changed.h5")
    whole = (tmp_path / "two.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(whole[:-300])
    for second, code, says in (
        ("other.h5", 65, "other.h5: was made with --block-rows 30, but one.h5 was made with --block-rows 20"),
        ("changed.h5", 65, "changed.h5: was made from other inputs than one.h5"),
        ("cut.h5", 65, f"cut.h5: the file is cut short: {len(whole) - 300:,} bytes instead of {len(whole):,}".replace(",", " ")),
        ("one.h5", 65, "one.h5: is shard 1 of 2, but so is one.h5"),
    ):
        ended = herd("merge", "one.h5", second, "-o", "out.h5")
        assert (ended.code, ended.err.splitlines()[0].replace("\u202f", " ").replace("\xa0", " ")) == (code, f"herd merge: {says}")
    ended = herd("merge", "one.h5", "-o", "out.h5")
    assert (ended.code, ended.err) == (66, "herd merge: shard 2 of 2 is missing\nhint: --shard 2/2 makes it\n")
    assert not (tmp_path / "out.h5").exists()
    assert herd("merge", "two.h5", "one.h5", "-q", "-o", "out.h5").code == 0
