"""`herd convert` that cuts, turns and takes logarithms: what goes along, and what is refused."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.main import main

PICTURES = {
    "X": np.arange(72, dtype=np.uint8).reshape(6, 12),
    "y": np.arange(6),
    "split": np.array([0, 0, 0, 1, 2, 2], dtype=np.uint8),
    "image_shape": np.array([3, 4]),
    "value_range": np.array([0, 255]),
}


@pytest.fixture
def convert(tmp_path, capsys):
    """convert(arrays, *options) is the data set that was made, or the exit code and what stderr says."""

    def run(arrays: dict[str, np.ndarray], *options: object) -> artifacts.Dataset | tuple[int, str]:
        np.savez(tmp_path / "in.npz", **arrays)
        with pytest.raises(SystemExit) as ended:
            main(["convert", str(tmp_path / "in.npz"), "-q", "-o", str(tmp_path / "out.h5"), *map(str, options)])
        if ended.value.code:
            assert not (tmp_path / "out.h5").exists()
            return ended.value.code, capsys.readouterr().err.replace(f"{tmp_path}/", "")
        return artifacts.load(str(tmp_path / "out.h5")).value

    return run


def test_patches_keep_label_and_split_of_their_picture(convert):
    made = convert(PICTURES, "--patches", 2, "--count", 40)
    assert made.X.shape == (40, 4)
    assert np.array_equal(made.X[:, 0] // 12, made.y)
    assert np.array_equal(made.split, PICTURES["split"][made.y])
    assert made.image_shape.tolist() == [2, 2]
    assert made.value_range.tolist() == [0, 255]
    assert np.array_equal(made.X, convert(PICTURES, "--patches", 2, "--count", 40).X)
    assert not np.array_equal(made.X, convert(PICTURES, "--patches", 2, "--count", 40, "--seed", 1).X)


def test_pictures_without_labels_are_numbered(convert):
    made = convert({name: PICTURES[name] for name in ("X", "image_shape")}, "--patches", 1)
    assert made.X.shape == (10_000, 1)
    assert np.array_equal(made.X[:, 0] // 12, made.y)


def test_segments_are_stretches_of_columns(convert):
    signals = {"X": np.arange(40.0).reshape(20, 2), "feature_names": np.array(["left", "right"])}
    made = convert(signals, "--segments", 5, "--count", 30)
    assert np.array_equal(made.X, made.X[:, :1] + 2 * np.arange(5))
    assert np.array_equal(made.X[:, 0] % 2, made.y)
    assert made.class_names == ["left", "right"]


def test_the_transpose_is_before_the_cut_and_logarithms_are_last(convert):
    made = convert(PICTURES, "--transpose", "--log")
    assert np.allclose(made.X, np.log1p(PICTURES["X"].T.astype(float)))
    assert made.y is made.split is made.image_shape is None
    assert np.allclose(made.value_range, [0, np.log(256)])
    stretch = convert(PICTURES, "--transpose", "--segments", 12, "--count", 9)
    assert np.array_equal(stretch.X, PICTURES["X"][stretch.y])


SIGNED = PICTURES | {"X": PICTURES["X"].astype(np.int16) - 13}
PLAIN = {"X": PICTURES["X"]}


@pytest.mark.parametrize(
    ("arrays", "options", "code", "message"),
    [
        (PICTURES, ["--patches", 2, "--segments", 2], 2, "--patches and --segments exclude each other\nhint: ask for one at a time\n"),
        (PICTURES, ["--patches", 4], 2, "patches of 4×4 do not fit into images of 3×4\n"),
        (PICTURES, ["--segments", 7], 2, "segments of 7 samples do not fit into signals of 6\n"),
        (
            PLAIN,
            ["--patches", 2],
            65,
            "in.npz: has no image_shape, which --patches needs\nhint: set the attribute image_shape of /X to the height and width\n",
        ),
        (
            PICTURES,
            ["--patches", 2, "--transpose"],
            65,
            "in.npz: has no image_shape, which --patches needs\nhint: set the attribute image_shape of /X to the height and width\n",
        ),
        (SIGNED, ["--log"], 65, "in.npz: /X has negative values, first in row 0, but log(1 + x) needs values of 0 or more\n"),
        (
            PICTURES,
            ["--patches", 2, "--count", 10**9],
            65,
            "in.npz: 1000000000 pieces would take 4 GB, more than the 1 GB allowed\nhint: only HDF5 and Parquet "
            "files with unchanged rows are converted in parts, to HDF5, Parquet or CSV; or raise --max-memory if the machine has it\n",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(convert, arrays, options, code, message):
    assert convert(arrays, *options, "--max-memory", "1G") == (code, f"herd convert: {message}")


def test_sparse_rows_are_refused(tmp_path, capsys):
    path = tmp_path / "in.svm"
    path.write_text("1 1:2\n0 2:1\n")
    with pytest.raises(SystemExit) as ended:
        main(["convert", str(path), "--log", "-o", str(tmp_path / "out.h5")])
    assert ended.value.code == 65
    assert capsys.readouterr().err.endswith("in.svm: /X is sparse, but images and signals must be dense\n")


def test_options_without_effect_are_named(tmp_path, capsys):
    path: Path = tmp_path / "in.npz"
    np.savez(path, **PICTURES)
    with pytest.raises(SystemExit) as ended:
        main(["convert", str(path), "--count", "3", "--seed", "3", "-o", str(tmp_path / "out.h5")])
    assert ended.value.code == 0
    err = capsys.readouterr().err
    assert "--count has no effect without --patches or --segments\n" in err
    assert "--seed has no effect without --patches, --segments, --split, --hold-out or --binarize stochastic\n" in err


@pytest.mark.slow
def test_rows_of_a_large_file_are_written_in_pieces(herd, tmp_path):
    """The bytes that the same rows give from memory; a gap in the last of them leaves nothing behind."""
    X = np.random.default_rng(0).standard_normal((84_000, 100))
    y, weight = (np.arange(84_000) % 3).astype(np.uint8), np.full(84_000, 0.5)
    for name, rows in (
        ("rows.h5", X),
        ("huge.h5", np.where(X > 5.0, 1e300, X)),
        ("gap.h5", np.where(np.arange(84_000)[:, None] < 83_999, X, np.nan)),
    ):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"], file["y"], file["weight"], file["class_names"] = rows, y, weight, ["a", "b", "c"]
    names = np.array(["a", "b", "c"])
    np.savez(tmp_path / "rows.npz", X=X, y=y, weight=weight, class_names=names)
    for name in ("rows.h5", "rows.npz", "huge.h5"):
        ended = herd("convert", name, "-q", "-o", f"{name}.csv")
        assert ended.code == 0, ended.err
    assert (tmp_path / "rows.h5.csv").read_bytes() == (tmp_path / "rows.npz.csv").read_bytes()
    ended = herd("convert", "gap.h5", "-o", "gap.csv")
    assert (ended.code, "NaN" in ended.err, (tmp_path / "gap.csv").exists()) == (65, True, False), ended.err


def test_grey_rows_become_bits_by_chance(convert):
    grey = np.tile(np.array([0, 51, 127.5, 204, 255]), (4000, 1))
    rows = {"X": grey, "value_range": np.array([0, 255]), "split": np.arange(4000, dtype=np.uint8) % 3}
    made = convert(rows, "--binarize", "stochastic")
    assert (made.X.dtype, made.units, made.value_range.tolist()) == (np.uint8, "binary", [0, 1])
    shares = made.X.mean(axis=0)
    assert np.abs(shares - grey[0] / 255).max() < 4 * 0.5 / np.sqrt(4000)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert np.array_equal(made.split, rows["split"])
    assert np.array_equal(made.X, convert(rows, "--binarize", "stochastic").X)
    assert not np.array_equal(made.X, convert(rows, "--binarize", "stochastic", "--seed", 1).X)
    few = {"X": grey[:1500], "value_range": rows["value_range"]}
    assert np.array_equal(convert(few, "--binarize", "stochastic").X[:1024], made.X[:1024])


def test_bits_need_a_range(convert):
    assert convert({"X": np.arange(6.0).reshape(3, 2)}, "--binarize", "stochastic") == (
        2,
        "herd convert: in.npz: /X has no value_range, so its values are not proportions\n"
        "hint: set the attribute value_range of the data set\n",
    )


def test_columns_are_cut_in_halves_of_their_training_rows(convert):
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(300, 90, 99), random.random(99), np.arange(99) % 10 == 0, np.arange(99) % 10 > 0, np.full(99, 7.0)])
    split = (np.arange(99) >= 60).astype(np.uint8) * 2
    made = convert({"X": X, "split": split}, "--binarize", "median")
    assert (made.X.dtype, made.units, made.value_range.tolist()) == (np.uint8, "binary", [0, 1])
    assert np.array_equal(made.X[:, 0], X[:, 0] >= np.sort(X[:60, 0])[30])  # those of the training rows alone
    assert made.X[:60, :2].mean(axis=0).tolist() == [0.5, 0.5]
    assert np.array_equal(made.X[:, 2:4], X[:, 2:4])  # zeros and ones stay, whichever there are more of
    assert np.ptp(made.X[:, 4]) == 0
    drawn = convert({"X": X}, "--binarize", "median", "--split", ".5,0,.5")
    assert drawn.X[drawn.split == 0, :2].sum(axis=0).tolist() == [25, 25]  # of 50 training rows, which the split is drawn before


def test_the_cut_is_the_one_nearest_to_halves():
    from herdcli.rows.binarization import balanced_thresholds

    random = np.random.default_rng(1)
    for n in (1, 2, 3, 8, 15):
        X = random.integers(0, 4, (n, 30)).astype(float)
        for column, cut in zip(X.T, balanced_thresholds(X), strict=True):
            assert cut in column
            away = {value: abs(2 * (column >= value).sum() - n) for value in np.unique(column)[1:]}
            assert not away or abs(2 * (column >= cut).sum() - n) == min(away.values())


def test_columns_of_different_scales_are_no_matter_of_one_threshold(tmp_path, capsys):
    (tmp_path / "wine.csv").write_text("alcohol,proline,hue\n" + "".join(f"{12 + i / 9:g},{600 + 50 * i},{i / 40}\n" for i in range(20)))
    for command, more in (("fit-mrf", ""), ("herd", ""), ("fit-rbm", "; for real numbers use --visible-units gaussian --standardize")):
        with pytest.raises(SystemExit) as ended:
            main([command, str(tmp_path / "wine.csv"), "-o", str(tmp_path / "out.h5")])
        assert ended.value.code == 2
        assert capsys.readouterr().err.replace(f"{tmp_path}/", "") == (
            f"herd {command}: wine.csv: /X has columns of different scales and no value_range, so one threshold does not suit all of them\n"
            f"hint: split each column at its median: herd convert --binarize median{more}\n"
        )


def test_leading_zeros_of_labels_are_kept_and_of_other_numbers_told(herd, tmp_path):
    (tmp_path / "z.csv").write_text("id,v,y\n007,2.5,01\n1,3,1\n10,4,01\n")
    made = herd("convert", "z.csv", "-o", "out.csv")
    assert made.code == 0
    assert "convert: z.csv: labels such as 01 are read as text, so 01 and 1 are different labels\n" in made.err
    assert "convert: z.csv: column 'id' has numbers such as 007, whose leading zeros are lost\n" in made.err
    assert (tmp_path / "out.csv").read_text() == 'id,v,y\n7,2.5,"01"\n1,3,"1"\n10,4,"01"\n'
    (tmp_path / "plain.csv").write_text("id,v,y\n0,0.5,0\n1,3,1\n10,-0.4,0\n")
    assert "zeros" not in herd("convert", "plain.csv", "-o", "out.csv").err


def test_text_labels_in_svmlight_are_told(herd, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,cat\n3,7,dog\n5,6,cat\n")
    made = herd("convert", "t.csv", "-o", "t.svm")
    assert "convert: svmlight labels are numbers: 0 for 'cat', 1 for 'dog'\n" in made.err
    assert (tmp_path / "t.svm").read_text() == "0 1:1 2:2\n1 1:3 2:7\n0 1:5 2:6\n"
    (tmp_path / "n.csv").write_text("a,b,y\n1,2,-1\n3,7,1\n")
    assert "svmlight labels" not in herd("convert", "n.csv", "-o", "t.svm").err


def test_gaps_are_empty_cells_of_csv_and_filled_in_where_clusters_are_asked_for(herd, tmp_path):
    (tmp_path / "g.csv").write_text("a,b\n1,2\n3,\n5,6\n7,8\n,\n2,3\n")
    assert herd("em", "g.csv", "--model", "hmm", "--components", "1", "--split", "1,0,0", "-q", "-o", "h.h5").code == 0
    assert herd("apply", "h.h5", "g.csv", "-q", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == "a,b,y\n1,2,0\n3,,0\n5,6,0\n7,8,0\n,,0\n2,3,0\n"
    assert herd("em", "g.csv", "--components", "1", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    assert (
        "apply: g.csv: 3 missing values are filled in with the values that the model expects\n"
        in herd("apply", "m.h5", "g.csv", "-o", "c.csv").err
    )
